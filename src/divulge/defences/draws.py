"""Randomness that belongs to a point: asked twice, it is the same."""

from __future__ import annotations

import hashlib

import numpy as np

from divulge.contract import Array


def generator(seed: int, what: str, x: Array) -> np.random.Generator:
    """A generator of its own for a point (d,), by all of its bits: the smallest move draws anew."""
    digest = hashlib.sha256(f"{seed} {what} ".encode() + np.ascontiguousarray(x, float).tobytes()).digest()
    return np.random.default_rng(np.frombuffer(digest, np.uint32))
