"""Probabilities whose digits are lost near 1 are told from those that have all, and lines lie where they can be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit, softmax

from divulge.arrays import Array
from divulge.solvers.piecewise.legibility import Legibility, _longest_run, legible_line
from divulge.solvers.shared import affine

LOGITS = np.linspace(-40, 40, 200)[:, None]


def stacked(z: Array) -> Array:
    return np.column_stack([1 - expit(z), expit(z)])


@pytest.mark.parametrize(
    ("answers", "own"),
    [
        (stacked(LOGITS), [False, True]),
        (stacked(LOGITS)[:, ::-1], [True, False]),
        (softmax(np.column_stack([0 * LOGITS, LOGITS]), axis=1), [True, True]),
        (stacked(LOGITS[50:150].astype(np.float32)), [False, True]),
        (stacked(LOGITS[95:105]), [False, False]),
    ],
    ids=["sigmoid", "the other way round", "softmax", "single precision", "nothing small"],
)
def test_columns_that_are_one_less_another_are_told(answers: Array, own: list[bool]) -> None:
    found = Legibility.of(affine.SOFTMAX, answers.astype(float))
    assert found.own.tolist() == own
    assert found.lossy == (not all(own))


def test_logits_are_read_on_the_side_where_they_have_digits() -> None:
    answers = stacked(LOGITS)
    found = Legibility.of(affine.SOFTMAX, answers)
    readable = found.readable(answers)
    np.testing.assert_array_equal(readable, LOGITS[:, 0] < np.log(1e4))
    logits = np.log(answers[readable, 1]) - np.log(answers[readable, 0])
    np.testing.assert_allclose(logits, LOGITS[readable, 0], atol=2 * found.noise, rtol=1e-14)


@pytest.mark.parametrize("answer", [lambda z: expit(z), stacked], ids=["one column", "two"])
def test_a_line_of_a_linear_model_stays_where_it_can_be_read(answer: Callable[[Array], Array]) -> None:
    rng = np.random.default_rng(2)
    w = rng.standard_normal(8)

    def ask(X: Array) -> Array:
        return answer((X @ w + 1)[:, None])

    answers = ask(10 * rng.standard_normal((100, 8)))
    legibility = Legibility.of(affine.SOFTMAX if answers.shape[1] == 2 else affine.LOGISTIC, answers)
    line, low, high = legible_line(ask, legibility, 8, 1.0, 1e5, rng)
    assert low < -10
    assert high > 10
    assert legibility.readable(ask(line.at(np.linspace(low, high, 500)))).all()


@pytest.mark.parametrize(
    ("flags", "run"),
    [("11111", (0, 5)), ("00000", (0, 0)), ("11001", (4, 3)), ("01110", (1, 3)), ("10100", (0, 1))],
)
def test_the_longest_run_goes_round(flags: str, run: tuple[int, int]) -> None:
    assert _longest_run(np.array([flag == "1" for flag in flags])) == run


def test_in_single_precision_logits_are_read_up_to_nine_tenths() -> None:
    """Of seven digits one is lost there; at 0.9999 there would be three left."""
    found = Legibility.of(affine.LOGISTIC, expit(LOGITS).astype(np.float32).astype(float))
    assert found.lossy
    assert found.noise < 1e-6
    np.testing.assert_array_equal(found.readable(expit(LOGITS)), LOGITS[:, 0] < np.log(9))
