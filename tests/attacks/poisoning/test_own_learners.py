"""Learners of the user's own: what is read of them, that what is reported is scikit-learn's, and what is not applicable."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeClassifier,
    RidgeCV,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, PolynomialFeatures, QuantileTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from divulge import Candidates, Context, Pipeline, cli, datasets
from divulge.arrays import Array
from divulge.attacks import Poisoning
from divulge.attacks.poisoning.campaign import validated
from divulge.attacks.poisoning.learners import learner_of
from divulge.attacks.poisoning.outcome import PoisonedPipelines
from divulge.attacks.poisoning.records import PipelineSplit
from divulge.contract import Curve, Finding, OwnLearner, Poison
from divulge.errors import BadInput
from divulge.studies.poisoning_defences.study import PoisoningDefences
from divulge.studies.poisoning_map import PoisoningMap

# Some stop early, to be quick.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

QUICK: dict[str, Any] = {"points": 24, "batch": 12, "iterations": 40, "starts": 1, "alone": True}
NETWORK: dict[str, Any] = {"regime": "early-stopped", "epochs": 20, "rate": 0.3, "iterations": 6}
CV: dict[str, Any] = {"l1_ratios": (0,), "scoring": "accuracy", "use_legacy_attributes": False}

ROWS = np.random.default_rng(7).permutation(569)
TUMOURS, KINDS = (part[ROWS] for part in load_breast_cancer(return_X_y=True))
PEOPLE, PROGRESS = load_diabetes(return_X_y=True, scaled=False)


class Fussy(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """Takes the points it has and no more."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        if len(X) > 200:
            raise ValueError("too many\nof them")
        return super().fit(X, y, sample_weight)


def scaled(last: Any) -> Any:
    return make_pipeline(StandardScaler(), last)


def pipeline(learner: Any, X: Array = TUMOURS, y: Array = KINDS, **rest: Any) -> Pipeline:
    return Pipeline(X[:200], y[:200], X[200:300], y[200:300], learner=learner, **rest)


def unseen(X: Array = TUMOURS, y: Array = KINDS) -> dict[str, Candidates]:
    return {"candidates": Candidates(X[300:], y[300:])}


def own(learner: Any, X: Array = TUMOURS, y: Array = KINDS) -> OwnLearner:
    found = pipeline(learner, X, y).own
    assert found is not None
    return found


def with_loot(learner: Any, loot: Poison, X: Array = TUMOURS, y: Array = KINDS) -> Any:
    """The user's own, trained by scikit-learn alone."""
    model = clone(learner)
    loose = [name for name, value in model.get_params().items() if name.endswith("random_state") and value is None]
    model.set_params(**dict.fromkeys(loose, 0))
    return model.fit(np.concatenate([X[:200], loot.X]), np.concatenate([y[:200], loot.y]))


def error(finding: Finding[Poison], level: int = -1) -> float:
    """Of the pipeline's own setting, in percent or variances."""
    assert isinstance(finding.figures[0], Curve)
    return float(next(iter(finding.figures[0].series.values()))[1][level])


