"""Numbers as a reader wants them, and scores set against their nulls."""

import math

import pytest

from divulge.contract import Finding, Provenance, Score
from divulge.report import scores, wording


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1.2e-10, "1.2e-10"), (0.953, "0.953"), (12345, "12,345"), (12345.6, "12,346"), (0, "0"), (-0.5, "-0.5"), (3.0, "3"),
        (1234567.8, "1.23e6"), (1e12, "1e12"), (0.0012345, "0.00123"), (99.96, "100"), (None, "–"),
        (math.nan, "not a number"), (math.inf, "∞"), (-math.inf, "−∞"),
    ],
)  # fmt: skip
def test_a_number_has_the_digits_that_help(value: float | None, said: str) -> None:
    assert wording.number(value) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.001, "under 0.1 s"), (1.53, "1.5 s"), (42, "42 s"), (192.4, "3 min 12 s"), (600.2, "10 min"), (7500, "2 h 5 min")],
)
def test_a_duration_is_said_as_people_say_it(seconds: float, said: str) -> None:
    assert wording.duration(seconds) == said


@pytest.mark.parametrize(
    ("title", "said"),
    [("GradientExtraction", "Gradient extraction"), ("KKT by hand", "KKT by hand"), ("span_membership", "Span membership")],
)
def test_an_attack_is_called_by_words(title: str, said: str) -> None:
    assert wording.attack(Finding.failed("no", provenance=Provenance("x", title))) == said


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (Score(0.95, 0.5, "coin"), "1.9× the null"),
        (Score(1e-10, 1.0, "random", better="lower"), "1e10× below the null"),
        (Score(0.4, 0.5, "coin"), "worse than the null"),
        (Score(0.6, 0.5, "coin", better="lower"), "worse than the null"),
        (Score(0.5, 0.5, "coin"), "equal to the null"),
        (Score(0.6, 0.5, "coin", interval=(0.45, 0.7)), "not told apart from the null: the interval contains it"),
        (Score(0.51, 0.5, "coin"), "0.01 better than the null"),
        (Score(12, 0, "nothing"), "12 above the null"),
        (Score(math.nan, 0.5, "coin"), "cannot be compared"),
        (Score(0.5, math.inf, "coin", better="lower"), "cannot be compared"),
    ],
)
def test_a_score_is_set_against_its_null(score: Score, said: str) -> None:
    assert scores.against(score) == said


def drawn(score: Score) -> scores.Bar:
    bar = scores.bar(score)
    assert bar is not None
    return bar


def test_a_bar_is_in_proportion() -> None:
    bar = drawn(Score(1.0, 0.5, "coin", interval=(0.75, 1.0)))
    assert (bar.null - scores.MARGIN) * 2 == pytest.approx(bar.value - scores.MARGIN, abs=0.2)
    assert bar.interval is not None
    low, high = bar.interval
    assert low == pytest.approx((bar.null + bar.value) / 2, abs=0.1)
    assert high == bar.value
    assert not bar.log


def test_values_far_apart_are_drawn_on_a_logarithmic_line() -> None:
    bar = drawn(Score(1e-8, 1.0, "random", better="lower", published=1e-4))
    assert bar.log
    assert bar.published == pytest.approx((bar.value + bar.null) / 2, abs=0.1)


@pytest.mark.parametrize("score", [Score(math.nan, 0.5, ""), Score(1.0, math.inf, ""), Score(0.5, 0.5, "")])
def test_where_there_is_nothing_to_draw_there_is_no_bar(score: Score) -> None:
    assert scores.bar(score) is None
