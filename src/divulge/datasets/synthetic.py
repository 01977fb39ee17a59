"""Points made to order, of as many rows and features as one likes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from divulge.contract import Array
from divulge.datasets.dataset import Dataset
from divulge.errors import BadInput, refuse_unknown

Labelled = tuple[Array, Array]
Draw = Callable[[int], Labelled]
"So many rows and their labels, new ones at every call."


def gaussian_blobs(rng: np.random.Generator, *, dimension: int = 20, classes: int = 2, distance: float = 4.0) -> Draw:
    """One round cloud of unit width a class; centres are `distance` from the middle."""
    centres = distance * _directions(rng, classes, dimension)

    def draw(rows: int) -> Labelled:
        labels = rng.permutation(np.arange(rows) % classes)
        X = centres[labels] + rng.standard_normal((rows, dimension))
        return X, 2 * labels - 1 if classes == 2 else labels

    return draw


def sphere(rng: np.random.Generator, *, dimension: int = 100) -> Draw:
    """Points uniform on the sphere of radius √dimension, labelled by tossing a coin."""

    def draw(rows: int) -> Labelled:
        return np.sqrt(dimension) * _directions(rng, rows, dimension), rng.choice((-1, 1), rows)

    return draw


def normal(rng: np.random.Generator, *, dimension: int = 100) -> Draw:
    """Points of a standard normal distribution, labelled by tossing a coin."""

    def draw(rows: int) -> Labelled:
        return rng.standard_normal((rows, dimension)), rng.choice((-1, 1), rows)

    return draw


def gaussian_mixture(rng: np.random.Generator, *, dimension: int = 100, separation: float = 1.0) -> Draw:
    """Two round clouds of unit width whose centres, one the negative of the other, are `separation` · dimension^¼ from 0.

    At that distance inner products of two points are as large from their centres as from chance.
    """
    centre = separation * dimension**0.25 * _directions(rng, 1, dimension)

    def draw(rows: int) -> Labelled:
        y = rng.choice((-1, 1), rows)
        return y[:, None] * centre + rng.standard_normal((rows, dimension)), y

    return draw


def two_gaussians(rng: np.random.Generator) -> Draw:
    """Two clouds in the plane, of equally many points: around (−3, 0) and (3, 0), with variances 2.5 along and 1.5 across.

    The example of Carnerero-Cano et al. 2021, appendix C.1.
    """

    def draw(rows: int) -> Labelled:
        y = 2 * rng.permutation(np.arange(rows) % 2) - 1
        return y[:, None] * np.array([3.0, 0.0]) + np.sqrt([2.5, 1.5]) * rng.standard_normal((rows, 2)), y

    return draw


def linear(rng: np.random.Generator, *, dimension: int = 20, noise: float = 0.1) -> Draw:
    """A regression: y = Xw + noise, with Gaussian X and w."""
    w = rng.standard_normal(dimension)

    def draw(rows: int) -> Labelled:
        X = rng.standard_normal((rows, dimension))
        return X, X @ w + noise * rng.standard_normal(rows)

    return draw


@dataclass(frozen=True)
class Family:
    line: str
    begin: Callable[..., Draw]
    samples: int
    test: int


FAMILIES = {
    "gaussian-blobs": Family("made to order: a round cloud of points a class", gaussian_blobs, samples=200, test=1000),
    "sphere": Family(
        "made to order: points on the sphere of radius √dimension, labels by chance", sphere, samples=20, test=5000
    ),
    "normal": Family("made to order: normal points, labels by chance", normal, samples=20, test=5000),
    "gaussian-mixture": Family(
        "made to order: two clouds with opposite centres, labelled by cloud", gaussian_mixture, samples=20, test=5000
    ),
    "two-gaussians": Family(
        "made to order: two clouds in the plane, side by side, that overlap a little", two_gaussians, samples=96, test=1000
    ),
    "linear": Family("made to order: a linear regression with noise", linear, samples=200, test=1000),
}
NAMES = {name: family.line for name, family in FAMILIES.items()}


def make(name: str, rng: np.random.Generator, samples: int | None, sizes: Mapping[str, Any]) -> Dataset:
    """Training rows first, then the test rows, so that asking for more of these does not change those."""
    family = FAMILIES[name]
    known: dict[str, Any] = {"test": family.test, **(family.begin.__kwdefaults__ or {})}
    refuse_unknown(sizes, known, f"dataset {name}")
    for option, value in sizes.items():
        _check(option, value, whole=isinstance(known[option], int))
    sizes = known | dict(sizes)
    test = sizes.pop("test")
    draw = family.begin(rng, **sizes)
    X, y = draw(samples or family.samples)
    X_test, y_test = draw(test)
    classes: tuple[str, ...] = ()
    if name != "linear":
        classes = ("-1", "+1") if sizes.get("classes", 2) == 2 else tuple(str(label) for label in range(sizes["classes"]))
    return Dataset(name, X, y, X_test, y_test, "Made to order by divulge.", "none needed", classes=classes)


def _check(option: str, value: Any, whole: bool) -> None:
    allowed, least, words = (int, 1, "a whole number from 1") if whole else (int | float, 0, "a number from 0")
    if isinstance(value, bool) or not isinstance(value, allowed) or not least <= value < np.inf:
        raise BadInput(f"expected {words} for {option}, got {value!r}; correct it")


def _directions(rng: np.random.Generator, rows: int, dimension: int) -> Array:
    X = rng.standard_normal((rows, dimension))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))
