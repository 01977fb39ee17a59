"""Lines and points stay where a function may be asked, and spread over it."""

from __future__ import annotations

import numpy as np

from divulge.solvers.piecewise.regions import Ball, Box, Everywhere, segment


def test_points_and_lines_stay_in_their_region() -> None:
    rng = np.random.default_rng(0)
    for region in (Box(49, -2.0, 3.0), Ball(49, 0.5)):
        line = region.line(rng)
        ends = line.points(np.array(line.ends))
        assert not line.endless
        if isinstance(region, Box):
            X = np.concatenate([ends, region.points(40, rng), region.points(40, rng, rng.standard_normal((5, 49)))])
            assert X.min() >= -2
            assert X.max() <= 3
            assert all(region.holds(x) for x in X)
        assert region.holds(region.usual(rng))
    far = Everywhere(5, scale=3.0, far=100.0)
    assert not far.holds(np.full(5, 1e3))
    np.testing.assert_allclose(segment(np.zeros(2), np.ones(2)).points(np.array([0.5])), [[0.5, 0.5]])
