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
