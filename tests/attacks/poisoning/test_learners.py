"""What a pipeline trains, as the attack sees it: targets, errors, penalties by group, and test points that fit."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC

from divulge import Candidates, Pipeline
from divulge.arrays import Array
from divulge.attacks.poisoning import learners
from divulge.attacks.poisoning.learners import PipelineLearner, learner_of
from divulge.contract.truth import Truth
from divulge.errors import NotApplicable

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3))
SIDES = np.where(X[:, 0] + 0.5 * RNG.standard_normal(40) > 0, "up", "down")
NUMBERS = X @ [1.0, 2.0, 0.0] + 0.1 * RNG.standard_normal(40)
ALPHA = 0.7


def pipeline(learner: str, y: Array, **rest: Any) -> Pipeline:
    return Pipeline(X, y, X[:10], y[:10], learner=learner, **rest)


def learner(held: Pipeline) -> PipelineLearner:
    return learner_of(held, "converged", 150, 0.1, 16, 0)


@pytest.mark.parametrize(
    ("name", "model", "y"),
    [
        ("logistic", LogisticRegression(C=1 / ALPHA, tol=1e-12, max_iter=10_000), SIDES),
        ("ridge", Ridge(alpha=ALPHA), NUMBERS),
        ("ridge_classifier", RidgeClassifier(alpha=ALPHA), SIDES),
        ("linear_svc", LinearSVC(C=1 / ALPHA, tol=1e-12, max_iter=100_000, intercept_scaling=1e4), SIDES),
    ],
)
def test_training_to_the_end_is_scikit_learns(name: str, model: Any, y: Array) -> None:
    ours = learner(pipeline(name, y))
    found = ours.plain(ours.trainer(X, y, X[:10], y[:10]), 3, np.array([[np.log(ALPHA)]]))
    known = model.fit(X, y)
    np.testing.assert_allclose(found.W[0, 0], np.ravel(known.coef_), rtol=1e-3)
    if ours.classes is None:
        residual = float(np.mean((known.predict(X) - y) ** 2) / np.var(y))
        assert ours.wrong(found.W, found.b, X, y).mean() == pytest.approx(residual, rel=1e-6)
    else:
        np.testing.assert_array_equal(ours.wrong(found.W, found.b, X, y)[0], known.predict(X) != y)


def test_labels_come_back_from_their_targets() -> None:
    for y in (SIDES, np.arange(40) % 3, NUMBERS):
        ours = learner(pipeline("ridge" if y is NUMBERS else "logistic", y))
        np.testing.assert_array_equal(ours.labels(ours.targets(y)), y)


def test_errors_are_shown_in_percent_or_in_variances() -> None:
    assert learner(pipeline("logistic", SIDES)).shown(0.1234) == "12.3 %"
    assert learner(pipeline("ridge", NUMBERS)).shown(0.1234) == "0.123 variances"


def test_groups_need_no_consecutive_numbers() -> None:
    ours = learner(pipeline("logistic", SIDES, groups=np.array([7, 2, 7])))
    assert ours.penalties == 2
    assert ours.groups is not None
    assert ours.groups.tolist() == [1, 0, 1]


def test_numbers_are_no_classes_once_they_take_more_than_twenty_values() -> None:
    for values in (20, 21):
        y = np.arange(40) % values + 0.5
        held = Pipeline(X, y, X[:30], y[:30])
        if values == 20:
            classes = learner(held).classes
            assert classes is not None
            assert len(classes) == 20
        else:
            with pytest.raises(NotApplicable, match="have 21 values; use ridge"):
                learner(held)


def test_points_without_labels_are_no_test_points() -> None:
    held = pipeline("logistic", SIDES)
    for truth in ({}, {"candidates": Candidates(X)}):
        assert learners.test_points(Truth(truth), held, learner(held)) is None
    given = learners.test_points(Truth({"candidates": Candidates(X, SIDES)}), held, learner(held))
    assert given is not None
    np.testing.assert_array_equal(given[1], SIDES)


def test_torch_is_imported_by_those_who_train_networks_alone() -> None:
    modules = "divulge.attacks.poisoning.attack, divulge.studies.poisoning_defences.study, divulge.studies.poisoning_map"
    ran = subprocess.run([sys.executable, "-c", f"import {modules}, sys; sys.exit('torch' in sys.modules)"], check=False)
    assert ran.returncode == 0