CLASSIFIERS = {
    "logistic": scaled(LogisticRegression(C=0.5)),
    "logistic, L1": scaled(LogisticRegression(l1_ratio=1.0, solver="liblinear", C=0.5)),
    "logistic, elastic": make_pipeline(
        MinMaxScaler(), LogisticRegression(l1_ratio=0.5, solver="saga", max_iter=2000, tol=1e-6)
    ),
    "logistic, tuned": scaled(LogisticRegressionCV(Cs=3, **CV)),
    "ridge": make_pipeline(StandardScaler(), PCA(8), RidgeClassifier(alpha=2.0)),
    "svc": scaled(LinearSVC(C=0.1)),
    "hinge": scaled(SVC(kernel="linear", C=0.1)),
    "sgd": scaled(SGDClassifier(loss="log_loss", alpha=0.01)),
    "search": GridSearchCV(scaled(LogisticRegression()), {"logisticregression__C": [0.01, 1.0]}, cv=3),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_error_reported_is_that_of_scikit_learn_trained_on_the_loot(name: str) -> None:
    learner = CLASSIFIERS[name]
    finding = Poisoning(**QUICK)(pipeline(learner), truth=unseen(), context=Context(0))
    assert finding.loot is not None
    assert finding.loot.start is not None
    for X, reported in ((finding.loot.X, "value"), (finding.loot.start, "null")):
        model = with_loot(learner, replace(finding.loot, X=X))
        missed = float((model.predict(TUMOURS[300:]) != KINDS[300:]).mean())
        assert getattr(finding.scores["test error"], reported) == pytest.approx(missed, abs=1e-12)
    assert error(finding) > error(finding, 0)


@pytest.mark.parametrize(
    "learner", [Ridge(alpha=5.0), Lasso(alpha=0.5), ElasticNet(alpha=0.1), LassoCV(cv=3), RidgeCV()], ids=repr
)
def test_a_regression_of_the_users_own_is_measured_by_itself_too(learner: Any) -> None:
    learner = scaled(learner)
    finding = Poisoning(**QUICK)(pipeline(learner, PEOPLE, PROGRESS), truth=unseen(PEOPLE, PROGRESS))
    assert finding.verdict == "leak"
    assert finding.loot is not None
    said = with_loot(learner, finding.loot, PEOPLE, PROGRESS).predict(PEOPLE[300:])
    known = float(np.mean((said - PROGRESS[300:]) ** 2) / np.var(PROGRESS[300:]))
    assert finding.scores["test squared error"].value == pytest.approx(known, rel=1e-9)


def test_units_of_raw_columns_do_not_stop_points() -> None:
    finding = Poisoning(**QUICK)(pipeline(CLASSIFIERS["logistic"]), truth=unseen(), context=Context(0))
    assert finding.verdict == "leak"
    assert finding.scores["test error"].value > 1.3 * finding.scores["test error"].null
    assert finding.loot is not None
    inside = np.clip(finding.loot.X, TUMOURS[:300].min(axis=0), TUMOURS[:300].max(axis=0))
    np.testing.assert_array_equal(finding.loot.X, inside)


@pytest.mark.parametrize("last", [LogisticRegression(max_iter=1000), LinearSVC(C=0.1)], ids=repr)
def test_points_behind_a_scaler_do_more_than_wrong_labels_to_pictures_too(last: Any) -> None:
    """Pixels that hardly ever vary are scaled up, and points there would make a few losses of 1e8 and few errors."""
    digits = datasets.load("mnist", only=[3, 5], samples=330, seed=0)
    held = Pipeline(
        digits.X[:220], digits.y[:220], digits.X[220:], digits.y[220:], scaled(last), digits.shape, low=0.0, high=1.0
    )
    truth = {"candidates": Candidates(digits.X_test, digits.y_test)}
    options = QUICK | {"points": 22, "batch": 22, "iterations": 100}
    error = Poisoning(**options)(held, truth=truth, context=Context(0)).scores["test error"]
    assert error.value > 2 * error.null


def test_every_way_of_setting_the_penalty_is_measured_with_the_users_estimator() -> None:
    learner = CLASSIFIERS["logistic"]
    finding = Poisoning(**QUICK | {"alone": False, "points": 12})(pipeline(learner), truth=unseen())
    seen = finding.evidence
    assert isinstance(seen, PoisonedPipelines)
    assert set(seen.settings) == {"weak", "fixed", "cross-validated", "learned", "strong"}
    for setting in ("weak", "fixed", "strong", "learned"):
        models = seen.settings[setting].poisoned
        model = clone(learner).set_params(logisticregression__C=np.exp(-models.strengths[0, 0, 0]))
        model.fit(TUMOURS[:200], KINDS[:200])
        W = model[-1].coef_ / model[0].scale_
        np.testing.assert_allclose(models.W[0, 0], W, rtol=1e-6, atol=1e-12)
    assert seen.settings["fixed"].poisoned.strengths[0, 0, 0] == pytest.approx(np.log(2))


@pytest.mark.parametrize("hidden", [(6,), (5, 4)])
@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
def test_a_network_is_read_and_measured_by_training_it_again(hidden: tuple[int, ...], activation: str) -> None:
    learner = scaled(MLPClassifier(hidden, activation=activation, max_iter=30))
    finding = Poisoning(**QUICK | NETWORK | {"points": 12})(pipeline(learner), truth=unseen(), context=Context(0))
    assert finding.loot is not None
    missed = (with_loot(learner, finding.loot).predict(TUMOURS[300:]) != KINDS[300:]).mean()
    assert finding.scores["test error"].value == pytest.approx(float(missed), abs=1e-12)
    assert any("plain descent from the weights that it has on clean data" in note for note in finding.notes)


def test_a_network_of_three_classes_is_measured_too() -> None:
    kinds = np.array(["a", "b", "c"])[KINDS + (TUMOURS[:, 0] > 18)]
    learner = scaled(MLPClassifier((6,), max_iter=30))
    options = QUICK | NETWORK | {"points": 12}
    finding = Poisoning(**options)(pipeline(learner, y=kinds), truth=unseen(y=kinds))
    assert finding.loot is not None
    missed = (with_loot(learner, finding.loot, y=kinds).predict(TUMOURS[300:]) != kinds[300:]).mean()
    assert finding.scores["test error"].value == pytest.approx(float(missed), abs=1e-12)


@pytest.mark.parametrize(
    ("learner", "name", "strength", "l1_ratio", "averaged"),
    [
        (LogisticRegression(C=0.5), "logistic", np.log(2), 0.0, False),
        (LogisticRegression(C=0.5, l1_ratio=0.3, solver="saga", max_iter=1), "logistic", np.log(2), 0.3, False),
        (LinearSVC(penalty="l1", dual=False, C=2.0), "linear_svc", -np.log(2), 1.0, False),
        (SGDClassifier(penalty="l1", alpha=0.01), "linear_svc", np.log(0.01), 1.0, True),
        (SGDClassifier(loss="log_loss", penalty="elasticnet", alpha=0.01), "logistic", np.log(0.01), 0.15, True),
        (MLPClassifier((3,), alpha=0.2, max_iter=5), "mlp_classifier", np.log(0.2), 0.0, False),
        (LogisticRegression(C=np.inf), "logistic", -8.0, 0.0, False),
    ],
)
def test_penalties_are_read(learner: Any, name: str, strength: float, l1_ratio: float, averaged: bool) -> None:
    found = own(scaled(learner))
    assert (found.learner, found.l1_ratio, found.averaged) == (name, l1_ratio, averaged)
    assert found.strength == pytest.approx(strength)


@pytest.mark.parametrize(
    ("learner", "l1_ratio"), [(Ridge(3.0), 0.0), (Lasso(3.0), 1.0), (ElasticNet(3.0, l1_ratio=0.2), 0.2)], ids=repr
)
def test_points_climb_against_the_minimum_that_the_estimator_has(learner: Any, l1_ratio: float) -> None:
    """With its own penalty, and the steps before it, the solver's training ends where scikit-learn's does."""
    held = pipeline(scaled(learner), PEOPLE, PROGRESS)
    ours = learner_of(held, "converged", 1, 0.1, 1, 0)
    assert held.own is not None
    assert held.own.l1_ratio == l1_ratio
    given = np.asarray(held.X), held.y, np.asarray(held.X_val), held.y_val
    found = ours.plain(ours.trainer(*given), held.X.shape[1], np.array([[held.own.strength]]))
    W, b = held.own.layers(held.X, held.y, None)[0]
    np.testing.assert_allclose(found.W[0], W, rtol=1e-3, atol=1e-5 * np.abs(W).max())
    np.testing.assert_allclose(found.b[0], b, rtol=1e-3)


def test_in_what_an_estimator_differs_is_said() -> None:
    found = own(scaled(LinearSVC(loss="hinge", class_weight="balanced")))
    assert found.apart == (
        "its loss is the hinge, and points climb against its square",
        "it has a penalty on its intercept",
        "it weighs classes",
    )
    finding = Poisoning(**QUICK)(pipeline(scaled(LogisticRegression(fit_intercept=False))))
    assert any(note.endswith("StandardScaler, LogisticRegression: it has no intercept.") for note in finding.notes)


@pytest.mark.parametrize("step", [PolynomialFeatures(2), Normalizer(), QuantileTransformer(n_quantiles=50)], ids=repr)
def test_a_step_that_is_not_affine_is_named(step: Any) -> None:
    finding = Poisoning()(pipeline(make_pipeline(step, StandardScaler(), LogisticRegression(max_iter=2000))))
    assert finding.verdict == "not applicable"
    assert f"The step {type(step).__name__} before the LogisticRegression is no sum of multiples" in finding.summary


def test_a_step_that_cuts_what_lies_outside_the_data_is_affine_within_them_only() -> None:
    cutting = make_pipeline(MinMaxScaler(clip=True), LogisticRegression())
    assert "MinMaxScaler" in own(cutting).unfit
    X = TUMOURS.clip(TUMOURS[:200].min(axis=0), TUMOURS[:200].max(axis=0))
    assert not own(cutting, X).unfit


@pytest.mark.parametrize(
    "learner", [RandomForestClassifier(10), VotingClassifier([("svm", SVC())]), scaled(SVC(C=2.0))], ids=repr
)
def test_what_has_no_gradients_is_trained_with_points_made_for_another(learner: Any) -> None:
    finding = Poisoning(**QUICK)(pipeline(learner), truth=unseen(), context=Context(0))
    assert finding.loot is not None
    assert finding.loot.start is not None
    wrong = [
        float((with_loot(learner, replace(finding.loot, X=X)).predict(TUMOURS[300:]) != KINDS[300:]).mean())
        for X in (finding.loot.X, finding.loot.start)
    ]
    score = finding.scores["test error"]
    assert [score.value, score.null] == pytest.approx(wrong)
    assert "made against logistic regression raise the test error of the" in finding.summary
    assert finding.verdict == "leak" or score.value <= 1.5 * score.null
    assert any("gives no gradients that lead through its training" in note for note in finding.notes)
    assert finding.notes[0].startswith("Of the logistic regression that points were made against: ")
    assert finding.figures[0].title.endswith(", of the logistic regression that points were made against")


def test_the_same_settings_have_the_same_name_and_others_another() -> None:
    one, fitted = scaled(LogisticRegression(C=0.5)), scaled(LogisticRegression(C=0.5)).fit(TUMOURS, KINDS)
    names = [pipeline(learner).learner for learner in (one, fitted, scaled(LogisticRegression(C=0.6)))]
    assert names[0] == names[1] != names[2]
    assert names[0].startswith("StandardScaler, LogisticRegression ")


def test_a_learner_that_cannot_be_used_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadInput, match=r"got LogisticRegression; give one such as LogisticRegression\(\)"):
        pipeline(LogisticRegression)
    with pytest.raises(BadInput, match="expected the name of a learner or a scikit-learn estimator, got int"):
        pipeline(3)
    with pytest.raises(BadInput, match="expected MinMaxScaler, LogisticRegression to train on these points, but it said"):
        pipeline(make_pipeline(MinMaxScaler((1, 0)), LogisticRegression()))


