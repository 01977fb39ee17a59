"""A vote of learners trained on parts that the points themselves choose (Deep Partition Aggregation, Levine and Feizi 2021).

A training point decides by its content alone which part it belongs to. A point put in or taken out then changes one learner
and so one vote: a lead of more than two votes for each such point stays a lead, whatever the points are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from divulge.arrays import Array

Predict = Callable[[Array], Array]
Train = Callable[[Array, Array], Predict]


class Certified(Protocol):
    """A vote that says how many points its winners withstand: `Votes`, or `run_off.RunOff`."""

    @property
    def winner(self) -> Array: ...

    @property
    def radius(self) -> Array: ...


KEY = b"divulge: part of a training set"
"Not a secret: the guarantee holds against those who choose the part that a point falls in."


@dataclass(frozen=True)
class Votes:
    """What the learners of all parts say of each test point."""

    counts: Array
    "(m, classes): votes for each class."

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or self.counts.shape[1] < 2:
            raise ValueError(f"expected votes (points, classes) for two classes or more, got shape {self.counts.shape}")

    @property
    def winner(self) -> Array:
        """(m,): index of the class with the most votes, the lower one of equals."""
        return np.asarray(self.counts.argmax(axis=1))

    @property
    def radius(self) -> Array:
        """(m,): how many training points may be put in or taken out, in all, before the winner can be another.

        Replacing a point, or changing it, takes one out and puts one in: it costs two.
        """
        classes, winner = np.arange(self.counts.shape[1]), self.winner[:, None]
        lead = np.take_along_axis(self.counts, winner, axis=1) - self.counts - (classes < winner)
        return np.asarray(np.where(classes == winner, np.iinfo(np.int64).max, lead // 2).min(axis=1))


def assign(X: Array, y: Array, parts: int) -> Array:
    """(n,): the part, from 0, of each of the points X (n, ...) with labels y (n,): the same in every set it is in."""
    if parts < 1:
        raise ValueError(f"expected one part or more, got {parts}")
    return (_digests(X, y) % np.uint64(parts)).astype(np.int64)


def vote(train: Train, X: Array, y: Array, X_test: Array, parts: int, classes: Array) -> Votes:
    """Votes on X_test (m, ...) of the learners that `train(X_part, y_part)` makes of each part of X (n, ...), y (n,).

    `classes` are the labels in the order of their indices, known beforehand and not read off y. A part without points votes
    for the first of them, a part with one class for that. A part's points come in an order that only they decide.

    The guarantee needs a `train` that makes the same of the same points each time, and points that know nothing of each
    other: not scaled by their common mean, nor sifted by their neighbours, for then one point changes many parts.
    """
    classes = np.asarray(classes)
    counts = np.zeros((len(X_test), len(classes)), dtype=np.int64)
    for X_part, y_part, present in split(X, y, parts, classes):
        if len(present) < 2:
            counts[:, present[0] if len(present) else 0] += 1
            continue
        said = _indices(np.asarray(train(X_part, y_part)(X_test)), classes)
        counts[np.arange(len(X_test)), said] += 1
    return Votes(counts)


def split(X: Array, y: Array, parts: int, classes: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Points, labels and indices of the classes of each part, its points in an order that only they decide."""
    X, y = np.asarray(X), np.asarray(y)
    own, indices = assign(X, y, parts), _indices(y, classes)
    order = np.argsort(_digests(X, y), kind="stable")
    for part in range(parts):
        mine = order[own[order] == part]
        yield X[mine], y[mine], np.unique(indices[mine])


def certified_error(votes: Certified, truth: Array, points: int) -> float:
    """The most that the error on test points can be after `points` training points were put in or taken out.

    It is the share of test points that are wrong, or that so many can make wrong one by one; truth (m,) holds indices of
    classes. It bounds every poisoning of that size. Replacing a point costs two: one taken out and one put in.
    """
    return float(np.mean((votes.winner != truth) | (votes.radius < points)))


def _digests(X: Array, y: Array) -> Array:
    """(n,): a hash of each point's features, as little-endian double precision, and its label."""
    X, y = np.asarray(X), np.asarray(y)
    if X.ndim < 2 or y.shape != X.shape[:1]:
        raise ValueError(f"expected points (n, ...) and a label for each, got shapes {X.shape} and {y.shape}")
    features = _bytes(X)
    labels = _bytes(y) if y.dtype.kind in "biuf" else [str(one).encode() for one in y]
    found = [
        hashlib.blake2b(one + label, digest_size=8, key=KEY).digest() for one, label in zip(features, labels, strict=True)
    ]
    return np.frombuffer(b"".join(found), dtype="<u8")


def _bytes(rows: Array) -> list[bytes]:
    rows = (rows.astype(float) + 0.0).astype("<f8")  # -0.0 becomes 0.0: equal points have equal bytes
    return [row.tobytes() for row in rows]


def _indices(labels: Array, classes: Array) -> Array:
    same = labels[:, None] == classes
    unknown = ~same.any(axis=1)
    if unknown.any():
        raise ValueError(f"expected labels of the classes {classes.tolist()}, got {labels[unknown][0]}")
    return np.asarray(same.argmax(axis=1))
