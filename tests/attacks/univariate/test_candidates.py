"""What settles a margin and certifies a candidate, just inside and just outside of what is allowed."""

from __future__ import annotations

import numpy as np
import pytest

from divulge import TrainingData, Weights, victims
from divulge.arrays import Array
from divulge.attacks import UnivariateReconstruction
from divulge.attacks.univariate import candidates, scoring
from divulge.attacks.univariate.candidates import Found
from divulge.contract import Score
from divulge.solvers.univariate import polyline

SLACK = polyline.SLACK


def made(points: int, seed: int = 0) -> tuple[Weights, TrainingData]:
    victim = victims.make("univariate", np.empty((0, 1)), np.empty(0), np.random.default_rng(seed), points=points)
    (network,) = victim.held.values()
    truth = victim.truth["training_data"]
    assert isinstance(network, Weights)
    assert isinstance(truth, TrainingData)
    return network, truth


def read(points: int) -> Found:
    return candidates.of_weights(made(points)[0], None, SLACK)


@pytest.mark.parametrize(("off", "certified"), [(2e-5, 8), (1e-4, 0), (2e-4, 0)])
def test_weights_a_little_off_balance_still_certify_each_and_further_off_only_groups(off: float, certified: int) -> None:
    """The function stays the same: only what explains its weights is gone, and so a tolerance is all there is."""
    (W, b), (V, c) = made(8)[0].layers
    moved = Weights(((W / (1 + off), b / (1 + off)), (V * (1 + off), c)))
    found = candidates.of_weights(moved, None, SLACK)
    assert int(found.certain.sum()) == certified
    assert found.tolerance == (0 if certified else 1e-5)


def spread(by: float) -> Weights:
    """A network at a KKT point whose units are split in three, each a little to the side of where it was."""
    (W, b), (V, _) = made(8)[0].layers
    beside = np.array([-by, 0.0, by])[:, None]
    moved = (b - beside * W[:, 0]).ravel()
    thirds = np.sqrt(3)
    return Weights(((np.tile(W, (3, 1)) / thirds, moved / thirds), (np.tile(V, (1, 3)) / thirds, np.zeros(1))))


@pytest.mark.parametrize(("by", "tolerance"), [(1e-5, 1e-5), (1e-4, 1e-4), (1e-3, 1e-3), (2e-2, 0.0)])
def test_breakpoints_beside_a_training_point_certify_at_a_tolerance_that_grows_with_their_distance(
    by: float, tolerance: float
) -> None:
    found = candidates.of_weights(spread(by), None, SLACK)
    assert found.tolerance == tolerance
    assert found.certified.any() == (tolerance > 0)
    assert not found.certain.any()
    near = np.abs(found.reading.points[found.certified][:, None] - made(8)[1].X[:, 0]).min(axis=1, initial=np.inf)
    assert (near <= 2 * tolerance).all()


@pytest.mark.parametrize("by", [1e-6, 1e-5, 1e-4])
def test_a_point_that_several_breakpoints_are_beside_is_listed_once(by: float) -> None:
    network = spread(by)
    values = candidates.of_values(polyline.of_network(network.layers), None, SLACK)
    for found in (values, candidates.of_weights(network, None, SLACK)):
        places = np.sort(found.x)
        assert np.diff(places).min() > candidates.SAME * np.ptp(places) / 2
        loot = found.loot()
        assert loot is not None
        assert len(loot.X) == len(found.x) >= 8


def test_points_that_are_certain_each_are_never_taken_together() -> None:
    groups = candidates._groups(np.array([0.0, 1e-4, 2e-4, 1.0]), np.array([True, False, True, False]), 1e-3)
    np.testing.assert_array_equal(groups, [0, 0, 1, 2])


def test_two_places_of_one_value_are_a_margin_and_a_single_one_must_be_the_only_one_to_explain_the_weights() -> None:
    assert "|N| is that at 2 places" in read(2).margin_from
    assert "those of no other do" in read(3).margin_from
    assert int(read(3).certain.sum()) == 3