def test_a_penalty_of_each_group_is_for_learners_by_name() -> None:
    finding = Poisoning()(pipeline(LogisticRegression(max_iter=3), groups=np.arange(30) % 2))
    assert finding.verdict == "not applicable"
    assert "a LogisticRegression is attacked with one penalty" in finding.summary.replace("A ", "a ")


def test_an_l1_penalty_is_not_trained_for_some_steps() -> None:
    finding = Poisoning(regime="early-stopped")(pipeline(CLASSIFIERS["logistic, L1"]))
    assert finding.verdict == "not applicable"
    assert 'set regime = "converged"' in finding.summary


@pytest.mark.parametrize("name", ["lasso", "elastic_net"])
def test_regressions_with_an_l1_part_are_attacked_by_name(name: str) -> None:
    X = StandardScaler().fit_transform(PEOPLE)
    finding = Poisoning(**QUICK)(pipeline(name, X, PROGRESS), truth=unseen(X, PROGRESS))
    assert finding.verdict == "leak"
    seen = finding.evidence
    assert isinstance(seen, PoisonedPipelines)
    alpha = np.exp(seen.settings["cross-validated"].poisoned.strengths[0, -1, 0])
    kind = Lasso(alpha=alpha) if name == "lasso" else ElasticNet(alpha=alpha)
    assert finding.loot is not None
    said = with_loot(kind.set_params(tol=1e-10, max_iter=100_000), finding.loot, X, PROGRESS).predict(X[300:])
    known = float(np.mean((said - PROGRESS[300:]) ** 2) / np.var(PROGRESS[300:]))
    assert finding.scores["test squared error"].value == pytest.approx(known, rel=1e-4)


