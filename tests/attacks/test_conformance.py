"""One table: every attack on a victim with a known answer keeps every promise. A new attack adds a line."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge

from divulge import (
    Candidates,
    Fitted,
    Gradients,
    Hyperparameters,
    Membership,
    Parameters,
    Pipeline,
    Predictions,
    Scores,
    TrainingData,
    Weights,
    datasets,
    registry,
    victims,
)
from divulge.contract import Attack, Finding, option_class
from divulge.solvers.stationarity import backprop
from divulge.testing import Nonconforming, check_attack


def ridge():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    y = X @ rng.normal(size=4) + rng.normal(size=50)
    estimator = Ridge(0.7).fit(X, y)
    return (Fitted.of(estimator), TrainingData(X, y)), {"hyperparameters": Hyperparameters.of(estimator)}


def logistic():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    estimator = LogisticRegression().fit(X, X @ rng.normal(size=4) + rng.normal(size=50) > 0)
    return (Predictions(estimator.predict_proba, 4, "logistic"),), {"parameters": Parameters(estimator.coef_)}


def blind_ridge():
    (fitted, data), _ = ridge()
    return (Parameters(coef=fitted.coef, intercept=fitted.intercept), data), {"fitted": fitted}


def large_ridge():
    """Coefficients of which a few decimals more or less say little."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    y = 100 * (X @ rng.normal(size=4) + rng.normal(size=50))
    estimator = Ridge(0.7).fit(X, y)
    return (Fitted.of(estimator), TrainingData(X, y)), {"hyperparameters": Hyperparameters.of(estimator)}


def ridge_pipeline():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = X @ rng.normal(size=4) + rng.normal(size=200)
    return (Pipeline(X[:150], y[:150], X[150:], y[150:], learner="ridge"),), None


def planes_through_the_origin():
    rng = np.random.default_rng(0)
    layers = (rng.normal(size=(10, 12)), np.zeros(10)), (rng.normal(size=(1, 10)), np.zeros(1))
    return (Gradients.of(Weights(layers)),), {"weights": Weights(layers)}


def three_classes():
    rng = np.random.default_rng(0)
    layers = (rng.normal(size=(8, 5)), rng.normal(size=8)), (rng.normal(size=(3, 8)), np.zeros(3))
    X = rng.normal(size=(400, 5))
    test = Candidates(X[300:], Weights(layers).predict(X[300:]).argmax(1))
    return (Gradients.of(Weights(layers)), Candidates(X[:300])), {"candidates": test}


def three_classes_blind():
    (model, _), truth = three_classes()
    return (model,), truth


def explained_network():
    rng = np.random.default_rng(0)
    network = Weights(
        ((rng.standard_normal((6, 4)), rng.standard_normal(6)), (rng.standard_normal((1, 6)), rng.standard_normal(1)))
    )
    return (Gradients.of(network),), {"weights": network}


def ten_digits():
    """A network of two layers and ten outputs, trained by gradient descent on one digit of each class."""
    digits = datasets.load("mnist", samples=10, seed=0)
    X, y, rng = np.asarray(digits.X, dtype=float), np.eye(10)[digits.y], np.random.default_rng(0)
    layers = [(1e-4 * rng.normal(size=(40, 784)), np.zeros(40)), (rng.normal(size=(10, 40)) / np.sqrt(40), np.zeros(10))]
    for _ in range(300):
        slopes = backprop.gradient(layers, X, lambda outputs: (softmax(outputs, axis=1) - y) / len(y))
        layers = [(W - 0.5 * dW, b - 0.5 * db) for (W, b), (dW, db, _, _) in zip(layers, slopes, strict=True)]
    return (Weights(tuple(layers), shape=(28, 28)),), {"training_data": TrainingData(X, digits.y, shape=(28, 28))}


def points_on_a_sphere():
    data = datasets.load("sphere", dimension=200, samples=140, test=1)
    return (TrainingData(data.X, data.y),), None


def scored_elsewhere():
    rng = np.random.default_rng(0)
    member = rng.random(300) < 0.5
    scores = Scores(rng.normal(size=300) + 2 * member, np.arange(300), "another tool")
    return (scores,), {"membership": Membership(member.astype(float), member, np.arange(300))}


def zigzag():
    """A network with one input at a KKT point of its margin."""
    victim = victims.make("univariate", None, None, np.random.default_rng(0), points=8)
    return tuple(victim.held.values()), dict(victim.truth)


def zigzag_values():
    (network,), truth = zigzag()
    return (Predictions.of(network),), truth


def ten_digits_and_others():
    """The same network, and whether those digits are members among others."""
    (network,), truth = ten_digits()
    others = datasets.load("mnist", samples=10, seed=0).X_test[:400]
    asked = Candidates(np.concatenate([truth["training_data"].X, others]), shape=(28, 28))
    return (network, asked), truth


