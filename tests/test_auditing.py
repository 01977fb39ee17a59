"""Audits from Python: what may be handed in, what is refused, and what one broken attack costs the others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from divulge import audit, registry
from divulge.contract import (
    Attack,
    Budget,
    Candidates,
    Context,
    Finding,
    Fitted,
    Hyperparameters,
    Score,
    TrainingData,
    Truth,
    Weights,
    option_class,
)
from divulge.errors import BadInput

X = np.eye(4)


@option_class
class Copies(Attack[TrainingData, Hyperparameters]):
    """The first entry of the data."""

    name: ClassVar[str] = "copies"

    def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
        return Finding.leak(Hyperparameters({"first": float(held.X[0, 0])}), "Won.")


@option_class
class BreaksWhenScored(Attack[TrainingData, Hyperparameters]):
    """As above, with a bug in its scoring."""

    name: ClassVar[str] = "breaks-when-scored"

    def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
        return Finding.leak(Hyperparameters({"first": 1.0}), "Won.")

    def score(self, finding: Finding[Hyperparameters], held: TrainingData, truth: Truth) -> Finding[Hyperparameters]:
        return replace(finding, scores={"ratio": Score(1 / 0, 0.0, "nothing")})


@option_class
class Breaks(Attack[TrainingData, Hyperparameters]):
    """Nothing but a bug."""

    name: ClassVar[str] = "breaks"

    def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
        raise RuntimeError("surprise")


@option_class
class Refuses(Attack[Hyperparameters, Weights]):
    """Does not like what another attack won."""

    name: ClassVar[str] = "refuses"

    def run(self, held: Hyperparameters, context: Context) -> Finding[Weights]:
        raise BadInput("expected something else")


@pytest.fixture
def attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: dict[str, type[Attack[Any, Any]]] = {
        attack.name: attack for attack in (Breaks, BreaksWhenScored, Copies, Refuses)
    }
    monkeypatch.setattr(registry, "attacks", lambda: chosen)
    monkeypatch.setattr(registry, "attack", chosen.__getitem__)


def test_one_broken_attack_does_not_cost_the_others(attacks: None, tmp_path: Path) -> None:
    done = audit({"data": TrainingData(X)}, {"hyperparameters": Hyperparameters({"first": 1.0})}, out=tmp_path)
    verdicts = {finding.provenance.attack: finding for finding in done.findings}
    assert verdicts["copies"].verdict.value == "leak"
    assert verdicts["breaks"].verdict.value == "failed"
    assert "surprise" in verdicts["breaks"].summary
    assert "surprise" in (tmp_path / "error-breaks.txt").read_text()
    assert verdicts["breaks-when-scored"].verdict.value == "leak"
    assert "Not scored: ZeroDivisionError" in verdicts["breaks-when-scored"].notes[0]
    assert not done.record.complete


def test_what_one_attack_won_and_another_refuses_is_nobodys_mistake(attacks: None) -> None:
    done = audit({"data": TrainingData(X)}, attacks=["copies", "refuses"])
    assert [finding.verdict.value for finding in done.findings] == ["leak", "not applicable"]


@option_class
class Rebuilds(Attack[Candidates, TrainingData]):
    """Stands for an attack that wins the training data."""

    name: ClassVar[str] = "rebuilds"

    def run(self, held: Candidates, context: Context) -> Finding[TrainingData]:
        return Finding.leak(TrainingData(held.X, held.y), "Won the data.")


@pytest.mark.slow
def test_hyperparameters_follow_from_training_data_that_another_attack_won(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 5))
    y = points @ rng.normal(size=5) + rng.normal(size=60)
    both = {"rebuilds": Rebuilds, **registry.attacks()}
    monkeypatch.setattr(registry, "attacks", lambda: both)
    held = {"model": Fitted.of(Ridge(0.5).fit(points, y)), "points": Candidates(points, y)}
    done = audit(held, {"model": {"hyperparameters": Hyperparameters({"alpha": 0.5})}}, out=tmp_path)
    assert [(finding.provenance.attack, finding.provenance.won) for finding in done.leaks] == [
        ("rebuilds", "training data of points"),
        ("hyperparameters", "hyperparameters of model"),
    ]
    assert done.leaks[1].scores["relative error of alpha"].value < 1e-9
    page = done.report
    assert page is not None
    assert done.record.holdings[-1].source == "won by hyperparameters"
    assert "training data of points" in page.read_text()


def test_a_single_thing_may_be_held(attacks: None) -> None:
    assert audit(TrainingData(X), attacks=["copies"]).leaks


WRONG: Any = 3
"Anything that is not what the types ask for: not every caller has a type checker."


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: audit({"a": WRONG}), "expected things such as Fitted"),
        (lambda: audit([]), "at least one thing"),
        (lambda: audit(TrainingData(X), {"hyperparameters": WRONG}), "truth: expected something such as"),
        (lambda: audit(TrainingData(X), {"modle": {}}), "truth: unknown key 'modle'"),
        (lambda: audit(TrainingData(X), budget=WRONG), "expected a Budget, got 3"),
        (lambda: audit(TrainingData(X), seed=-1), "expected a seed from 0"),
        (lambda: audit(TrainingData(X), attacks=[]), "at least one attack"),
        (lambda: audit(TrainingData(X), attacks=["hyperparamters"]), "did you mean 'hyperparameters'"),
        (lambda: audit(TrainingData(X), options={"hyperparameters": WRONG}), "expected named values, got 3"),
        (lambda: audit(TrainingData(X), options={"hyperparameters": {"self": 1}}), "unknown key 'self'"),
        (lambda: audit(TrainingData(X), out="a\0b"), "cannot write in"),
        (lambda: audit(TrainingData(X), budget=Budget(queries=-1)), "positive budget"),
    ],
)
def test_mistakes_are_named_before_anything_runs(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        call()


def test_a_pair_that_does_not_fit_is_not_applicable_where_another_does() -> None:
    held = {
        "model": Fitted("ridge", coef=np.ones(4)),
        "short": TrainingData(np.eye(3), np.ones(3)),
        "right": TrainingData(X, np.ones(4)),
    }
    done = audit(held)
    assert [finding.verdict.value for finding in done.findings] == ["not applicable", "none found"]
    assert "got 4" in done.findings[0].summary
    with pytest.raises(BadInput, match="got 4"):
        audit({"model": held["model"], "short": held["short"]})
