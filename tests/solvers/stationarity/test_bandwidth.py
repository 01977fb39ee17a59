"""The bandwidth of a kernel: found to rounding from equations that hold at the right one alone."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.stationarity import bandwidth, system as stationarity
from divulge.solvers.stationarity.bandwidth import Equations


def equations(D: Array, gamma: float, seed: int = 1) -> list[Equations]:
    """(K + 0.5 I) c = y of a kernel ridge, with its penalty as what the equations may be off by."""
    everyone, c = np.arange(len(D)), np.random.default_rng(seed).normal(size=len(D))
    return [Equations(everyone, everyone, c, np.exp(-gamma * D) @ c + 0.5 * c, c[:, None])]


@pytest.mark.parametrize("name", stationarity.WITH_BANDWIDTH)
def test_it_is_found_to_rounding(name: str) -> None:
    D = stationarity.distances(name, np.random.default_rng(1).normal(size=(60, 4)))
    found = bandwidth.find(D, equations(D, 0.137))
    assert found is not None
    assert found.gamma == pytest.approx(0.137, rel=1e-10)
    assert abs(found.gamma - 0.137) <= found.half_width
    assert found.relative_residual < 1e-14


@pytest.mark.parametrize("decades", [-3.9, -2, 0, 1])
def test_it_is_found_however_far_it_is_from_the_usual(decades: float) -> None:
    """Beyond γD = 10 a kernel is the identity, whatever γ; below 10⁻⁴ it is constant but for rounding."""
    D = stationarity.distances("rbf", np.random.default_rng(2).normal(size=(40, 3)))
    gamma = 10.0**decades / float(np.median(D[D > 0]))
    found = bandwidth.find(D, equations(D, gamma))
    assert found is not None
    assert found.gamma == pytest.approx(gamma, rel=1e-6)
    assert abs(found.gamma - gamma) <= found.half_width


def test_several_valleys_are_told_apart() -> None:
    """Clusters of points have a scale within and one between: the residual has a minimum at each, the lower one counts."""
    rng = np.random.default_rng(3)
    X = np.concatenate([centre + 0.1 * rng.normal(size=(8, 2)) for centre in 10 * rng.normal(size=(5, 2))])
    D = stationarity.distances("rbf", X)
    for gamma in (30.0, 0.003):
        found = bandwidth.find(D, equations(D, gamma))
        assert found is not None
        assert found.gamma == pytest.approx(gamma, rel=1e-6)


def test_equations_that_no_bandwidth_fits_say_so_in_their_residual() -> None:
    rng = np.random.default_rng(4)
    D = stationarity.distances("rbf", rng.normal(size=(30, 3)))
    (one,) = equations(D, 0.2)
    found = bandwidth.find(D, [Equations(one.rows, one.columns, one.weights, rng.normal(size=30), one.nuisance)])
    assert found is not None
    assert found.relative_residual > 0.05
    assert found.half_width > 0.1 * found.gamma


def test_none_is_found_where_nothing_depends_on_it() -> None:
    none = np.zeros(0, int)
    D = np.ones((3, 3)) - np.eye(3)
    assert bandwidth.find(D, [Equations(none, np.arange(3), np.ones(3), np.zeros(0), np.zeros((0, 0)))]) is None
    assert bandwidth.find(np.zeros((3, 3)), equations(np.zeros((3, 3)), 1.0)) is None