def test_an_l1_penalty_is_re_tuned_to_where_trusted_points_like_it_best() -> None:
    held = pipeline(CLASSIFIERS["logistic, L1"])
    ours = learner_of(held, "converged", 1, 0.1, 1, 0)
    split = PipelineSplit.of(held)
    bounds = ours.within((-8.0, 9.0), split.X, split.y)
    assert bounds[1] < 6
    tuned = validated(ours, split, bounds)
    grid = np.linspace(*bounds, 60)
    losses = ours.plain(split.trainer(ours), split.X.shape[1], grid[:, None]).value
    found = ours.plain(split.trainer(ours), split.X.shape[1], tuned[None]).value[0]
    assert found <= losses.min() * (1 + 1e-3)


@pytest.mark.parametrize("name", ["Fussy", "LogisticRegression"])
def test_an_estimator_that_fails_on_poisoned_points_ends_the_attack_with_its_reason(name: str) -> None:
    """Whether it is asked alone, or read by its name."""
    finding = Poisoning(**QUICK)(pipeline(type(name, (Fussy,), {})()))
    assert (finding.verdict, finding.summary) == ("failed", f"The {name} could not be trained again: too many.")


def test_a_module_is_for_pipeline_of_and_an_estimator_for_both() -> None:
    import torch

    with pytest.raises(BadInput, match=r"got Linear; give a torch module to Pipeline\.of"):
        pipeline(torch.nn.Linear(30, 1))
    learner = LogisticRegression(max_iter=5)
    made = Pipeline.of(learner, TUMOURS[:200], KINDS[:200], TUMOURS[200:300], KINDS[200:300])
    assert made.learner == pipeline(learner).learner