def far_apart():
    """A network whose output at eight orthogonal points is 10 or −10, and near 0 elsewhere."""
    rng = np.random.default_rng(0)
    X = np.vstack([10 * np.eye(40)[:8] * rng.uniform(0.999, 1.001, (8, 1)), rng.normal(size=(60, 40))])
    layers = (np.eye(40)[:8], np.zeros(8)), (np.tile([[-1.0, 1.0]], 4), np.zeros(1))
    asked = Candidates(X)
    return (Predictions.of(Weights(layers)), asked), {"training_data": TrainingData(X[:8], np.tile([-1, 1], 4))}


def zeros_and_eights():
    digits = datasets.load("mnist-0-8", samples=90, seed=3)
    held = Pipeline(digits.X[:50], digits.y[:50], digits.X[50:], digits.y[50:], shape=(28, 28))
    return (held,), {"candidates": Candidates(digits.X_test, digits.y_test)}


def two_clouds():
    data = datasets.load("two-gaussians", seed=2)
    held = Pipeline(data.X[:32], data.y[:32], data.X[32:], data.y[32:], low=-9.5, high=9.5)
    return (held,), {"candidates": Candidates(data.X_test, data.y_test)}


VICTIMS = {
    "algorithm": blind_ridge,
    "blind-surrogate": three_classes_blind,
    "first-layer-images": ten_digits,
    "gradient-extraction": explained_network,
    "hyperparameters": ridge,
    "imported-membership": scored_elsewhere,
    "kkt-reconstruction": ten_digits,
    "linear-extraction": logistic,
    "margin-membership": far_apart,
    "margin-simulation": points_on_a_sphere,
    "model-inversion": ten_digits,
    "poisoning": zeros_and_eights,
    "poisoning-defences": zeros_and_eights,
    "poisoning-map": two_clouds,
    "published-extraction": planes_through_the_origin,
    "rounded-release": large_ridge,
    "span-membership": ten_digits_and_others,
    "span-reconstruction": ten_digits,
    "surrogate": three_classes,
    "train-steal-retrain": ridge_pipeline,
    "univariate-from-values": zigzag_values,
    "univariate-reconstruction": zigzag,
    "value-extraction": planes_through_the_origin,
}


OPTIONS = {
    "margin-simulation": {"trials": 8, "points": 5, "hidden": 5000, "fresh": 100, "depth": 50},
    "kkt-reconstruction": {"steps": 60, "count": 10},
    "poisoning": {"points": 8, "batch": 8, "iterations": 4, "starts": 1, "repetitions": 2},
    "poisoning-defences": {"points": 8, "batch": 8, "iterations": 4, "starts": 1, "parts": 5},
    "poisoning-map": {"cells": 8, "penalties": 3, "epochs": 100},
}
"Where the defaults take long."


@pytest.mark.parametrize("name", registry.attacks())
def test_every_attack_keeps_its_promises(name):
    held, truth = VICTIMS[name]()
    finding = check_attack(registry.attack(name)(**OPTIONS.get(name, {})), *held, truth=truth)
    assert finding.verdict.value == "leak"


def made(run, **fields):
    annotations = {"name": ClassVar[str], **dict.fromkeys(fields, float)}
    body = {"name": "made", "run": run, "__annotations__": annotations, **fields}
    return option_class(type("Made", (Attack,), {**body, "__orig_bases__": (Attack[Predictions, Hyperparameters],)}))()


def answer(value):
    return Finding.leak(Hyperparameters({"a": float(value)}), "Won.")


def prints(self, held, context):
    print("hello")
    return answer(1)


def forgets_its_seed(self, held, context):
    return answer(np.random.default_rng().normal())


def spends_unseen(self, held, context):
    held.value.__closure__[0].cell_contents(np.ones((1, 2)))  # around the meter
    return answer(1)


def changes_when_resumed(self, held, context):
    seen = []
    context.once("piece", lambda rng: seen.append(1) or 0.0)
    return answer(len(seen))


def shares_state(self, held, context):
    seen = []
    return answer(context.map("items", lambda item, rng: seen.append(item) or len(seen), range(6))[-1])


def wrong_loot(self, held, context):
    return replace(answer(1), loot=TrainingData(np.eye(2)))


@pytest.mark.parametrize(
    ("run", "fields", "promise"),
    [
        (prints, {}, "it printed 'hello'"),
        (forgets_its_seed, {}, "the same seed gave another finding"),
        (spends_unseen, {}, "it sent 1 queries and reports 0"),
        (wrong_loot, {}, "its loot is not Hyperparameters"),
        (changes_when_resumed, {}, "a run that was resumed found something else"),
        (shares_state, {}, "two workers found something else than one"),
        (lambda self, held, context: answer(1), {"level": 1.0}, "option 'level' has no sentence"),
    ],
)
def test_a_broken_promise_is_named(run, fields, promise):
    model = Predictions(lambda X: X, 2, "m")
    with pytest.raises(Nonconforming, match=promise):
        check_attack(made(run, **fields), model)


def test_options_that_can_change_are_caught():
    class Loose(Attack[Predictions, Hyperparameters]):
        __pydantic_fields__: ClassVar[dict] = {}

        def __init__(self, **anything):
            pass

    with pytest.raises(Nonconforming, match="unknown option was accepted"):
        check_attack(Loose(), Predictions(lambda X: X, 2))
