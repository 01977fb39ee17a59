"""Numbers with digits cut off: rounding them, noticing it, and the round numbers that people type."""

from __future__ import annotations

from typing import Any

import numpy as np

from divulge.arrays import Array

MOST = 9  # decimals: %.9f is the longest that is usual; of full numbers of order 1 one in four million ends so early


def rounded_to(values: Array) -> int | None:
    """Decimals after which every value ends, where all of them end early; None for numbers in full."""
    values = np.asarray(values)
    if values.dtype == np.float32 or not np.any(values):
        return None
    for decimals in range(MOST + 1):
        if (np.round(values, decimals) == values).all():
            return decimals
    return None


def cut_off(X: Array) -> Array:
    """Standard deviation of what was cut off the entries of each column (d,): 0 for numbers in full, and for whole ones.

    An entry that ends after k decimals is off by up to 10⁻ᵏ / 2, uniformly; one in single precision by half of its last bit.
    """
    X = np.asarray(X, float)
    units = np.zeros(X.shape[1])
    single = X.astype(np.float32).astype(float)
    for j, column in enumerate(X.T):
        decimals = rounded_to(column)
        if decimals:
            units[j] = 10.0**-decimals
        elif decimals is None and np.array_equal(single[:, j], column):
            units[j] = np.sqrt(np.mean(np.spacing(np.abs(column).astype(np.float32)).astype(float) ** 2))
    return np.asarray(units / np.sqrt(12))


RATIOS = (0.5, 0.1, 0.9, 0.2, 0.8, 0.3, 0.7, 0.15, 0.4, 0.6, 0.25, 0.75, 0.95, 0.99, 0.05, 0.85, 0.35, 0.65, 0.45, 0.55)
"Shares that a person or a grid would choose, the roundest first: twentieths and 0.99; 0.15 early, as a default of SGD."


def significant(values: Array, digits: int) -> Array:
    """Numbers rounded to so many digits each; what is too small for any becomes 0."""
    sizes = np.abs(np.asarray(values, float))
    first = np.floor(np.log10(np.where(sizes > 0, sizes, 1.0)))  # place of the first digit
    places = np.clip(digits - 1 - first, -300, 300)
    return np.asarray(np.round(values * 10.0**places) / 10.0**places)


def round_numbers(low: float, high: float, most: int) -> list[float]:
    """Up to `most` numbers in [low, high] that a person or a grid would choose, the roundest first."""
    if not 0 < low <= high < np.inf:
        return []
    found: dict[float, None] = {}
    decades = range(int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 1)
    for mantissas in ((1,), (5, 2), (3,), (4, 6, 7, 8, 9), (2.5, 1.5, 7.5)):
        _keep(found, (float(f"{m}e{k}") for m in mantissas for k in decades), low, high)
    _keep(found, (10.0 ** (k / 2) for k in range(-16, 17)), low, high)  # grids in half decades
    _keep(found, (2.0**k for k in range(-40, 41)), low, high)
    _keep(found, np.logspace(-4, 4, 10).tolist(), low, high)  # the grid of LogisticRegressionCV
    for digits in (2, 3, 4):
        if len(found) >= most:
            break
        step = 10.0 ** (np.floor(np.log10(low)) - digits + 1)
        if (high - low) / step <= most:
            first, last = int(np.ceil(low / step * (1 - 1e-12))), int(np.floor(high / step * (1 + 1e-12)))
            exponent = int(np.floor(np.log10(low))) - digits + 1
            _keep(found, (float(f"{m}e{exponent}") for m in range(first, last + 1)), low, high)
    return list(found)[:most]


def _keep(found: dict[float, None], numbers: Any, low: float, high: float) -> None:
    for number in numbers:
        if low <= number <= high:
            found.setdefault(number)
