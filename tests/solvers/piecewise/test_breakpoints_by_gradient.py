"""Kinks along a line: each is found once, between the right pieces, from few questions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.piecewise.breakpoints_by_gradient import Ask, BreakpointSearch, QueryLine, Tolerance
from divulge.solvers.piecewise.regions import Everywhere
from divulge.solvers.piecewise.two_layer import TwoLayer


class Counted:
    def __init__(self, function: TwoLayer) -> None:
        self.function, self.asked = function, 0

    def __call__(self, X: Array) -> Array:
        self.asked += len(X)
        return self.function.pieces(X)


def function(rng: np.random.Generator, units: int, inputs: int, outputs: int = 1) -> TwoLayer:
    return TwoLayer(
        rng.standard_normal((units, inputs)) / np.sqrt(inputs),
        rng.standard_normal(units),
        rng.standard_normal((outputs, units)),
        np.zeros((outputs, inputs)),
        np.zeros(outputs),
    )


def search(target: Ask, line: QueryLine, **options: Any) -> BreakpointSearch:
    tolerance = Tolerance(1e-14)
    found = BreakpointSearch(lambda X: tolerance.see(target(X)), line, tolerance, **options)
    assert found.settle()
    return found


@pytest.mark.parametrize("outputs", [1, 2, 7])
def test_every_kink_of_a_line_is_found_where_it_is(outputs: int) -> None:
    rng = np.random.default_rng(outputs)
    true = function(rng, 30, 40, outputs)
    line = Everywhere(40).line(rng)
    found = search(true.pieces, line)
    jumps = np.sort(np.linalg.norm(found.jumps[:, :, :-1], axis=(1, 2)))
    expected = np.sort(np.linalg.norm(true.out, axis=0) * np.linalg.norm(true.into, axis=1))
    assert len(jumps) <= 30
    if outputs > 1:  # with one output a probe on one side may take two kinks for one
        np.testing.assert_allclose(jumps, expected, rtol=1e-9)
    np.testing.assert_allclose(found.left + found.jumps.sum(0), found.pieces[1], atol=1e-9)


def test_jumps_of_rank_one_cost_one_question_a_kink() -> None:
    rng = np.random.default_rng(0)
    target = Counted(function(rng, 60, 200, 10))
    found = search(target, Everywhere(200).line(rng), trusting=True)
    assert len(found.held) == 60
    assert target.asked <= 61 + 6  # every cell once, and the outermost kinks from nearer by


def test_a_kink_that_is_two_is_found_out_when_it_is_rechecked() -> None:
    # Two opposite kinks whose pieces would meet at 2, beyond both.
    target = TwoLayer(
        np.array([[1.0], [1.0]]), np.array([0.0, -1.0]), np.array([[1.0, -0.5]]), np.zeros((1, 1)), np.zeros(1)
    )
    line = QueryLine(np.zeros(1), np.ones(1), (-8.0, 3.0), endless=False)
    found = search(target.pieces, line, trusting=True)
    found.recheck(np.arange(len(found.held)))
    found.recheck(np.flatnonzero(~found.tested.all(1)))
    np.testing.assert_allclose(np.sort(found.jumps[:, 0, 0]), [-0.5, 1.0])


@pytest.mark.parametrize(("unresolved", "settled"), [(120, True), (140, False)])
def test_a_hundred_kinks_too_close_to_be_told_apart_are_a_curve(unresolved: int, settled: bool) -> None:
    rng = np.random.default_rng(0)
    found = search(function(rng, 60, 40, 3).pieces, Everywhere(40).line(rng))
    assert len(found.held) == 60
    found.unsure = unresolved
    assert found.settle() == settled


def test_a_line_without_kinks_costs_its_ends() -> None:
    target = Counted(TwoLayer.affine(np.ones((2, 3)), np.zeros(2)))
    found = search(target, Everywhere(3).line(np.random.default_rng(0)))
    assert (len(found.held), target.asked) == (0, 2)


def looking(target: Ask, line: QueryLine, noise: float = 1e-14) -> BreakpointSearch:
    tolerance = Tolerance(noise)
    return BreakpointSearch(lambda X: tolerance.see(target(X)), line, tolerance)


@pytest.mark.parametrize(("outputs", "noise"), [(1, 1e-14), (4, 1e-14), (1, 1e-7), (4, 1e-7)])
def test_a_single_kink_of_many_is_found_in_two_dozen_questions(outputs: int, noise: float) -> None:
    rng = np.random.default_rng(0)
    true = function(rng, 200, 50, outputs)
    target = Counted(true)
    found = looking(target, Everywhere(50).line(rng).cut(10.0), noise)
    assert found.isolate(24)
    assert target.asked <= 2 + 24
    jump = found.jumps[-1][:, :-1]
    units = np.einsum("oh,hd->hod", true.out, true.into)
    off = np.minimum(*(np.linalg.norm(units - sign * jump, axis=(1, 2)) for sign in (1, -1)))
    assert off.min() < 1e-6 * np.linalg.norm(jump)
    assert not found.curved


def test_of_a_curve_no_kink_is_found_and_it_is_called_one() -> None:
    def pieces(X: Array) -> Array:
        slope = np.tanh(1e3 * X.sum(1))[:, None, None] * np.ones((1, 1, 5))
        value = np.logaddexp(1e3 * X.sum(1), -1e3 * X.sum(1)) / 1e3
        return np.concatenate([slope, (value - slope[:, 0, 0] * X.sum(1))[:, None, None]], axis=2)

    found = looking(pieces, Everywhere(5).line(np.random.default_rng(0)).cut(10.0))
    assert not found.isolate(24)
    assert found.curved


def test_two_units_that_all_but_cancel_are_no_curve() -> None:
    true = function(np.random.default_rng(0), 2, 8)
    near = true.into[:1] + 1e-8 * np.random.default_rng(1).standard_normal((1, 8))
    both = true.with_units(near, true.bias[:1], -true.out[:, :1], np.zeros((1, 8)), np.zeros(1))
    found = looking(both.pieces, Everywhere(8).line(np.random.default_rng(2)).cut(10.0))
    while found.isolate(40):
        pass
    assert not found.curved


def test_a_line_is_cut_to_what_is_near_its_start() -> None:
    line = QueryLine(np.zeros(2), np.ones(2), (-1e6, 3.0))
    assert line.cut(10.0).ends == (-10.0, 3.0)
