"""A classifier that says how likely something is right, and is right as often as it says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from divulge.arrays import Array
from divulge.solvers.shared.calibration import RIDGE, CalibratedClassifier

RNG = np.random.default_rng


def drawn(seed: int, count: int = 400) -> tuple[Array, Array]:
    """Measures of which the first tells what is right, not always."""
    rng = RNG(seed)
    measures = rng.standard_normal((count, 4))
    return measures, measures[:, 0] + 0.3 * rng.standard_normal(count) > 1


def test_it_learns_what_tells_right_from_wrong() -> None:
    measures, right = drawn(5)
    classifier = CalibratedClassifier.fit(measures, right.astype(float))
    fresh, truly = drawn(6)
    confidence = classifier.confidence(fresh)
    assert np.corrcoef(confidence, truly)[0, 1] > 0.8
    assert confidence.mean() == pytest.approx(np.mean(truly), abs=0.05)


def test_it_is_right_as_often_as_it_says() -> None:
    measures, right = drawn(5, 4000)
    fresh, truly = drawn(6, 4000)
    confidence = CalibratedClassifier.fit(measures, right.astype(float)).confidence(fresh)
    for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.0)):
        some = (confidence >= low) & (confidence < high)
        assert truly[some].mean() == pytest.approx(confidence[some].mean(), abs=0.05)


def test_it_is_the_ridge_regression_that_it_says() -> None:
    """Beside scikit-learn's, on standardised measures; what keeps the constant small is too little to see."""
    measures, right = drawn(5, 60)
    found = CalibratedClassifier.fit(measures, right.astype(float))
    scaled = (measures - measures.mean(axis=0)) / measures.std(axis=0)
    peer = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(scaled, right)
    assert found.weights[:-1] == pytest.approx(peer.coef_[0], abs=2e-3)
    assert found.weights[-1] == pytest.approx(peer.intercept_[0], abs=2e-3)


def test_newtons_method_has_settled() -> None:
    """The gradient of what is minimised is 0, also where a measure tells everything."""
    measures = RNG(0).standard_normal((50, 2))
    right = (measures[:, 0] > 0).astype(float)
    found = CalibratedClassifier.fit(measures, right)
    z = (measures - found.centre) / found.width
    slope = z.T @ (found.confidence(measures) - right) + RIDGE * found.weights[:-1]
    assert slope == pytest.approx(np.zeros(2), abs=1e-9)


def test_it_orders_as_it_was_taught() -> None:
    measures = RNG(0).normal(size=(400, 3))
    classifier = CalibratedClassifier.fit(measures, (measures[:, 0] > 0).astype(float))
    order = classifier.log_odds(measures)
    assert np.corrcoef(order, measures[:, 0])[0, 1] > 0.95
    np.testing.assert_array_equal(classifier.confidence(measures) > 0.5, order > 0)


def test_units_of_the_measures_do_not_matter() -> None:
    measures, right = drawn(5)
    one = CalibratedClassifier.fit(measures, right.astype(float))
    other = CalibratedClassifier.fit(1000 * measures + 7, right.astype(float))
    assert other.confidence(1000 * measures + 7) == pytest.approx(one.confidence(measures), abs=1e-6)
    same = CalibratedClassifier.fit(np.column_stack([measures, np.ones(400)]), right.astype(float))
    assert np.isfinite(same.confidence(np.ones((1, 5)))).all()
