"""Defences: each changes exactly what it says, is told apart from the others, and names a mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from divulge import Gradients, Predictions, Weights
from divulge.baselines import PublishedExtraction
from divulge.contract import Context
from divulge.defences import DEFENCES, defended
from divulge.errors import BadInput, TargetFailed

SETTINGS: dict[str, dict[str, Any]] = {
    "rounding": {"digits": 2},
    "noise": {"sigma": 0.1},
    "absolute": {},
    "top-class": {},
    "smoothgrad": {"sigma": 0.5},
    "query-limit": {"points": 100},
}
X = np.random.default_rng(5).normal(size=(7, 6))


def network(outputs: int = 3) -> Weights:
    rng = np.random.default_rng(0)
    return Weights(((rng.normal(size=(9, 6)), rng.normal(size=9)), (rng.normal(size=(outputs, 9)), np.zeros(outputs))))


@pytest.fixture
def api() -> Gradients:
    return Gradients.of(network())


@pytest.mark.parametrize("name", DEFENCES)
def test_every_defence_answers_the_same_points_the_same_way_again(api: Gradients, name: str) -> None:
    held: Predictions = api if name in SETTINGS else Predictions.of(network())
    one, two = (defended(held, name, seed=3, **SETTINGS.get(name, {})) for _ in range(2))
    if isinstance(one, Gradients) and isinstance(two, Gradients):
        assert np.array_equal(one.gradient(X), two.gradient(X))
        assert np.array_equal(one.gradient(X[:1]), two.gradient(X)[:1])
    assert np.array_equal(one.value(X), two.value(X))
    assert one.identity == two.identity


def test_no_two_defended_apis_share_an_identity(api: Gradients) -> None:
    other = Gradients.of(network(2))
    made = [defended(api, name, **settings) for name, settings in SETTINGS.items()]
    made += [defended(other, "absolute"), defended(api, "noise", sigma=0.2), defended(api, "noise", sigma=0.1, seed=1)]
    made += [defended(defended(api, "absolute"), "noise", sigma=0.1)]
    identities = {access.identity for access in (api, *made)}
    assert len(identities) == len(made) + 1


@given(value=st.floats(1e-200, 1e200), sign=st.sampled_from([-1, 1]), digits=st.integers(1, 12))
def test_significant_digits_move_a_number_by_half_of_the_last_one(value: float, sign: int, digits: int) -> None:
    api = Predictions(lambda X: np.full(len(X), sign * value), 1, "constant")
    rounded = defended(api, "rounding", digits=digits).value(np.zeros((1, 1)))[0]
    assert abs(rounded - sign * value) <= 0.5000001 * 10.0 ** (np.floor(np.log10(value)) - digits + 1)
    assert float(f"{rounded:.{digits - 1}e}") == pytest.approx(rounded, rel=1e-14)


def test_rounding_changes_what_it_is_told_to(api: Gradients) -> None:
    values = defended(api, "rounding", decimals=1, of="values")
    assert np.array_equal(values.value(X), np.round(api.value(X), 1))
    assert np.array_equal(values.gradient(X), api.gradient(X))
    gradients = defended(api, "rounding", decimals=1, of="gradients")
    assert np.array_equal(gradients.gradient(X), np.round(api.gradient(X), 1))
    assert np.array_equal(gradients.value(X), api.value(X))


def test_zero_has_no_digits_to_lose() -> None:
    flat = Predictions(lambda X: np.zeros(len(X)), 6, "flat")
    assert np.array_equal(defended(flat, "rounding", digits=3).value(X), np.zeros(7))


def test_noise_has_the_size_it_says(api: Gradients) -> None:
    many = np.random.default_rng(0).normal(size=(2000, 6))
    moved = defended(api, "noise", sigma=0.1).gradient(many) - api.gradient(many)
    assert np.std(moved) == pytest.approx(0.1 * np.sqrt(np.mean(api.gradient(many) ** 2)), rel=0.1)
    assert abs(np.corrcoef(moved[:-1].ravel(), moved[1:].ravel())[0, 1]) < 0.05


def test_fresh_noise_is_another_every_time_and_fixed_noise_is_not(api: Gradients) -> None:
    for name, sigma in (("noise", 0.1), ("smoothgrad", 1.0)):
        fresh = defended(api, name, fresh=True, sigma=sigma)
        assert not np.array_equal(fresh.gradient(X), fresh.gradient(X))
        fixed = defended(api, name, sigma=sigma)
        assert np.array_equal(fixed.gradient(X), fixed.gradient(X))


def test_noise_that_belongs_to_a_point_is_averaged_away_by_moves_nobody_sees(api: Gradients) -> None:
    noisy = defended(api, "noise", sigma=0.1)
    near = X[:1] + 1e-9 * np.random.default_rng(0).normal(size=(400, 6))
    one, mean = (
        np.linalg.norm(told - api.gradient(X[:1])[0]) for told in (noisy.gradient(X[:1])[0], noisy.gradient(near).mean(0))
    )
    assert mean < 0.15 * one


def test_the_gradient_of_the_largest_output_is_left(api: Gradients) -> None:
    top = defended(api, "top-class")
    expected = [api.gradient(x[None])[0, api.value(x[None])[0].argmax()] for x in X]
    assert np.array_equal(top.gradient(X), expected)


@pytest.mark.parametrize(("outputs", "named"), [(1, {-1, 1}), (3, {0, 1})])
def test_a_class_alone_says_nothing_of_how_far_it_was_decided(outputs: int, named: set[int]) -> None:
    model = Predictions.of(network(outputs))
    told = defended(model, "label-only").value(X)
    assert set(np.unique(told)) == named
    values = model.value(X)
    kept = np.sign(values) if outputs == 1 else np.eye(3)[values.argmax(axis=1)]
    assert np.array_equal(told, kept)


def test_smoothing_tends_to_the_gradient_of_the_smoothed_network() -> None:
    kink = Gradients(lambda X: np.maximum(X[:, 0], 0), 1, gradient=lambda X: (X > 0).astype(float))
    smoothed = defended(kink, "smoothgrad", sigma=1.0, samples=20_000).gradient(np.array([[0.0], [1.0]]))
    assert np.allclose(smoothed, [[0.5], [0.8413]], atol=0.02)


def test_a_limit_counts_a_value_and_its_gradient_once_and_then_ends_the_attack(api: Gradients) -> None:
    limited = defended(api, "query-limit", points=10)
    limited.value(X)
    limited.gradient(X)
    with pytest.raises(TargetFailed, match="answers 10 points, 7 were answered and 7 more"):
        limited.value(X)
    assert limited.value(X[:3]).shape == (3, 3)
    plane = Gradients.of(Weights(((np.eye(12)[:10], np.zeros(10)), (np.ones((1, 10)), np.zeros(1)))))
    finding = PublishedExtraction()(defended(plane, "query-limit", points=100), context=Context(0))
    assert finding.verdict == "failed"
    assert finding.partial
    assert finding.cost.points <= 101


@pytest.mark.parametrize(
    ("kind", "name", "settings", "sentence"),
    [
        (Gradients, "smothgrad", {}, "did you mean 'smoothgrad'"),
        (Gradients, "noise", {"sgma": 1}, "unknown key 'sgma'; did you mean 'sigma'"),
        (Gradients, "noise", {}, "expected sigma for the defence 'noise'"),
        (Gradients, "noise", {"sigma": 0}, "greater than 0"),
        (Gradients, "noise", {"sigma": 1, "seed": -1}, "whole number from 0 as seed"),
        (Gradients, "rounding", {}, "one of decimals and digits"),
        (Gradients, "rounding", {"decimals": 1, "digits": 1}, "one of decimals and digits"),
        (Predictions, "absolute", {}, "an API of values only"),
        (Gradients, "label-only", {}, "an API of values to answer with classes alone"),
        (Predictions, "rounding", {"digits": 1, "of": "gradients"}, "an API of values only"),
    ],
)
def test_mistakes_are_named(kind: type[Predictions], name: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        defended(kind.of(network()), name, **settings)


def test_one_output_has_no_largest() -> None:
    with pytest.raises(BadInput, match="gradients of several outputs"):
        defended(Gradients.of(network(1)), "top-class")
