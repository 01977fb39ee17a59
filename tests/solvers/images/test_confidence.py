"""What speaks for a candidate, and how its scale is told."""

from __future__ import annotations

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.images import ica
from divulge.solvers.images.confidence import (
    Measures,
    measure,
    scaled_by_bias,
    scaled_to_box,
    scaled_to_unit_deviation,
    stability,
)
from divulge.solvers.images.ica import Differences
from divulge.solvers.shared import synthetic_images

GREY = (20, 20)
RNG = np.random.default_rng


def mixed(seed: int, count: int = 8) -> tuple[Array, Array, Array, Array]:
    """Images, axes of their span, the bias of each axis, and the rows that turn axes into images."""
    rng = RNG(seed)
    X = synthetic_images.strokes(rng, count, GREY)
    mixture = np.linalg.qr(rng.standard_normal((count, count)))[0]
    axes = mixture @ X
    return X, axes, mixture.sum(axis=1), np.linalg.solve(axes @ axes.T, axes @ X.T).T


def measured(rows: Array, axes: Array, bias: Array, others: list[Array]) -> Measures:
    samples = Differences.of(axes, GREY)
    return measure(
        rows,
        others,
        samples,
        lambda some: scaled_by_bias(some, axes, bias),
        (0.0, 1.0),
        0.1,
        np.random.default_rng(0),
    )


def one(
    agreement: float = 1.0,
    outside: float = 0.0,
    stability: float = 1.0,
    hidden: float = 0.1,
) -> float:
    return float(every(agreement, outside, stability, hidden).confidence()[0])


def every(*values: float) -> Measures:
    return Measures(*(np.array([value]) for value in values))


def test_the_bias_gives_sign_and_scale() -> None:
    X, axes, bias, true = mixed(6)
    found, factors = scaled_by_bias(-3 * true, axes, bias)
    assert found == pytest.approx(X)
    assert factors == pytest.approx(np.full(8, -1 / 3))


def test_without_a_bias_pictures_fill_the_box() -> None:
    X, axes, _, true = mixed(6)
    found, _ = scaled_to_box(-3 * true, axes, None, (0.0, 1.0))
    assert np.abs(found - X).max() < 0.05


@pytest.mark.parametrize(("stray", "brightest"), [(1, 1.0), (3, 0.5)])
def test_one_pixel_in_five_hundred_may_lie_outside_of_the_box(stray: int, brightest: float) -> None:
    """Of a digit's 784 one or two: a third of twice the size would halve the picture."""
    x = np.linspace(0.1, 1, 784)
    x[:stray] = 2.0
    found, _ = scaled_to_box(np.ones((1, 1)), x[None], None, (0.0, 1.0))
    assert found[0, -1] == pytest.approx(brightest, abs=0.01)


def test_where_nothing_tells_the_scale_what_is_far_is_bright() -> None:
    X, axes, _, true = mixed(6)
    found, _ = scaled_to_unit_deviation(-3 * true, axes)
    assert found.std(axis=1) == pytest.approx(np.ones(8))
    assert found == pytest.approx(X / X.std(axis=1, keepdims=True))


def test_training_images_speak_for_themselves_and_mixtures_do_not() -> None:
    _, axes, bias, true = mixed(1)
    others = [true + 0.01 * RNG(2).standard_normal(true.shape)]
    assert measured(true, axes, bias, others).confidence().min() > 0.9
    mixtures = RNG(3).standard_normal((8, 8)) @ true
    assert measured(mixtures, axes, bias, [true]).confidence().max() < 0.5


def test_measures_are_what_they_say() -> None:
    _, axes, bias, true = mixed(1)
    found = measured(true, axes, bias, [true[::-1], true])
    assert found.agreement == pytest.approx(np.ones(8))
    assert found.outside == pytest.approx(np.zeros(8), abs=1e-9)
    assert found.hidden.tolist() == [0.1] * 8
    assert (found.stability > 0.97).all()


def test_half_a_picture_separates_images_and_not_mixtures_of_too_many() -> None:
    """Noise of as many directions as a quarter of its pixels can be made sparse in either half, and not in the same way."""
    _, axes, bias, true = mixed(1)
    samples = Differences.of(axes, GREY)
    images = stability(true, samples, lambda some: scaled_by_bias(some, axes, bias), RNG(0))
    assert images.min() > 0.97
    noise = RNG(1).standard_normal((100, 400))
    samples = Differences.of(noise, GREY)
    start = ica.separate(samples, RNG(2))
    false = stability(start, samples, lambda some: scaled_by_bias(some, noise, np.ones(100)), RNG(0))
    assert np.median(false) < 0.9


def test_halves_are_apart_and_make_up_the_whole() -> None:
    for shape in (GREY, (12, 10, 3)):
        pictures = RNG(0).standard_normal((3, int(np.prod(shape))))
        samples = Differences.of(pictures, shape)
        one, other = samples.halves(5, RNG(1))
        energy = [float((part.flat.astype(float) ** 2).sum()) for part in (one, other)]
        whole = float((samples.flat.astype(float) ** 2).sum())
        if len(shape) == 2:
            assert one.flat.shape[1] + other.flat.shape[1] == samples.flat.shape[1]
            assert sum(energy) == pytest.approx(whole)
        else:  # blurred samples keep their places, scaled by what is missing
            assert not (one.flat * other.flat).any()
            assert sum(energy) == pytest.approx(2 * whole, rel=0.2)


def test_every_measure_counts_the_way_it_should() -> None:
    usual = one()
    assert usual > 0.9
    assert one(agreement=0.9) < usual
    assert one(outside=0.1) < usual
    assert one(hidden=0.9) < usual
    assert one(stability=0.9) < usual


def test_confidence_does_not_grow_beyond_what_a_measure_can_tell() -> None:
    """Attempts alike to a thousandth, and a hundredth of the picture's deviation outside the box, are as good as it gets."""
    assert one(agreement=1 - 1e-3) == one(agreement=1)
    assert one(agreement=1 - 2e-3) < one(agreement=1)
    assert one(outside=1e-2) == one(outside=0)
    assert one(outside=2e-2) < one(outside=0)


def test_a_certain_candidate_becomes_one_that_is_left_out_measure_by_measure() -> None:
    """Certain from 0.9, claimed from 0.5: a weight that moves by a quarter moves one of these steps."""
    faults: dict[str, float] = {"agreement": 0.99, "outside": 0.05, "stability": 0.99, "hidden": 0.2}
    steps = [one(**faults)]
    for worse in ({"agreement": 0.8}, {"outside": 0.15}, {"stability": 0.97}, {"hidden": 0.9}):
        faults |= worse
        steps.append(one(**faults))
    assert steps == pytest.approx([0.94, 0.66, 0.493, 0.196, 0.078], abs=0.015)


def test_what_lies_outside_of_the_box_counts_only_where_the_box_is_known() -> None:
    inside, outside = every(0.99, 0.02, 0.99, 0.2), every(0.99, 0.5, 0.99, 0.2)
    assert outside.confidence()[0] < inside.confidence()[0] - 0.05
    assert outside.confidence(boxed=False)[0] == inside.confidence(boxed=False)[0] == pytest.approx(0.929, abs=0.015)
