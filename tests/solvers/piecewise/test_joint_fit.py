"""All units fitted at once: to the last digit where there is no noise, as well as noise allows, and with none too many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.piecewise.joint_fit import fitted, thinned
from divulge.solvers.piecewise.two_layer import TwoLayer

INPUTS, UNITS = 8, 12


def function(rng: np.random.Generator, outputs: int) -> TwoLayer:
    return TwoLayer(
        rng.standard_normal((UNITS, INPUTS)) / np.sqrt(INPUTS),
        rng.standard_normal(UNITS),
        rng.standard_normal((outputs, UNITS)),
        rng.standard_normal((outputs, INPUTS)),
        rng.standard_normal(outputs),
    )


def roughly(true: TwoLayer, rng: np.random.Generator, error: float) -> TwoLayer:
    """All weights of the units wrong by a share of them."""
    near = [one * (1 + error * rng.standard_normal(one.shape)) for one in (true.into, true.bias, true.out)]
    return replace(true, into=near[0], bias=near[1], out=near[2])


def points(rng: np.random.Generator, count: int) -> Array:
    return np.asarray(rng.uniform(0.3, 3, (count, 1)) * rng.standard_normal((count, INPUTS)))


def error(copy: TwoLayer, true: TwoLayer, rng: np.random.Generator) -> float:
    X = points(rng, 2000)
    return float(np.sqrt(np.mean((copy.values(X) - true.values(X)) ** 2)) / true.values(X).std())


@pytest.mark.parametrize("outputs", [1, 3])
def test_units_that_are_off_by_a_twentieth_are_found_to_ten_digits(outputs: int) -> None:
    rng = np.random.default_rng(outputs)
    true, X = function(rng, outputs), points(rng, 600)
    copy = roughly(true, rng, 0.05)
    assert error(copy, true, rng) > 1e-2
    assert error(fitted(copy, X, true.values(X), np.ones(len(X))), true, rng) < 1e-10


def test_noise_is_averaged_over_more_points_than_there_are_weights() -> None:
    """At a fresh point, the error is noise times the root of weights over points: half of it for four times as many."""
    rng = np.random.default_rng(0)
    true, noise = function(rng, 1), 1e-6
    errors = []
    for count in (500, 8000):
        X = points(rng, count)
        Y = true.values(X) + noise * rng.standard_normal((count, 1))
        copy = fitted(roughly(true, rng, 0.01), X, Y, np.ones(count))
        errors.append(error(copy, true, rng) * float(true.values(X).std()) / noise)
    assert errors[0] < 1
    assert errors[1] < errors[0] / 2


def test_points_with_little_weight_move_nothing() -> None:
    rng = np.random.default_rng(0)
    true, X = function(rng, 1), points(rng, 700)
    Y, weights = true.values(X), np.ones(len(X))
    Y[600:] += 1e-2
    weights[600:] = 1e-9
    assert error(fitted(roughly(true, rng, 0.01), X, Y, weights), true, rng) < 1e-8


@pytest.mark.parametrize("kind", ["halved", "far", "weightless"])
def test_a_unit_too_many_is_left_out(kind: str) -> None:
    rng = np.random.default_rng(0)
    true, X = function(rng, 1), points(rng, 600)
    Y, weights = true.values(X) + 1e-7 * rng.standard_normal((600, 1)), np.ones(600)
    into, bias, out = true.into[:1].copy(), true.bias[:1].copy(), np.ones((1, 1))
    if kind == "halved":
        true.out[:, 0] /= 2
        out = true.out[:, :1]
    elif kind == "far":  # it bends where no point is
        bias[:] = -1e4
    else:
        into, out = rng.standard_normal((1, INPUTS)), np.full((1, 1), 1e-8)
    more = true.with_units(into, bias, out, np.zeros((1, INPUTS)), np.zeros(1))
    copy = thinned(fitted(more, X, Y, weights), X, Y, weights, negligible=1e-5)
    assert copy.units == UNITS
    assert copy.values(X) == pytest.approx(Y, abs=1e-6)


def test_no_unit_that_counts_is_left_out() -> None:
    rng = np.random.default_rng(0)
    true, X = function(rng, 1), points(rng, 600)
    true.out[:, 0] *= 1e-5  # as little as what may be neglected, and yet a hundred times the noise
    Y, weights = true.values(X) + 1e-8 * rng.standard_normal((600, 1)), np.ones(600)
    assert thinned(true, X, Y, weights, negligible=1e-5).units == UNITS
