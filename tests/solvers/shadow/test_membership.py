"""Shadow-model membership inference: members of a small network stand out, by what its shadows teach."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from divulge.arrays import Array, Layer
from divulge.solvers.images.span import Span, span
from divulge.solvers.margin import max_margin
from divulge.solvers.shadow import membership
from divulge.solvers.shadow.membership import By, ShadowInference

RNG = np.random.default_rng
MEMBERS, DIMENSION = 12, 40


def points(count: int, seed: int) -> Array:
    return RNG(seed).standard_normal((count, DIMENSION)) * np.linspace(2, 0.2, DIMENSION)


@cache
def network() -> tuple[list[Layer], Span, Array]:
    """A network 40-30-1 trained on the first points of a crowd, whose mean is known to be 0."""
    X = points(1000, 0)
    start = max_margin.initial(RNG(1), [DIMENSION, 30, 1])
    layers = max_margin.train(start, X[:MEMBERS], np.resize([1, -1], MEMBERS)).layers
    return layers, span(*layers[0]), X


def inferred(count: int = 1000, shadows: int = 2, by: By = "both", known: int | None = MEMBERS) -> ShadowInference:
    layers, seen, X = network()
    return membership.infer(layers, X[:count], np.zeros(DIMENSION), seen, None, RNG(2), by=by, count=known, shadows=shadows)


def test_members_score_above_all_others_and_are_called() -> None:
    found = inferred(shadows=2)
    assert found.scores.shape == (1000,)
    assert found.scores[:MEMBERS].min() > found.scores[MEMBERS:].max()
    called = found.scores > found.threshold
    assert called[:MEMBERS].mean() > 0.8
    assert called[MEMBERS:].mean() < 0.005


def test_the_shadows_say_how_many_members_would_be_found() -> None:
    found = inferred(shadows=2)
    assert found.trained_on == MEMBERS
    assert len(found.members) == 2 * MEMBERS
    assert len(found.non_members) == 2 * (1000 - MEMBERS)
    assert found.recall == np.mean(found.members > found.threshold)
    assert np.mean(found.non_members > found.threshold) <= 0.001


def test_the_span_alone_tells_members_apart_too() -> None:
    scores = inferred(shadows=1, by="span").scores
    assert np.mean(scores[:MEMBERS] > np.quantile(scores[MEMBERS:], 0.99)) > 0.5


def test_the_threshold_is_half_way_from_the_rarest_non_members_to_the_lower_quarter_of_members() -> None:
    found = inferred()
    rare = np.quantile(found.non_members, 0.999, method="higher")
    assert found.threshold == pytest.approx((rare + np.quantile(found.members, 0.25)) / 2)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "made"), [(1000, 0), (999, 1), (30, 970)])
def test_fewer_than_a_thousand_points_get_others_beside_them_and_one_shadow(count: int, made: int) -> None:
    found = inferred(count)
    assert found.made == made
    assert len(found.scores) == count
    assert len(found.members) == (2 if not made else 1) * MEMBERS


def test_where_points_were_made_the_threshold_is_half_way_to_the_middle_of_the_members() -> None:
    found = inferred(30)
    rare = np.quantile(found.non_members, 0.999, method="higher")
    assert found.threshold == pytest.approx((rare + np.median(found.members)) / 2)


def test_a_shadow_learns_a_third_of_the_points_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "PASSES", 10)  # its size is all that is looked at
    assert inferred(shadows=1, known=900).trained_on == 1000 // 3


def test_an_unknown_number_of_training_points_is_estimated() -> None:
    assert inferred(shadows=1, known=None).trained_on == pytest.approx(MEMBERS, abs=3)


def test_points_made_up_are_as_large_as_those_they_were_made_of_and_pictures_have_the_same_pixels() -> None:
    X = points(50, 3)
    made, origin = membership.made_up(X, 200, None, RNG(0))
    sizes = [np.linalg.norm(one - X.mean(axis=0), axis=1) for one in (made, X[origin])]
    np.testing.assert_allclose(*sizes)
    pictures, origin = membership.made_up(RNG(0).random((20, 64)), 100, (8, 8), RNG(1))
    np.testing.assert_allclose(np.sort(pictures), np.sort(RNG(0).random((20, 64))[origin]))


def test_no_point_made_up_is_one_of_those_given() -> None:
    X = points(3, 3)
    made, origin = membership.made_up(X, 300, None, RNG(0))
    assert np.linalg.norm(made - X[origin], axis=1).min() > 0.01


def test_no_control_is_called_a_member_where_members_are() -> None:
    found = inferred(shadows=2)
    assert found.controls.shape == (1000,)
    assert np.mean(found.controls > found.threshold) < 0.005


def test_controls_are_pictures_moved_with_their_edges_drawn_on() -> None:
    X = RNG(0).random((20, 64))
    moved = membership.controls_like(X, 100, (8, 8), RNG(1)).reshape(100, 8, 8)
    for one, source in zip(moved, X.reshape(20, 8, 8)[np.arange(100) % 20], strict=True):
        assert not np.array_equal(one, source)
        assert np.isin(one[2:6, 2:6], source).all()
        assert np.isin(one, source).all()


def test_controls_that_are_no_pictures_lie_as_far_out_as_those_given_in_deviations() -> None:
    X = points(200, 3) * RNG(4).standard_exponential((200, 1))
    made = membership.controls_like(X, 200, None, RNG(0))
    mean, inverse = X.mean(axis=0), np.linalg.inv(np.cov(X.T))
    far = [np.einsum("ni,ij,nj->n", one - mean, inverse, one - mean) for one in (made, X)]
    np.testing.assert_allclose(*far)
