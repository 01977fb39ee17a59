"""What the estimators believe, and what they do not: every limit, from just inside and from just outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from divulge import Fitted, TrainingData, Verdict
from divulge.arrays import Array
from divulge.attacks.hyperparameters.estimators import _around, by_equations, by_training
from divulge.attacks.hyperparameters.formulate import build_problem
from divulge.attacks.hyperparameters.problem import Answer, StationarityProblem
from divulge.attacks.hyperparameters.svm import by_bound
from divulge.contract import Kernel
from divulge.learners.catalogue import LEARNERS
from divulge.solvers.stationarity import svm
from divulge.solvers.stationarity.refit import Trainer
from divulge.solvers.stationarity.system import System

EPS = float(np.finfo(float).eps)
PENALTY = 2.0
NO_TRAINER = Trainer(LEARNERS["network"], {}, {}, np.ones((1, 1)), np.ones(1))


def problem(
    residual: float, learner: str = "ridge", equations: int = 40, noise: float = 0.0, check: float | None = None, **more: Any
) -> StationarityProblem:
    """Equations b + λa = 0 that λ = 2 solves, but for a relative residual across a."""
    a = np.full(equations, equations**-0.5)
    across = a * np.where(np.arange(equations) % 2, 1.0, -1.0)
    b = -PENALTY * (a + residual / np.sqrt(1 - residual**2) * across)
    extra = np.zeros(0) if check is None else np.array([check])
    system = System(a[:, None], b, np.ones(equations), extra, noise=noise)
    fitted = Fitted(learner, coef=np.ones(equations))
    return StationarityProblem(fitted, ("l2",), [system], NO_TRAINER, np.ones(equations), np.ones(3), **more)


def verdict(of: StationarityProblem) -> Verdict:
    return by_equations(of, 0.99).verdict


def test_the_penalty_of_such_equations_is_two() -> None:
    answer = by_equations(problem(1e-3), 0.99)
    assert answer.values["alpha"] == pytest.approx(PENALTY)
    assert answer.scores["gradient left unexplained"].value == pytest.approx(1e-3)


@pytest.mark.parametrize(("residual", "expected"), [(0.09, Verdict.LEAK), (0.11, Verdict.NOT_APPLICABLE)])
def test_where_an_intercept_confirms_the_data_a_tenth_of_the_gradient_may_be_left(
    residual: float, expected: Verdict
) -> None:
    assert verdict(problem(residual, centred=True, check=0.0)) is expected


@pytest.mark.parametrize(("residual", "expected"), [(0.018, Verdict.LEAK), (0.022, Verdict.NOT_APPLICABLE)])
def test_without_one_a_squared_loss_may_leave_a_fiftieth(residual: float, expected: Verdict) -> None:
    assert verdict(problem(residual)) is expected


@pytest.mark.parametrize(("residual", "expected"), [(0.9e-3, Verdict.LEAK), (1.1e-3, Verdict.NOT_APPLICABLE)])
def test_another_loss_of_an_unknown_solver_must_have_converged(residual: float, expected: Verdict) -> None:
    assert verdict(problem(residual, learner="logistic")) is expected


@pytest.mark.parametrize(("times", "expected"), [(2.9, Verdict.LEAK), (3.1, Verdict.NOT_APPLICABLE)])
def test_no_entry_may_exceed_what_the_solver_was_content_with_by_more_than_its_own_measure_differs(
    times: float, expected: Verdict
) -> None:
    residual = 0.05
    entry = PENALTY * residual / np.sqrt(1 - residual**2) / np.sqrt(40)
    assert verdict(problem(residual, learner="logistic", stopped=entry / times)) is expected


@pytest.mark.parametrize(("residual", "expected"), [(0.9e-6, Verdict.LEAK), (1.1e-6, Verdict.NOT_APPLICABLE)])
def test_a_residual_of_rounding_needs_no_tolerance_to_explain_it(residual: float, expected: Verdict) -> None:
    assert verdict(problem(residual, learner="logistic", stopped=1e-12)) is expected


@pytest.mark.parametrize(("p_value", "expected"), [(0.9e-6, Verdict.LEAK), (1.1e-6, Verdict.NOT_APPLICABLE)])
def test_two_equations_for_one_unknown_are_believed_where_one_model_in_a_million_would_look_as_good(
    p_value: float, expected: Verdict
) -> None:
    """In the plane the angle of a random gradient is uniform, so P(residual ≤ ρ) = 2 asin(ρ) / π."""
    residual = float(np.sin(np.pi / 2 * p_value))
    answer = by_equations(problem(residual, equations=2, centred=True, check=0.0), 0.99)
    assert answer.verdict is expected
    if expected is Verdict.NOT_APPLICABLE:
        assert "would look as good in 1e-06 of cases" in answer.why


@pytest.mark.parametrize(("share", "expected"), [(0.9e-3, Verdict.NONE_FOUND), (1.1e-3, Verdict.NOT_APPLICABLE)])
def test_next_to_no_gradient_left_of_the_one_at_zero_is_a_fit_with_next_to_no_penalty(
    share: float, expected: Verdict
) -> None:
    """The interval reaches 0, so nothing is claimed; whether it is a bound depends on how small the remainder is."""
    residual = 0.01
    remainder = PENALTY * residual / np.sqrt(1 - residual**2)
    answer = by_equations(problem(residual, noise=3 * PENALTY, start_size=remainder / share), 0.99)
    assert answer.verdict is expected


@pytest.mark.parametrize(("times", "unbalanced"), [(90, False), (110, True)])
def test_an_intercept_balances_to_a_hundred_rounding_errors(times: float, unbalanced: bool) -> None:
    """Of 838 fits of ridge, lasso and elastic net the worst left 20."""
    assert problem(0.0, centred=True, check=times * EPS).unbalanced is unbalanced


@pytest.mark.parametrize(("times", "expected"), [(90, Verdict.LEAK), (110, Verdict.NOT_APPLICABLE)])
def test_a_solver_that_solves_outright_leaves_a_hundred_rounding_errors(times: float, expected: Verdict) -> None:
    residual = times * EPS * np.sqrt(40) / PENALTY
    answer = by_equations(problem(residual, direct=True), 0.99)
    assert answer.verdict is expected
    assert answer.unidentifiable == (expected is not Verdict.LEAK)


@pytest.mark.parametrize(("half", "settled"), [(0.9e-9, True), (1.1e-9, False)])
def test_a_value_known_to_nine_digits_needs_no_second_opinion(half: float, settled: bool) -> None:
    answer = Answer("", Verdict.LEAK, "", {"alpha": 2.0}, {"alpha": (2 - 2 * half, 2 + 2 * half)})
    assert answer.settled("alpha") is settled


@pytest.mark.parametrize(("ratio", "said"), [(0.9e4, True), (1.1e4, False)])
def test_an_interval_over_more_than_four_decades_does_not_say_where_to_look(ratio: float, said: bool) -> None:
    answer = Answer("", Verdict.NONE_FOUND, "", {"alpha": 2.0}, {"alpha": (0.01, 0.01 * ratio)})
    assert bool(_around(answer, ["alpha"])) is said


def test_an_upper_bound_is_searched_four_decades_down() -> None:
    answer = Answer("", Verdict.NONE_FOUND, "", {"alpha": 2.0}, {"alpha": (-1.0, 3.0)})
    low, high = _around(answer, ["alpha"])["alpha"]
    assert low == pytest.approx(3e-4 / 10)
    assert high == pytest.approx(30)


# --- training again, with trainings made up


class Pretended:
    """A trainer that trains to whatever a function says."""

    obstacle, no_path = "", ""

    def __init__(self, train: Callable[[float], Array]) -> None:
        self.train, self.X = train, np.ones((5, 3))

    def __call__(self, values: Mapping[str, float], tight: bool) -> Array:
        return self.train(values["alpha"])


def trained(train: Callable[[float], Array], observed: Array, decimals: int | None = None, tight: bool = False) -> Answer:
    fitted = Fitted("ridge", coef=np.ones(len(observed)))
    of = StationarityProblem(
        fitted, ("l2",), [], Pretended(train), observed, np.ones(3), decimals=decimals,  # type: ignore[arg-type]  # pretended
    )  # fmt: skip
    first = Answer("stationarity", Verdict.NOT_APPLICABLE, "", {"alpha": 0.4}, {"alpha": (0.2, 0.8)})
    return by_training(of, first, tight=tight, most=63, seen=lambda done: None)


AXES = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 3)))[0].T


def along(alpha: float) -> Array:
    """Parameters that move along one axis, beside a fixed one that gives them their size."""
    return np.asarray(AXES[0] + 1e-2 * np.log(alpha) * AXES[1])


@pytest.mark.parametrize(("tight", "limit"), [(False, 1e-8), (True, 1e-6)])
@pytest.mark.parametrize(("share", "expected"), [(0.9, Verdict.LEAK), (1.1, Verdict.NOT_APPLICABLE)])
def test_a_training_counts_as_the_owners_where_it_comes_near_enough(
    tight: bool, limit: float, share: float, expected: Verdict
) -> None:
    value = 0.3712345
    observed = along(value)
    observed = observed + share * limit * float(np.linalg.norm(observed)) * AXES[2]
    answer = trained(along, observed, tight=tight)
    assert answer.values["alpha"] == pytest.approx(value, rel=1e-3)
    assert answer.verdict is expected


@pytest.mark.parametrize(("half", "told"), [(0.45, True), (0.55, False)])
def test_an_interval_half_as_wide_as_its_value_tells_nothing(half: float, told: bool) -> None:
    """The interval is ten times what is left, divided by how fast the parameters move."""

    def slow(alpha: float) -> Array:
        return np.asarray(1e8 * AXES[0] + np.log(alpha) * AXES[1])

    answer = trained(slow, slow(0.3712345) + half / 10 * AXES[2])
    assert (answer.why != "other values train to the same parameters") is told


@pytest.mark.parametrize(("size", "expected"), [(106.0, Verdict.NOT_APPLICABLE), (110.0, Verdict.LEAK)])
def test_rounded_parameters_confirm_the_data_with_six_digits_more_than_there_are_values(
    size: float, expected: Verdict
) -> None:
    """Three whole numbers near 100 hold 3 log₁₀(2 · 108) = 7.0 digits, of which the value found takes one."""

    def three(alpha: float) -> Array:
        return np.asarray(size + np.array([0.2, -0.2, 0.1]) + 3 * np.log(alpha / 0.4) * np.array([1.0, -1.0, 1.0]))

    assert trained(three, np.round(three(0.4)), decimals=0).verdict is expected


# --- support vector machines


@pytest.mark.parametrize(
    ("tol", "violation", "expected"),
    [
        (1e-4, 0.019, Verdict.LEAK),
        (1e-4, 0.021, Verdict.NOT_APPLICABLE),
        (1e-2, 0.19, Verdict.LEAK),
        (1e-2, 0.21, Verdict.NOT_APPLICABLE),
    ],
)
def test_margins_that_miss_by_twenty_tolerances_are_of_other_data(
    monkeypatch: pytest.MonkeyPatch, tol: float, violation: float, expected: Verdict
) -> None:
    monkeypatch.setattr(svm, "bound", lambda *given: svm.Bound(0.7, True, violation))
    fitted = Fitted(
        "svc", intercept=np.zeros(1), dual_coef=np.array([[-1 / np.pi, 1 / np.pi]]), kernel=Kernel("linear"),
        more={"support": np.array([0, 1])}, settings={"tol": tol},
    )  # fmt: skip
    answer = by_bound(build_problem(fitted, TrainingData(np.array([[0.0], [1.0]]), np.array([0, 1]))))
    assert answer.verdict is expected
    assert answer.unidentifiable is (expected is Verdict.NOT_APPLICABLE)