def test_studies_take_learners_by_name() -> None:
    held = pipeline(LogisticRegression(max_iter=3))
    two = Pipeline(TUMOURS[:200, :2], KINDS[:200], TUMOURS[200:300, :2], KINDS[200:300], learner=LogisticRegression())
    for finding in (PoisoningDefences()(held), PoisoningMap()(two)):
        assert finding.verdict == "not applicable"
        assert 'give learner = "logistic"' in finding.summary


def test_a_file_of_an_estimator_is_attacked_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from skops.io import dump

    monkeypatch.chdir(tmp_path)
    learner = CLASSIFIERS["logistic"]
    dump(learner, "mine.skops")
    np.savez("train.npz", X=TUMOURS[:200], y=KINDS[:200], X_val=TUMOURS[200:300], y_val=KINDS[200:300])
    np.savez("test.npz", X=TUMOURS[300:], y=KINDS[300:])
    options = ["--points", "12", "--batch", "12", "--iterations", "40", "--starts", "1", "--alone", "--json"]
    given = ["--pipeline", "train.npz#learner=mine.skops", "--truth", "test.npz"]
    assert cli.main(["attack", "poisoning", *given, *options]) == 0
    found = json.loads(capfd.readouterr().out)["findings"][0]
    assert found["verdict"] == "leak"
    given[1] = "train.npz#learner=absent.skops"
    assert cli.main(["attack", "poisoning", *given, *options]) == 2
    assert "expected an estimator in the file absent.skops, found no such file" in capfd.readouterr().err