def test_values_alone_need_three_breakpoints_of_one_value() -> None:
    few, enough = (candidates.of_values(polyline.of_network(made(points)[0].layers), None, SLACK) for points in (4, 5))
    assert few.doubts == ("|N| is the margin at 2 breakpoints, and 3 would show that it is one",)
    assert not few.certified.any()
    assert int(enough.certified.sum()) == 5


@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.02])
def test_which_points_are_certain_does_not_hang_on_how_much_of_its_multiplier_one_must_keep(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "NEEDED", share)
    assert read(9).certain.all()


@pytest.mark.parametrize(("bias", "fits"), [(1e-12, True), (1e-6, False)])
def test_an_output_bias_of_rounding_is_none(bias: float, fits: bool) -> None:
    first, (V, _) = made(8)[0].layers
    finding = UnivariateReconstruction()(Weights((first, (V, np.array([bias])))))
    assert finding.verdict.value == ("leak" if fits else "not applicable")


def scored(network: Weights, truth: TrainingData) -> tuple[dict[str, Score], str]:
    finding = UnivariateReconstruction()(network, truth={"training_data": truth})
    return dict(finding.scores), " ".join(finding.notes)


@pytest.mark.parametrize(("off", "same"), [(0.0005, 1.0), (0.002, 0.0)])
def test_a_candidate_is_a_training_point_within_a_thousandth_of_their_range(off: float, same: float) -> None:
    network, truth = made(8)
    moved = TrainingData(truth.X + off * np.ptp(truth.X), truth.y)
    assert scored(network, moved)[0][scoring.HEADLINE].value == same


@pytest.mark.parametrize(("above", "on"), [(0.0005, 9), (0.003, 8)])
def test_a_training_point_is_on_the_margin_within_a_thousandth_of_it(above: float, on: int) -> None:
    network, truth = made(8)
    function = polyline.of_network(network.layers)
    end = truth.X.max() + above / abs(function.slopes[-1])  # |N| grows beyond the last point
    assert truth.y is not None
    more = TrainingData(np.append(truth.X, [[end]], axis=0), np.append(truth.y, np.sign(function(np.array([end])))))
    assert f"{on} of 9 training points are on the margin" in scored(network, more)[1]


def test_a_breakpoint_far_away_does_not_make_chance_look_worse() -> None:
    network, truth = made(8)
    (W, b), (V, c) = network.layers
    usual = scored(network, truth)[0]["precision of all candidates"].null
    for far, near in ((3.0, True), (30.0, False)):
        w, v = 1e-4 / np.hypot(1, far), 1e-4
        wider = Weights(((np.append(W, [[w]], axis=0), np.append(b, -w * far)), (np.append(V, [[v]], axis=1), c)))
        null = scored(wider, truth)[0]["precision of all candidates"].null
        assert (null < 0.9 * usual) is near


@pytest.mark.parametrize("kind", ["two clusters", "whole numbers"])
def test_points_drawn_like_the_training_points_are_no_leak_however_these_lie(kind: str) -> None:
    """Where data are dense anything that keeps to them is near a training point."""
    rng = np.random.default_rng(0)

    def drawn(count: int) -> Array:
        if kind == "whole numbers":
            return rng.integers(18, 91, count).astype(float)
        return np.where(rng.random(count) < 0.5, -1, 1) + 0.05 * rng.standard_normal(count)

    for _ in range(50):
        truth, strangers = np.sort(drawn(100)), drawn(20)
        near = scoring.NEAR * float(np.ptp(truth))
        right = int((np.abs(strangers[:, None] - truth).min(axis=1) <= near).sum())
        assert not scoring.beyond_chance(right, 20, scoring.chance_of(truth, near))
    pairs = np.sort(np.concatenate([np.arange(10.0), np.arange(10.0) + 0.02]))  # near each other at 3 times the distance
    assert 0.25 < scoring.chance_of(pairs, 0.009) < 0.4
    evenly = np.linspace(0, 1, 20)
    assert scoring.chance_of(evenly, 1e-3) < 0.01  # and where they are not dense, half of the candidates are no chance
