"""Poisoning: what contributed points do to a pipeline, what re-tuning saves, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from divulge import Candidates, Context, Pipeline, datasets
from divulge.attacks import Poisoning
from divulge.attacks.poisoning import campaign
from divulge.attacks.poisoning.learners import learner_of
from divulge.attacks.poisoning.outcome import PoisonedPipelines
from divulge.attacks.poisoning.records import Campaign, FailedTraining, PoisonLevel, Setting
from divulge.auditing import audit
from divulge.contract import Array, Curve, Finding, ImagePairs, Poison
from divulge.contract.truth import Truth
from divulge.errors import BadInput, NotApplicable
from divulge.storage import pack, unpack

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"points": 12, "batch": 6, "iterations": 40, "starts": 2}


@pytest.fixture(scope="module")
def digits() -> datasets.Dataset:
    return datasets.load("mnist-0-8", samples=200, seed=3)


def pipeline(digits: datasets.Dataset, **more: Any) -> Pipeline:
    return Pipeline(digits.X[:120], digits.y[:120], digits.X[120:], digits.y[120:], shape=(28, 28), **more)


def truth(digits: datasets.Dataset) -> dict[str, Candidates]:
    return {"candidates": Candidates(digits.X_test, digits.y_test)}


def quick(**options: Any) -> Poisoning:
    return Poisoning(**QUICK | options)


def won(finding: Finding[Poison]) -> tuple[Poison, Array]:
    """The points, and what they were made of."""
    assert finding.loot is not None
    assert finding.loot.start is not None
    return finding.loot, finding.loot.start


def seen(finding: Finding[Poison]) -> PoisonedPipelines:
    assert isinstance(finding.evidence, PoisonedPipelines)
    return finding.evidence


def strengths(finding: Finding[Poison], setting: Setting) -> Array:
    """(splits, levels, penalties)"""
    return np.stack([each.strengths for each in seen(finding).penalties if each.setting == setting], axis=1)


def errors(finding: Finding[Poison]) -> Curve:
    assert isinstance(finding.figures[0], Curve)
    return finding.figures[0]


@pytest.fixture(scope="module")
def found(digits: datasets.Dataset) -> Finding[Poison]:
    return quick()(pipeline(digits), truth=truth(digits), context=Context(0))


def test_a_few_points_raise_the_test_error_far_above_wrong_labels_alone(found: Finding[Poison]) -> None:
    assert found.verdict == "leak"
    error = found.scores["test error"]
    assert error.value > 0.08
    assert error.value > error.null + 0.03
    assert "12 points (10.0 % of the training set, 9.1 % of the mix) raise test error from" in found.summary
    assert "lower bound on the worst case" in found.summary


def test_test_points_confirm_a_claim_deny_it_or_are_too_few(digits: datasets.Dataset) -> None:
    """Chosen by what the models of the attack say: those that poison alone makes wrong, and those that it leaves right."""
    attack, held = quick(), pipeline(digits)
    blind = attack(held, context=Context(0))
    assert blind.verdict == "leak"
    assert seen(blind).rise == pytest.approx(blind.scores["validation error"].value - blind.scores["validation error"].null)
    learner = learner_of(held, attack.regime, attack.epochs, attack.rate, attack.width, blind.provenance.seed)
    models = seen(blind).settings[attack.setting(held)]
    poisoned, plain = (
        learner.wrong(each.W[0], each.b[0], digits.X_test, digits.y_test)[-1]
        for each in (models.poisoned, models.mislabelled)
    )
    clean = learner.wrong(models.poisoned.W[0], models.poisoned.b[0], digits.X_test, digits.y_test)[0]
    harmed, spared = (np.flatnonzero(some) for some in (poisoned & ~plain & ~clean, ~poisoned & ~plain & ~clean))
    for chosen, verdict, said in (
        (harmed[:20], "leak", "raise test error"),
        (harmed[:3], "leak", "Test points are too few to show it"),
        (np.append(harmed[:2], spared[:400]), "failed", "Test points show no rise beyond that of wrong labels alone"),
        (spared[:3], "failed", "Test points show no rise beyond that of wrong labels alone"),
    ):
        known = Candidates(digits.X_test[chosen], digits.y_test[chosen])
        scored = attack.score(blind, held, Truth({"candidates": known}))
        assert scored.verdict == verdict
        assert said in scored.summary
        assert ("too few" in scored.summary) == (len(chosen) == 3 and verdict == "leak")


def test_re_tuning_the_penalty_saves_most_of_it_and_the_penalty_grows(found: Finding[Poison]) -> None:
    assert found.scores["test error re-tuned, in that of the penalty tuned on clean data"].value < 0.6
    assert found.scores["growth of the penalty's logarithm"].value > 1
    assert found.scores["spread of the weights, poisoned in clean, re-tuned"].value < 1


def test_the_penalty_of_every_level_is_a_value_of_the_finding_and_survives_the_store(found: Finding[Poison]) -> None:
    answered = [each for each in seen(found).penalties if each.setting == "learned"]
    assert [each.points for each in answered] == [0, 6, 12]
    growth = found.scores["growth of the penalty's logarithm"].value
    assert float(answered[-1].strengths[0, 0] - answered[0].strengths[0, 0]) == pytest.approx(growth)
    kept = unpack(*pack(seen(found)))
    assert isinstance(kept, PoisonedPipelines)
    assert [(each.setting, each.points) for each in kept.penalties] == [
        (each.setting, each.points) for each in seen(found).penalties
    ]


def test_the_error_is_that_of_a_model_trained_on_the_loot(found: Finding[Poison], digits: datasets.Dataset) -> None:
    loot, _ = won(found)
    strength = strengths(found, "cross-validated")[0, -1, 0]
    model = LogisticRegression(C=np.exp(-strength), tol=1e-10, max_iter=10_000)
    model.fit(np.vstack([digits.X[:120], loot.X]), np.concatenate([digits.y[:120], loot.y]))
    assert 1 - model.score(digits.X_test, digits.y_test) == pytest.approx(found.scores["test error"].value, abs=0.006)


def test_points_stay_in_the_box_and_keep_the_label_that_their_start_does_not_have(
    found: Finding[Poison], digits: datasets.Dataset
) -> None:
    loot, start = won(found)
    assert loot.X.min() >= 0
    assert loot.X.max() <= 1
    held_out = {row.tobytes(): label for row, label in zip(digits.X[120:], digits.y[120:], strict=True)}
    assert [held_out[row.tobytes()] for row in start] == [-label for label in loot.y]
    for batch in (start[:6], start[6:]):
        assert len(np.unique(batch, axis=0)) == 6


def test_a_box_a_feature_is_kept(digits: datasets.Dataset) -> None:
    high = np.linspace(0, 1, 784)
    held = Pipeline(
        np.minimum(digits.X[:120], high),
        digits.y[:120],
        np.minimum(digits.X[120:], high),
        digits.y[120:],
        high=high,
        low=0.0,
    )
    loot, _ = won(quick(alone=True)(held))
    assert (high - loot.X).min() >= 0
    assert (loot.X >= 0).all()


def test_figures_show_errors_penalty_weights_and_pictures(found: Finding[Poison]) -> None:
    titles = [figure.title for figure in found.figures]
    assert titles[:3] == [
        "What contributed points do to the test error",
        "How the re-tuned penalty answers",
        "How large the re-tuned weights are",
    ]
    assert "Contributed points" in titles
    shares, percent = errors(found).series["penalty tuned on clean data"]
    np.testing.assert_allclose(shares, [0, 5, 10])
    assert percent[-1] == pytest.approx(100 * found.scores["test error"].value)
    assert isinstance(found.figures[-1], ImagePairs)
    assert len(found.figures[-1].left) == 12


def test_without_test_points_the_validation_error_is_reported_and_said_to_be_biased(digits: datasets.Dataset) -> None:
    blind = quick()(pipeline(digits))
    assert "validation error" in blind.scores
    assert "test error" not in blind.scores
    assert any("optimised against" in note for note in blind.notes)


def test_several_splits_give_an_interval(digits: datasets.Dataset) -> None:
    finding = quick(repetitions=3, alone=True, points=6)(pipeline(digits), truth=truth(digits))
    error = finding.scores["test error"]
    assert error.interval is not None
    assert error.interval[0] < error.value < error.interval[1]
    assert seen(finding).settings["cross-validated"].poisoned.W.shape[:2] == (3, 2)
    assert errors(finding).bands


@pytest.mark.parametrize("hyperparameter", ["fixed", "cross-validated", "learned"])
def test_every_way_of_setting_the_penalty_stops_early_too(digits: datasets.Dataset, hyperparameter: str) -> None:
    options: dict[str, Any] = {"hyperparameter": hyperparameter, "regime": "early-stopped", "epochs": 60, "alone": True}
    finding = quick(**options)(pipeline(digits), truth=truth(digits))
    assert any(note.startswith("Regime: the pipeline stops early, after 60 steps") for note in finding.notes)
    percent = next(iter(errors(finding).series.values()))[1]
    assert percent[-1] > percent[0]


def test_a_pipeline_without_anything_to_raise_is_none_found() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    finding = Poisoning(points=4, batch=4, iterations=10, starts=1)(Pipeline(X[:200], y[:200], X[200:], y[200:]))
    assert finding.verdict == "none found"
    assert "the same attack reaches" in finding.power


def test_a_regression_is_poisoned_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 10))
    y = X @ rng.normal(size=10) + 0.1 * rng.normal(size=160)
    held = Pipeline(X[:60], y[:60], X[60:90], y[60:90], learner="ridge")
    finding = quick()(held, truth={"candidates": Candidates(X[90:], y[90:])})
    assert finding.verdict == "leak"
    error = finding.scores["test squared error"]
    assert error.value > 5 * errors(finding).series["penalty tuned on clean data"][1][0]
    loot, _ = won(finding)
    strength = strengths(finding, "cross-validated")[0, -1, 0]
    model = Ridge(alpha=np.exp(strength)).fit(np.vstack([X[:60], loot.X]), np.append(y[:60], loot.y))
    assert np.mean((model.predict(X[90:]) - y[90:]) ** 2) / np.var(y[90:]) == pytest.approx(error.value, rel=1e-4)


@pytest.mark.parametrize("learner", ["ridge_classifier", "linear_svc"])
def test_other_linear_classifiers_are_poisoned_too(digits: datasets.Dataset, learner: str) -> None:
    finding = quick(alone=True)(pipeline(digits, learner=learner), truth=truth(digits))
    assert finding.verdict == "leak"
    assert finding.scores["test error"].value > finding.scores["test error"].null


def test_three_classes_are_poisoned_with_labels_that_are_not_theirs() -> None:
    digits = datasets.load("mnist", only=[0, 1, 8], samples=150, seed=0)
    held = Pipeline(digits.X[:90], digits.y[:90], digits.X[90:], digits.y[90:], shape=(28, 28))
    attack = quick(alone=True, regime="early-stopped", epochs=60)
    finding = attack(held, truth={"candidates": Candidates(digits.X_test, digits.y_test)})
    true = {row.tobytes(): label for row, label in zip(digits.X[90:], digits.y[90:], strict=True)}
    loot, start = won(finding)
    assert all(true[row.tobytes()] != label for row, label in zip(start, loot.y, strict=True))
    assert set(loot.y) <= {0, 1, 8}
    assert finding.scores["test error"].value > finding.scores["test error"].null


def test_names_of_classes_survive(digits: datasets.Dataset) -> None:
    names = np.where(digits.y > 0, "eight", "zero")
    held = Pipeline(digits.X[:120], names[:120], digits.X[120:], names[120:])
    finding = quick(alone=True, points=6)(held)
    assert set(won(finding)[0].y) <= {"eight", "zero"}


def test_a_penalty_for_each_group_of_features_is_learned(digits: datasets.Dataset) -> None:
    groups = np.repeat(np.arange(4), 196)
    attack = quick(hyperparameter="learned", alone=True, points=6)
    learned = strengths(attack(pipeline(digits, groups=groups), truth=truth(digits)), "learned")
    assert learned.shape == (1, 2, 4)
    assert np.ptp(learned[0, -1]) > 0.1


def test_a_network_is_poisoned_by_name_or_as_a_module() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 2)) * 1.2
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] += 0.7 * (2 * y - 1)
    options: dict[str, Any] = {"points": 20, "batch": 20, "iterations": 32, "starts": 1, "alone": True}
    options["hyperparameter"] = "fixed"
    options |= {"regime": "early-stopped", "epochs": 40, "rate": 0.5, "step": 0.2}
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    data = X[:60], y[:60], X[60:100], y[60:100]
    for held in (Pipeline(*data, learner="two-layer"), Pipeline.of(module, *data)):
        finding = Poisoning(**options)(held, truth={"candidates": Candidates(X[100:], y[100:])})
        assert finding.verdict != "not applicable"
        assert won(finding)[0].X.shape == (20, 2)
        clean, after = errors(finding).series["fixed penalty"][1]
        assert after > clean
    assert Poisoning()(held).verdict == "not applicable"
    assert "early-stopped" in Poisoning()(held).summary


def test_validation_points_that_are_training_points_are_counted(digits: datasets.Dataset) -> None:
    held = Pipeline(digits.X[:120], digits.y[:120], digits.X[110:], digits.y[110:])
    said: list[str] = []
    finding = quick(alone=True, points=6)(held, context=Context(log=said.append))
    assert any(note.startswith("10 of 90 validation points are training points too") for note in finding.notes)
    assert said


def test_a_training_that_diverges_is_said_to_and_its_steps_halved(digits: datasets.Dataset) -> None:
    options: dict[str, Any] = {
        "regime": "early-stopped",
        "epochs": 40,
        "rate": 50.0,
        "hyperparameter": "fixed",
        "alone": True,
    }
    finding = quick(**options)(pipeline(digits))
    assert any(note.startswith("Training diverged at rate 50; it was halved") for note in finding.notes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"learner": "huber"}, "huber is not differentiated here"),
        ({"y": np.ones(120)}, "one class only"),
        ({"y_val": np.ones(80)}, "validation points have one class only"),
        ({"y_val": np.arange(80) % 2 + 5}, "that no training point has"),
        ({"learner": "linear_svc", "y": np.arange(120) % 3, "y_val": np.arange(80) % 3}, "use logistic"),
        ({"y": np.linspace(0, 1, 120), "y_val": np.linspace(0, 1, 120)[:80]}, "use ridge"),
    ],
)
def test_what_cannot_be_attacked_says_why(digits: datasets.Dataset, changes: dict[str, Any], said: str) -> None:
    parts: dict[str, Any] = {"X": digits.X[:120], "y": digits.y[:120], "X_val": digits.X[120:], "y_val": digits.y[120:]}
    finding = quick()(Pipeline(**parts | changes))
    assert finding.verdict == "not applicable"
    assert said in finding.summary


def test_more_points_than_memory_or_validation_points_allow_are_refused(digits: datasets.Dataset) -> None:
    large = Poisoning(points=2_000_000)(pipeline(digits))
    assert large.verdict == "not applicable"
    assert "GB of memory" in large.summary
    learner = learner_of(pipeline(digits), "converged", 150, 0.1, 16, 0)
    Poisoning(points=300_000).check_size(pipeline(digits), learner)  # 5.6 GB, three copies of 784 numbers a point
    with pytest.raises(NotApplicable, match="about 7 GB"):
        Poisoning(points=350_000).check_size(pipeline(digits), learner)
    wide = Poisoning(points=90, batch=90)(pipeline(digits))
    assert "begins from as many different validation points, and there are 80" in wide.summary


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bounds": (5.0, -8.0)}, "'bounds'.*lower bound first"),
        ({"clean_bounds": (1.0, 1.0)}, "'clean_bounds'.*lower bound first"),
        ({"points": 0}, "'points'"),
        ({"hyperparameter": "grid"}, "'hyperparameter'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Poisoning(**options)


def test_a_fixed_penalty_out_of_bounds_is_refused(digits: datasets.Dataset) -> None:
    with pytest.raises(BadInput, match="strength within bounds"):
        Poisoning(hyperparameter="fixed", strength=99.0)(pipeline(digits))


def test_test_points_that_do_not_fit_are_refused(digits: datasets.Dataset) -> None:
    attack = quick(alone=True, points=6)
    with pytest.raises(BadInput, match="784 features"):
        attack(pipeline(digits), truth={"candidates": Candidates(digits.X_test[:, :5], digits.y_test)})
    with pytest.raises(BadInput, match="classes of the training points"):
        attack(pipeline(digits), truth={"candidates": Candidates(digits.X_test, digits.y_test + 5)})


def test_finished_levels_are_kept_when_a_run_is_interrupted(
    digits: datasets.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = {"pipeline": pipeline(digits)}
    given: dict[str, Any] = {"attacks": ["poisoning"], "options": {"poisoning": {**QUICK, "alone": True}}, "workers": 1}
    whole = audit(held, **given, out=tmp_path / "whole")
    real, before, interrupted = campaign.contribute, [], [True]

    def counted(state: Campaign, rng: np.random.Generator, **rest: Any) -> PoisonLevel | FailedTraining:
        before.append(len(state.points))
        if before[-1] and interrupted:
            raise KeyboardInterrupt
        return real(state, rng, **rest)

    monkeypatch.setattr(campaign, "contribute", counted)
    with pytest.raises(KeyboardInterrupt):
        audit(held, **given, out=tmp_path / "cut")
    interrupted.clear()
    resumed = audit(held, **given, out=tmp_path / "cut")
    assert before == [0, 6, 6]
    loot, known = resumed.findings[0].loot, whole.findings[0].loot
    assert isinstance(loot, Poison)
    assert isinstance(known, Poison)
    np.testing.assert_array_equal(loot.X, known.X)


def failing(after: int) -> Any:
    """A step that gives up once so many points are there."""
    real = campaign.contribute

    def contribute(state: Campaign, rng: np.random.Generator, **rest: Any) -> PoisonLevel | FailedTraining:
        return FailedTraining("no minimum") if len(state.points) >= after else real(state, rng, **rest)

    return contribute


def test_levels_before_a_training_that_fails_are_reported_and_the_rest_is_not(
    digits: datasets.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "contribute", failing(6))
    finding = quick(alone=True)(pipeline(digits), truth=truth(digits))
    assert won(finding)[0].X.shape == (6, 784)
    assert seen(finding).ended == "no minimum"
    assert "Ended after 6 of 12 points: no minimum" in finding.notes
    monkeypatch.setattr(campaign, "contribute", failing(0))
    nothing = quick(alone=True)(pipeline(digits))
    assert (nothing.verdict, nothing.summary) == ("failed", "No minimum.")


def test_a_scored_finding_says_of_test_points_what_the_blind_one_says_of_validation_points(
    digits: datasets.Dataset,
) -> None:
    held = Pipeline(digits.X[:120], digits.y[:120], digits.X[110:], digits.y[110:], shape=(28, 28))
    attack = quick(regime="early-stopped", epochs=40, rate=50.0, iterations=40)
    blind, scored = (attack(held, truth=known, context=Context(0)) for known in (None, truth(digits)))
    settings = ("Weakest penalty", "Penalty tuned on clean data", "Penalty re-tuned", "Strongest penalty")
    for notes, where in ((blind.notes, "validation"), (scored.notes, "test")):
        assert [note.partition(" error ")[0] for note in notes[:4]] == [f"{name}: {where}" for name in settings]
    assert "optimised against" in blind.notes[4]
    assert scored.notes[4:] == blind.notes[5:]
    kept = ("10 of 90 validation points", "Regime: the pipeline stops early", "Training diverged at rate 50", "Where the")
    for begin in kept:
        assert any(note.startswith(begin) for note in scored.notes)


def test_scoring_reads_nothing_that_is_written_for_people(found: Finding[Poison], digits: datasets.Dataset) -> None:
    attack, held = quick(), pipeline(digits)
    blind = attack(held, context=Context(0))
    mute = replace(blind, summary="Hidden.", notes=(), figures=(), scores={})
    scored = attack.score(mute, held, Truth(truth(digits)))
    assert (scored.verdict, scored.summary) == (found.verdict, found.summary)
    assert scored.notes == found.notes
    assert scored.scores == found.scores


def test_a_finding_without_its_evidence_is_left_as_it_is(digits: datasets.Dataset, found: Finding[Poison]) -> None:
    bare = replace(found, evidence=None)
    assert quick().score(bare, pipeline(digits), Truth(truth(digits))) is bare
