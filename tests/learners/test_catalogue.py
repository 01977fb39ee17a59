"""One record a learner, and nobody else's table."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import divulge
from divulge.errors import BadInput
from divulge.learners.catalogue import ESTIMATORS, LEARNERS, learner_named
from divulge.learners.records import Learner
from divulge.solvers.bilevel.inner import RISKS
from divulge.solvers.stationarity.losses import LOSSES

WITH_ESTIMATOR = [record for record in LEARNERS.values() if record.estimator is not None]


def test_the_catalogue_alone_knows_a_learner_by_name() -> None:
    source = Path(divulge.__file__).parent
    knowing = [path for path in source.rglob("*.py") if "ridge_classifier" in path.read_text(encoding="utf-8")]
    assert [path.relative_to(source).as_posix() for path in knowing] == ["learners/catalogue.py"]


@pytest.mark.parametrize("title", ESTIMATORS)
def test_every_setting_and_hyperparameter_is_one_that_its_class_has(title: str) -> None:
    _, estimator = ESTIMATORS[title]
    made = estimator.load()
    assert made.__name__ == title
    arguments = set(inspect.signature(made).parameters)
    assert set(estimator.settings) <= arguments | {"loss", "class_weight", "fit_intercept"}
    kept = {name for name, place in estimator.secrets.items() if place == name}
    assert kept <= arguments


@pytest.mark.parametrize("title", ESTIMATORS)
def test_no_hyperparameter_is_listed_among_the_settings(title: str) -> None:
    _, estimator = ESTIMATORS[title]
    assert not {*estimator.secrets, *estimator.secrets.values()} & set(estimator.settings)


@pytest.mark.parametrize("record", WITH_ESTIMATOR, ids=lambda record: record.name)
def test_settings_that_go_on_to_the_minimum_and_those_of_tuning_are_arguments(record: Learner) -> None:
    assert record.estimator is not None
    arguments = set(inspect.signature(record.estimator.load()).parameters)
    for where, tight in record.tight:
        assert {*where} <= arguments | {"penalty"}
        assert {*tight} <= arguments
    assert {*(record.tuning or {})} <= arguments
    assert record.unit in arguments


@pytest.mark.parametrize("record", LEARNERS.values(), ids=LEARNERS)
def test_losses_are_such_as_the_solvers_know(record: Learner) -> None:
    named = {*record.losses.values(), *([record.loss] if record.loss else []), *filter(None, [record.multiclass])}
    assert named <= {*LOSSES, "huber"}
    if record.differentiated:
        assert {record.loss, record.multiclass or record.loss} <= {*RISKS}


def test_a_setup_contains_only_others_that_there_are() -> None:
    titles = [setup.title for record in LEARNERS.values() for setup in record.setups]
    assert len(titles) == len(set(titles))
    assert {title for record in LEARNERS.values() for setup in record.setups for title in setup.contains} <= set(titles)


def test_the_solver_in_the_settings_comes_before_the_usual_one() -> None:
    assert learner_named("poisson").solver_in({}) == "lbfgs"
    assert learner_named("poisson").solver_in({"solver": "newton-cholesky"}) == "newton-cholesky"
    assert learner_named("ridge").solver_in({}) is None


def test_an_unknown_learner_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match=r"expected a learner out of ridge, lasso, .*, got 'forest'"):
        learner_named("forest")


def test_reading_the_catalogue_loads_no_learner() -> None:
    code = "import sys, divulge.learners.catalogue; print({'sklearn', 'torch', 'divulge.victims'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
