"""Points and networks with one input."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.errors import BadInput
from divulge.solvers.univariate import polyline
from divulge.victims import univariate

RNG = np.random.default_rng


def test_points_keep_a_fifth_of_their_even_distance_and_may_come_that_near() -> None:
    drawn = [univariate.draw(RNG(seed), 10, "alternating")[0] for seed in range(200)]
    least = min(float(np.diff(x).min()) for x in drawn)
    assert 0.04 <= least < 0.042  # 0.2 · 2/10
    assert min(x.min() for x in drawn) >= -1
    assert max(x.max() for x in drawn) <= 1


def test_labels_alternate_or_are_drawn() -> None:
    assert (np.diff(univariate.draw(RNG(0), 9, "alternating")[1]) != 0).all()
    drawn = np.concatenate([univariate.draw(RNG(seed), 20, "random")[1] for seed in range(20)])
    assert abs(drawn.mean()) < 0.2
    assert set(drawn.tolist()) == {-1, 1}


@pytest.mark.parametrize("margin", [1.0, 7.0])
def test_a_kkt_network_has_the_margin_asked_for(margin: float) -> None:
    x, y = univariate.draw(RNG(1), 7, "alternating")
    layers = univariate.train(x, y, RNG(2), margin=margin)
    assert (y * polyline.of_network(layers)(x)).min() == pytest.approx(margin)


def test_units_that_cannot_separate_the_points_are_refused() -> None:
    x, y = univariate.draw(RNG(1), 8, "alternating")
    with pytest.raises(BadInput, match="expected enough units to separate 8 points, got 2"):
        univariate.train(x, y, RNG(2), units=2)
