"""Gradient cancelling as a baseline: where training ends, what that takes at least, and whom it is not for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from divulge import Candidates, Context, Finding, Pipeline, audit, datasets
from divulge.baselines import GradientCancelling
from divulge.baselines.gradient_cancelling import CancelledGradient
from divulge.contract import Poison


@pytest.fixture(scope="module")
def digits() -> datasets.Dataset:
    return datasets.load("mnist-0-8", samples=200, seed=3)


@pytest.fixture(scope="module")
def held(digits: datasets.Dataset) -> Pipeline:
    return Pipeline(digits.X[:120], digits.y[:120], digits.X[120:], digits.y[120:], shape=(28, 28))


@pytest.fixture(scope="module")
def found(held: Pipeline, digits: datasets.Dataset) -> Finding[Poison]:
    return GradientCancelling(points=15)(held, truth=truth(digits), context=Context(0))


def truth(digits: datasets.Dataset) -> dict[str, Candidates]:
    return {"candidates": Candidates(digits.X_test, digits.y_test)}


def seen(finding: Finding[Poison]) -> CancelledGradient:
    assert isinstance(finding.evidence, CancelledGradient)
    return finding.evidence


def test_training_with_the_points_ends_near_the_target(
    found: Finding[Poison], held: Pipeline, digits: datasets.Dataset
) -> None:
    assert found.loot is not None
    assert found.loot.X.shape == (15, 784)
    assert found.loot.X.min() >= 0
    assert found.loot.X.max() <= 1
    model = LogisticRegression(tol=1e-10, max_iter=10_000)
    model.fit(np.vstack([held.X, found.loot.X]), np.append(held.y, found.loot.y))
    target, clean = seen(found).target.W[0], seen(found).clean.W[0]
    assert np.linalg.norm(model.coef_[0] - target) < 0.1 * np.linalg.norm(clean - target)
    assert 1 - model.score(digits.X_test, digits.y_test) == pytest.approx(found.scores["test error"].value, abs=0.006)
    assert found.scores["gradient left at the target"].value < 0.02


def test_the_target_is_as_far_as_the_points_reach(found: Finding[Poison]) -> None:
    assert 14 < seen(found).needed <= 15
    assert 0 <= seen(found).bound <= seen(found).needed
    assert "take" in found.summary
    assert found.scores["test error"].null_of == "as many validation points with wrong labels"


def test_an_audit_runs_it_by_name(held: Pipeline) -> None:
    options: dict[str, Any] = {"gradient-cancelling": {"points": 3}}
    done = audit({"pipeline": held}, attacks=[], studies=["gradient-cancelling"], options=options)
    assert [finding.provenance.attack for finding in done.findings] == ["gradient-cancelling"]
    assert "validation error" in done.findings[0].scores
    assert not done.findings[0].provenance.won


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ({"learner": "ridge"}, "two classes and a linear score"),
        ({"y": [0, 1, 2]}, "two classes and a linear score"),
        ({"groups": [0, 0, 1]}, "one penalty on all features"),
        ({"learner": LogisticRegression(C=0.5)}, "by name"),
    ],
)
def test_what_it_is_not_for_is_said(rest: dict[str, Any], said: str) -> None:
    rng = np.random.default_rng(0)
    rest = {**rest}
    X, y = rng.normal(size=(60, 3)), np.resize(rest.pop("y", [0, 1]), 60)
    finding = GradientCancelling(points=3)(Pipeline(X[:40], y[:40], X[40:], y[40:], **rest))
    assert finding.verdict == "not applicable"
    assert said in finding.summary
    assert "poisoning" in finding.summary


@pytest.mark.parametrize(("learner", "rest"), [("ridge_classifier", 0.1), ("linear_svc", 0.5)])  # a hinge's points can die
def test_other_linear_classifiers_are_pulled_along_too(learner: str, rest: float) -> None:
    rng = np.random.default_rng(1)
    y = np.arange(160) % 2
    X = rng.normal(size=(160, 5)) + y[:, None]
    held = Pipeline(X[:100], y[:100], X[100:], y[100:], learner=learner)
    finding = GradientCancelling(points=20)(held, context=Context(0))
    clean, target, reached = (model.W[0] for model in (seen(finding).clean, seen(finding).target, seen(finding).poisoned))
    assert np.linalg.norm(reached - target) < rest * np.linalg.norm(clean - target)
