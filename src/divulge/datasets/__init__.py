"""Name -> arrays: pictures, tables, and points made to order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from divulge.contract import Array
from divulge.datasets import encoders, features, pictures, synthetic, tables
from divulge.datasets.dataset import Dataset
from divulge.errors import BadInput, refuse_unknown

__all__ = ["Dataset", "load", "names"]

SEEN = {**features.PICTURES, **encoders.PICTURES}
"Name of features -> the pictures they are of."


def load(
    name: str,
    *,
    samples: int | None = None,
    seed: int = 0,
    full: bool = False,
    standardised: bool = False,
    only: Sequence[Any] | None = None,
    **sizes: Any,
) -> Dataset:
    """The set of this name, whole or `samples` of its training rows, drawn by `seed`, as equal over classes as can be.

    Pictures come from the samples inside the package; more of them, or `full`, from the folder that the environment
    variable DIVULGE_DATA names, or by download. Rows leave a set in an order that the seed alone decides, so fewer
    samples of it are the first of more; features made of pictures are scaled by the rows drawn;
    those of an encoder need the extra of that name. A table has no test set
    of its own: the rows not drawn serve as one. Points made to order take `sizes`, such as dimension=50.
    `standardised` gives every feature mean 0 and variance 1 over the training rows. `only` keeps the classes it lists, by
    label or name, such as only=[3, 8]; they keep their labels.
    """
    refuse_unknown([name], names(), "dataset")
    for option, number, least in (("samples", samples, 1), ("seed", seed, 0)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least):
            raise BadInput(f"expected a whole number from {least} for {option}, got {number!r}; correct it")
    for option, switch in (("full", full), ("standardised", standardised)):
        if not isinstance(switch, bool):
            raise BadInput(f"expected true or false for {option}, got {switch!r}; correct it")
    if only is not None and (isinstance(only, str) or not isinstance(only, Sequence)):
        raise BadInput(f"expected a list of classes for only, got {only!r}; write only=[{only!r}]")
    rng = np.random.default_rng(seed)
    if name in synthetic.FAMILIES:
        if only is not None:
            raise BadInput(f"{name} is made to order and has as many classes as it is asked for; leave only out")
        loaded = synthetic.make(name, rng, samples, sizes)
    else:
        refuse_unknown(sizes, ("samples", "seed", "full", "standardised", "only"), f"dataset {name}")
        if name in tables.TABLES:
            loaded = tables.load(name, only)
        else:
            loaded = pictures.load(SEEN.get(name, name), samples, full, only)
        if samples is not None:
            loaded = _drawn(loaded, samples, rng)
        if name in features.PICTURES:
            loaded = features.seen(loaded, name)
        if name in encoders.PICTURES:
            loaded = encoders.seen(loaded, name)
    loaded = replace(loaded, X=pictures.as_floats(loaded.X), X_test=pictures.as_floats(loaded.X_test))
    return _standardised(loaded) if standardised else loaded


def names() -> dict[str, str]:
    """Every dataset, with a line on what it is."""
    return {**pictures.NAMES, **features.NAMES, **encoders.NAMES, **tables.NAMES, **synthetic.NAMES}


def _drawn(loaded: Dataset, samples: int, rng: np.random.Generator) -> Dataset:
    if samples > len(loaded.X):
        raise BadInput(
            f"expected at most the {len(loaded.X)} training rows of {loaded.name}, got samples={samples}; ask for fewer"
        )
    order = _balanced(loaded.y, rng) if loaded.classes else rng.permutation(len(loaded.X))
    chosen, rest = order[:samples], order[samples:]
    drawn = replace(loaded, X=loaded.X[chosen], y=loaded.y[chosen])
    return drawn if len(loaded.X_test) else replace(drawn, X_test=loaded.X[rest], y_test=loaded.y[rest])


def _balanced(y: Array, rng: np.random.Generator) -> Array:
    """An order of the rows in which the classes take turns for as long as they last."""
    order = rng.permutation(len(y))
    turn = np.empty(len(y), dtype=int)
    for label in np.unique(y):
        members = order[y[order] == label]
        turn[members] = np.arange(len(members))
    return order[np.argsort(turn[order], kind="stable")]


def _standardised(loaded: Dataset) -> Dataset:
    mean, spread = loaded.X.mean(axis=0), loaded.X.std(axis=0)
    spread[spread == 0] = 1  # a constant feature becomes 0 and stays finite
    return replace(loaded, X=(loaded.X - mean) / spread, X_test=(loaded.X_test - mean) / spread)
