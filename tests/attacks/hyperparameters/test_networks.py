"""Networks: a single layer is a ridge regression, so its weight decay has a closed form to compare with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from divulge import Fitted, TrainingData, Verdict
from divulge.arrays import Array
from divulge.attacks import HyperparameterStealing
from divulge.attacks.hyperparameters.networks import build_network_problem
from divulge.errors import BadInput, NotApplicable
from divulge.learners.catalogue import LEARNERS
from divulge.solvers.stationarity.refit import Trainer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 5))
Y = X @ RNG.normal(size=5) + 0.3 + 0.5 * RNG.normal(size=80)


def one_layer(decay: float, biases: bool) -> tuple[Array, Array]:
    """argmin mean (f − y)² + decay/2 ‖(W, b)‖², the bias decayed or free."""
    wide = np.column_stack([X, np.ones(80)])
    penalty = decay * np.diag([1.0] * 5 + [float(biases)])
    theta = np.linalg.solve(2 / 80 * wide.T @ wide + penalty, 2 / 80 * wide.T @ Y)
    return theta[None, :5], theta[5:]


@pytest.mark.parametrize("decay", [1e-3, 0.1, 3.0])
def test_torch_decays_the_biases_too_and_gives_up_its_weight_decay(decay: float) -> None:
    fitted = Fitted("network", layers=(one_layer(decay, biases=True),))
    finding = HyperparameterStealing()(fitted, TrainingData(X, Y))
    assert finding.verdict is Verdict.LEAK
    assert finding.loot is not None
    assert finding.loot.values["weight_decay"] == pytest.approx(decay, rel=1e-9)


def test_scikit_learn_leaves_them_free() -> None:
    """Its objective is Σ (f − y)² / 2 + alpha/2 ‖W‖², so alpha is n/2 times the decay of the mean."""
    fitted = Fitted("mlp_regressor", layers=(one_layer(0.1, biases=False),))
    finding = HyperparameterStealing()(fitted, TrainingData(X, Y))
    assert finding.loot is not None
    assert finding.loot.values["alpha"] == pytest.approx(0.1 * 80 / 2, rel=1e-9)


def test_labels_of_two_classes_are_tried_with_both_losses_and_the_equations_choose() -> None:
    labels = (np.median(Y) < Y).astype(float)
    wide, signs = np.column_stack([X, np.ones(80)]), 2 * labels - 1

    def objective(theta: Array) -> tuple[float, Array]:
        margin = signs * (wide @ theta)
        gradient = -wide.T @ (signs / (1 + np.exp(margin))) / 80 + 0.05 * theta
        return float(np.logaddexp(0, -margin).mean() + 0.025 * theta @ theta), gradient

    theta = minimize(objective, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-12}).x
    fitted = Fitted("network", layers=((theta[None, :5], theta[5:]),))
    finding = HyperparameterStealing()(fitted, TrainingData(X, labels))
    assert finding.loot is not None
    assert finding.loot.values["weight_decay"] == pytest.approx(0.05, rel=1e-5)


def built(learner: str, y: Array, **settings: object) -> None:
    fitted = Fitted(learner, layers=(one_layer(0.1, biases=True),), settings=settings)
    build_network_problem(fitted, X, y, np.ones(80), Trainer(LEARNERS[learner], settings, {}, X, y))


def test_a_loss_that_is_not_attacked_is_named() -> None:
    with pytest.raises(NotApplicable, match="the loss 'poisson' is not attacked; squared_error is"):
        built("mlp_regressor", Y, loss="poisson")


def test_labels_that_do_not_fit_the_outputs_are_refused() -> None:
    with pytest.raises(BadInput, match="expected labels of 2 classes, as the network has outputs, got 3"):
        built("mlp_classifier", np.arange(80) % 3)
    with pytest.raises(BadInput, match="expected targets with 1 columns"):
        built("network", np.column_stack([Y, Y]))
