"""The kernel machines as estimators: they learn, they clone, and they say what is wrong."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV

from divulge import Fitted, Hyperparameters, datasets
from divulge.errors import BadInput
from divulge.victims.kernels import KernelLogistic, KernelSVM, _refuse_indefinite

MACHINES = [KernelLogistic(0.1), KernelLogistic(0.1, penalty="l1"), KernelSVM(0.1)]


@pytest.mark.parametrize("machine", MACHINES)
def test_tumours_are_told_apart(machine: Any) -> None:
    data = datasets.load("breast-cancer", samples=400, standardised=True)
    fitted = clone(machine).fit(data.X, data.y)
    assert fitted.score(data.X_test, data.y_test) > 0.95
    assert fitted.dual_coef_.shape == (400, 1)
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.decision_function(data.X_test).shape == data.y_test.shape


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly"])
def test_three_flowers_are_one_against_the_rest_each(machine: Any, kernel: str) -> None:
    data = datasets.load("iris", standardised=True)
    names = np.array(["setosa", "versicolor", "virginica"])[data.y]
    fitted = clone(machine).set_params(kernel=kernel).fit(data.X, names)
    assert fitted.dual_coef_.shape == (150, 3)
    assert fitted.score(data.X, names) > 0.95
    for column, name in enumerate(fitted.classes_):
        alone = clone(machine).set_params(kernel=kernel).fit(data.X, names == name)
        np.testing.assert_array_equal(alone.dual_coef_[:, 0], fitted.dual_coef_[:, column])


def test_dual_coefficients_are_stationary_at_scikit_learns_kernel() -> None:
    data = datasets.load("breast-cancer", samples=200, standardised=True)
    y = np.where(data.y == 1, 1, -1)
    dual = KernelLogistic(0.01, gamma=0.05).fit(data.X, data.y).dual_coef_[:, 0]
    f = rbf_kernel(data.X, gamma=0.05) @ dual
    np.testing.assert_allclose(0.01 * dual, y * expit(-y * f), rtol=0, atol=1e-11)


def test_a_search_finds_them_usable() -> None:
    data = datasets.load("iris", samples=90, standardised=True)
    search = GridSearchCV(KernelSVM(), {"alpha": [0.01, 1.0], "kernel": ["rbf", "linear"]}, cv=3).fit(data.X, data.y)
    assert search.best_score_ > 0.9
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


@pytest.mark.parametrize("machine", MACHINES)
def test_what_they_learn_and_hide_can_be_read(machine: Any) -> None:
    data = datasets.load("iris", samples=30)
    fitted = clone(machine).fit(data.X, data.y)
    held = Fitted.of(fitted)
    assert held.kernel is not None
    assert held.kernel.gamma == 0.25
    np.testing.assert_array_equal(held.dual_coef, fitted.dual_coef_)
    assert Hyperparameters.of(fitted).values == {"alpha": 0.1}


@pytest.mark.parametrize("machine", [KernelLogistic(0.1), KernelSVM(0.1)])
def test_a_point_that_counts_for_nothing_is_not_used(machine: Any) -> None:
    data = datasets.load("breast-cancer", samples=100, standardised=True)
    fitted = clone(machine).fit(data.X, data.y, np.arange(100) % 2)
    fewer = clone(machine).fit(data.X[1::2], data.y[1::2])
    np.testing.assert_allclose(fitted.dual_coef_[1::2], fewer.dual_coef_, rtol=1e-9, atol=1e-12)
    assert not fitted.dual_coef_[::2].any()


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (KernelLogistic(0.0), "expected a positive number for alpha of KernelLogistic, got 0.0"),
        (KernelLogistic(float("nan")), "expected a positive number for alpha of KernelLogistic, got nan"),
        (KernelSVM("1"), "expected a positive number for alpha of KernelSVM, got '1'"),  # type: ignore[arg-type]  # the mistake
        (KernelSVM(gamma=-1.0), "expected a positive number for gamma of KernelSVM, got -1.0"),
        (KernelSVM(kernel="rfb"), "kernel of KernelSVM: unknown key 'rfb'; did you mean 'rbf'"),
        (KernelLogistic(penalty="l0"), "penalty of KernelLogistic: unknown key 'l0'"),
        (KernelSVM(kernel="sigmoid", coef0=0), "expected a positive semi-definite kernel, got sigmoid"),
        (KernelLogistic(kernel="poly", coef0=-5), "expected a positive semi-definite kernel, got poly"),
    ],
)
def test_other_settings_are_refused(machine: Any, sentence: str) -> None:
    data = datasets.load("iris", samples=30)
    with pytest.raises(BadInput, match=sentence):
        machine.fit(data.X, data.y)


def test_other_points_are_refused() -> None:
    data = datasets.load("iris", samples=30)
    with pytest.raises(BadInput, match="expected a fitted KernelSVM"):
        KernelSVM().predict(data.X)
    with pytest.raises(BadInput, match=r"expected labels of two classes or more, got only \[1.0\]"):
        KernelSVM().fit(data.X, np.ones(30))
    with pytest.raises(BadInput, match="expected one label for each of the 30 training points"):
        KernelSVM().fit(data.X, data.y[:3])
    with pytest.raises(BadInput, match="expected points with the 4 features that were fitted, got 2"):
        KernelSVM().fit(data.X, data.y).predict(data.X[:, :2])


@pytest.mark.parametrize(("share", "refused"), [(0.9e-10, False), (1.1e-10, True)])
def test_an_eigenvalue_is_negative_by_rounding_up_to_a_ten_billionth_of_their_sum(share: float, refused: bool) -> None:
    """Rounding leaves −1e-16 of it in the Gram matrix of 1,000 points."""
    K = np.diag([0.5, 0.5, -share])
    with pytest.raises(BadInput, match="positive semi-definite") if refused else nullcontext():
        _refuse_indefinite(K, "rbf")
