"""A customer who pays for tuning on a sample only: what is stolen, what it saves and what it loses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Lasso, Ridge
from sklearn.model_selection import GridSearchCV, KFold

from divulge import Context, Pipeline, Verdict
from divulge.arrays import Array
from divulge.contract import Curve
from divulge.studies import TrainStealRetrain, train_steal_retrain as study
from divulge.studies.train_steal_retrain import TUNED, Draw, StolenFromSamples, saving, train_steal_retrain, tune

pytestmark = pytest.mark.slow

Split = tuple[Array, Array, Array, Array]
QUICK: dict[str, Any] = {"grid": (-2, -1, 0, 1, 2), "folds": 3, "draws": 4}


def split(load: Callable[..., Any], rows: int | None = None) -> Split:
    X, y = load(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(0).permutation(len(X))[:rows]
    half = len(order) * 2 // 3
    return X[order[:half]], y[order[:half]], X[order[half:]], y[order[half:]]


NUMBERS, LABELS = split(load_diabetes), split(load_breast_cancer)


def draw(learner: str, data: Split, seed: int = 0, **options: Any) -> list[Draw]:
    return train_steal_retrain(*data, learner, rng=np.random.default_rng(seed), **{**QUICK, "fraction": 0.3} | options)


@pytest.mark.parametrize("learner", TUNED)
def test_what_is_stolen_from_the_sample_is_what_the_service_tuned(learner: str) -> None:
    data = NUMBERS if learner in ("ridge", "lasso") else LABELS
    draws = draw(learner, data)
    found = [one for one in draws if one.stolen is not None]
    assert len(found) >= 3
    for one in found:
        assert one.stolen == pytest.approx(one.tuned_on_sample, rel=0.1)


def test_a_sample_tunes_about_as_well_as_everything() -> None:
    lost = [one.accuracy_tuned - (one.accuracy_retrained or 0.0) for one in draw("ridge", NUMBERS)]
    random = [one.accuracy_tuned - one.accuracy_random for one in draw("svc", LABELS, draws=6)]
    assert abs(np.mean(lost)) < 0.01
    assert np.mean(random) > 0.02


def test_tuning_chooses_as_the_grid_search_of_scikit_learn_does() -> None:
    X, y, X_val, y_val = NUMBERS
    for seed in range(3):
        parts = KFold(3, shuffle=True, random_state=seed)
        search = GridSearchCV(Ridge(), {"alpha": [100.0, 10.0, 1.0, 0.1]}, cv=parts).fit(X, y)
        value, model = tune("ridge", X, y, [100.0, 10.0, 1.0, 0.1], 3, seed)
        assert value == search.best_params_["alpha"]
        assert model.score(X_val, y_val) == pytest.approx(search.score(X_val, y_val))


def test_retraining_uses_everything_and_the_stolen_penalty() -> None:
    X, y, X_val, y_val = NUMBERS
    for one in draw("ridge", NUMBERS):
        assert one.accuracy_retrained == pytest.approx(Ridge(one.stolen).fit(X, y).score(X_val, y_val))
    for one in draw("lasso", NUMBERS):
        assert one.stolen is not None
        carried = one.stolen * one.rows / len(X)  # the same weight against a sum of more losses
        assert one.accuracy_retrained == pytest.approx(Lasso(carried).fit(X, y).score(X_val, y_val))


def test_a_sample_has_its_share_of_every_class() -> None:
    X, y, X_val, y_val = LABELS
    rare = np.flatnonzero(y == 0)[:30]
    kept = np.concatenate([rare, np.flatnonzero(y == 1)])
    for one in draw("ridge_classifier", (X[kept], y[kept], X_val, y_val), fraction=0.1):
        assert one.rows == 3 + round(0.1 * (y == 1).sum())


def test_only_a_clock_gives_seconds() -> None:
    ticks = iter(range(1000))
    timed = draw("ridge", NUMBERS, clock=lambda: float(next(ticks)))
    assert [one.seconds for one in draw("ridge", NUMBERS)] == [{}] * 4
    assert [one.seconds for one in timed] == [dict.fromkeys(("service", "stealing", "retraining", "tuning"), 1.0)] * 4


def test_the_saving_counts_every_row_that_is_trained_on() -> None:
    drawn = Draw(1.0, 1.0, 1.0, 0.9, 0.9, 0.8, rows=100, trainings=0)
    # 4 penalties with 5 folds train on 16 times everything, and the winner once more.
    assert saving(drawn, 1000, folds=5, grid=4) == pytest.approx(17 * 1000 / (17 * 100 + 1000))
    replayed = Draw(1.0, 1.0, 1.0, 0.9, 0.9, 0.8, rows=100, trainings=20)
    assert saving(replayed, 1000, folds=5, grid=4) == pytest.approx(17 * 1000 / (37 * 100 + 1000))
    failed = Draw(None, 1.0, 1.0, None, 0.9, 0.8, rows=100, trainings=20)
    assert saving(failed, 1000, folds=5, grid=4) == pytest.approx(17 * 1000 / (37 * 100 + 17 * 1000))


def test_the_finding_of_a_ridge_says_what_was_saved_and_what_was_lost() -> None:
    finding = TrainStealRetrain(fraction=0.3, **QUICK)(Pipeline(*NUMBERS, learner="ridge"))
    assert finding.verdict is Verdict.LEAK
    assert finding.summary.startswith(
        "Tuning on 0.3 of the data, stealing alpha and training once on everything takes 1/2.6"
    )
    assert "alpha was stolen in 4 of 4 draws" in finding.summary
    saved, lost = finding.scores["speed-up in rows trained"], finding.scores["R² lost"]
    assert saved.value > 2
    assert saved.null == 1
    assert abs(lost.value) < 0.01
    assert lost.interval is not None
    assert lost.interval[0] <= lost.value <= lost.interval[1] <= 0.01
    assert isinstance(finding.evidence, StolenFromSamples)
    assert finding.evidence.unit == "alpha"
    np.testing.assert_allclose(finding.evidence.stolen, finding.evidence.tuned, rtol=0.1)
    (curve,) = finding.figures
    assert isinstance(curve, Curve)
    assert {name: len(x) for name, (x, _) in curve.series.items()} == {
        "tuned on everything": 4, "tuned on a sample, stolen, trained once": 4, "a penalty drawn from the grid": 4,
    }  # fmt: skip


def test_figures_over_draws_are_means_with_students_interval_and_the_evidence_has_them_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost, stolen = (0.001, 0.002, 0.006), iter((1.0, 2.0, 9.0))
    made = iter(Draw(next(stolen), 1.0, 1.0, 0.9 - one, 0.9, 0.7, rows=10, trainings=0) for one in lost)
    monkeypatch.setattr(study, "one_draw", lambda rng, data, **options: next(made))
    finding = TrainStealRetrain(draws=3)(Pipeline(*LABELS, learner="logistic"))
    score = finding.scores["accuracy lost"]
    assert score.value == pytest.approx(0.003)
    assert score.null == pytest.approx(0.2)
    half = 4.302653 * np.std(lost, ddof=1) / np.sqrt(3)
    assert score.interval == pytest.approx((0.003 - half, 0.003 + half), rel=1e-6)
    assert finding.verdict is Verdict.LEAK
    assert isinstance(finding.evidence, StolenFromSamples)
    assert finding.evidence.unit == "C"
    assert sorted(finding.evidence.stolen)[::2] == [1.0, 9.0]


def test_where_the_equations_do_not_tell_training_again_does() -> None:
    weak: dict[str, Any] = {"grid": (-3, -2), "draws": 2}
    alone, helped = (draw("logistic", LABELS, **weak, trainings=most) for most in (0, 20))
    assert [one.stolen for one in alone] == [None, None]
    for one in helped:
        assert one.stolen == pytest.approx(one.tuned_on_sample)
        assert one.trainings > 0


def test_the_useless_customer_draws_from_the_grid() -> None:
    X, y, X_val, y_val = NUMBERS
    possible = [Ridge(10.0**power).fit(X, y).score(X_val, y_val) for power in (-2, -1, 0, 1, 2)]
    drawn = [np.argmin(np.abs(np.subtract(possible, one.accuracy_random))) for one in draw("ridge", NUMBERS, draws=12)]
    assert len(set(drawn)) >= 4


def test_a_sample_too_small_to_tune_on_loses_more_than_is_allowed() -> None:
    rng = np.random.default_rng(0)
    X = 0.3 * rng.normal(size=(300, 40))
    y = X @ rng.normal(size=40) + 0.5 * rng.normal(size=300)
    finding = TrainStealRetrain(fraction=0.06, **QUICK | {"draws": 20})(
        Pipeline(X[:200], y[:200], X[200:], y[200:], "ridge")
    )
    assert finding.verdict is Verdict.NONE_FOUND
    assert finding.loot is None
    interval = finding.scores["R² lost"].interval
    assert interval is not None
    assert interval[1] > 0.01
    assert "may cost too much" in finding.summary
    assert "a loss of R² up to 0.01 would have counted" in finding.power


def test_models_that_give_up_nothing_leave_nothing_to_retrain_with() -> None:
    """Points so far apart that no support vector reaches the bound of its weight."""
    X = np.concatenate([np.eye(40), -np.eye(40)]) * np.random.default_rng(0).uniform(0.8, 1.2, size=(80, 1))
    data = (X, np.repeat([0, 1], 40), X[::7], np.repeat([0, 1], 40)[::7])
    finding = TrainStealRetrain(fraction=0.5, grid=(-3, -2), folds=2, draws=2, trainings=0)(Pipeline(*data, learner="svc"))
    assert finding.verdict is Verdict.NONE_FOUND
    assert "C was stolen in 0 of 2 draws" in finding.summary
    assert finding.scores["speed-up in rows trained"].value < 1
    assert "accuracy lost" not in finding.scores


@pytest.mark.parametrize(
    ("learner", "y", "options", "reason"),
    [
        ("mlp_classifier", None, {}, "mlp_classifier is not tuned here; of the learners ridge, lasso"),
        ("logistic", np.zeros(379), {}, "one class only"),
        ("ridge", np.full(379, "a"), {}, "needs numbers as targets"),
        ("ridge", np.zeros((379, 2)), {}, "there are several"),
        ("logistic", None, {"fraction": 0.01}, "would have 1 points of a class, and 5 folds need 5; raise the fraction"),
        ("ridge", None, {"fraction": 0.02}, "would have 8 points, and 5 folds need 10; raise the fraction"),
    ],
)
def test_what_cannot_be_tuned_is_said_not_to_apply(
    learner: str, y: Array | None, options: dict[str, Any], reason: str
) -> None:
    X, labels, X_val, y_val = LABELS
    finding = TrainStealRetrain(**options)(Pipeline(X, labels if y is None else y, X_val, y_val, learner=learner))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert reason in finding.summary


def test_draws_differ_and_the_seed_decides_them() -> None:
    first, second, other = draw("ridge", NUMBERS), draw("ridge", NUMBERS), draw("ridge", NUMBERS, seed=1)
    assert first == second
    assert first != other
    assert len({one.stolen for one in first}) > 1


def test_an_interrupted_run_does_not_draw_again() -> None:
    kept: dict[str, Any] = {}

    class Memory:
        def recall(self, name: str) -> Any:
            return kept[name]

        def keep(self, name: str, value: Any) -> None:
            kept[name] = value

    attack, pipeline = TrainStealRetrain(fraction=0.3, **QUICK), Pipeline(*NUMBERS, learner="ridge")
    attack(pipeline, context=Context(memory=Memory()))
    assert len(kept) == 4
    for piece in kept.values():
        piece["value"]["accuracy_tuned"] = 0.99  # as a second run would only see it there
    again = attack(pipeline, context=Context(memory=Memory()))
    assert again.scores["R² lost"].value > 0.3


@pytest.mark.parametrize(("lost", "verdict"), [(0.009, Verdict.LEAK), (0.011, Verdict.NONE_FOUND)])
def test_a_hundredth_of_the_accuracy_is_what_a_customer_may_lose(
    monkeypatch: pytest.MonkeyPatch, lost: float, verdict: Verdict
) -> None:
    made = Draw(1.0, 1.0, 1.0, 0.9 - lost, 0.9, 0.7, rows=10, trainings=0)
    monkeypatch.setattr(study, "one_draw", lambda rng, data, **options: made)
    assert TrainStealRetrain(draws=3)(Pipeline(*LABELS, learner="logistic")).verdict is verdict
