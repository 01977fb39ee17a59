"""A run-off between the two classes that most parts vote for (Rezaei et al. 2023, arXiv:2302.02300).

Every learner of a part ranks all classes. In the first round each votes for its first; in the second each votes for one of
the two leaders, those who had wanted neither too. A training point still changes one learner alone. With two classes both
rounds are the plain vote of `partition`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from divulge.arrays import Array
from divulge.defences import partition

Rank = Callable[[Array], Array]
"Points (m, ...) to a score of each class that it was trained on (m, classes of its part), in their order."
TrainRanks = Callable[[Array, Array], Rank]
NEVER = np.iinfo(np.int64).max // 4
"More changes than there are learners, and four of them still have a sum."


@dataclass(frozen=True)
class RunOff:
    """What the learners of all parts say of each test point, class against class."""

    counts: Array
    "(m, classes): learners that rank a class first."
    preferred: Array
    "(m, classes, classes): learners that rank the one class over the other."

    def __post_init__(self) -> None:
        m, classes = np.shape(self.counts) if np.ndim(self.counts) == 2 else (0, 0)
        if classes < 2 or self.preferred.shape != (m, classes, classes):
            raise ValueError(
                "expected votes (points, classes) for two classes or more and preferences (points, classes, classes), got "
                f"shapes {self.counts.shape} and {self.preferred.shape}"
            )

    @classmethod
    def of(cls, scores: Array) -> RunOff:
        """Of scores (parts, m, classes); of equal ones the lower index ranks first."""
        m, classes = scores.shape[1:]
        counts = np.zeros((m, classes), dtype=np.int64)
        preferred = np.zeros((m, classes, classes), dtype=np.int64)
        lower = np.triu(np.ones((classes, classes), dtype=bool), 1)
        for one in scores:
            counts[np.arange(m), one.argmax(axis=1)] += 1
            ours, others = one[:, :, None], one[:, None, :]
            preferred += (ours > others) | ((ours == others) & lower)
        return cls(counts, preferred)

    @property
    def leaders(self) -> Array:
        """(m, 2): indices of the classes with the most and the second most first places, of equals the lower."""
        return np.asarray(np.argsort(-self.counts, axis=1, kind="stable")[:, :2])

    @property
    def winner(self) -> Array:
        """(m,): index of the leader that more learners rank over the other, the lower one of equals."""
        low, high = np.sort(self.leaders, axis=1).T
        rows = np.arange(len(self.counts))
        return np.asarray(np.where(self.preferred[rows, high, low] > self.preferred[rows, low, high], high, low))

    @property
    def radius(self) -> Array:
        """(m,): how many training points may be put in or taken out, in all, before the winner can be another.

        With gap(a, b) the lead of class a over b, ties counted, ⌈gap/2⌉ changed learners let b overtake a. The winner c
        falls in the first round where two classes a, b overtake it: max(⌈gap(c, a)/2⌉, ⌈gap(c, b)/2⌉,
        ⌈(gap(c, a) + gap(c, b))/3⌉) changes, as one changed learner costs the one gap 2 and the other 1. It falls in the
        second to a class b that overtakes the other leader in first places, and c in the preferences: the larger of both.
        """
        m, classes = self.counts.shape
        rows, winner = np.arange(m), self.winner
        leaders = self.leaders
        other = np.where(leaders[:, 0] == winner, leaders[:, 1], leaders[:, 0])
        first, again = np.arange(classes)[None], winner[:, None]
        gaps = np.maximum(self.counts[rows, winner][:, None] - self.counts + (first > again), 0)
        gaps[rows, winner] = NEVER
        one, two = np.sort(gaps, axis=1)[:, :2].T  # every term grows with both gaps, so the two least are the least of pairs
        in_first = np.maximum(_half(two), -(-(one + two) // 3))
        behind = np.maximum(self.counts[rows, other][:, None] - self.counts + (first > other[:, None]), 0)
        behind[rows, other] = 0
        duel = np.maximum(self.preferred[rows, winner] - self.preferred[rows, :, winner] + (first > again), 0)
        duel[rows, winner] = NEVER
        in_second = np.maximum(_half(behind), _half(duel)).min(axis=1)
        return np.asarray(np.minimum(in_first, in_second) - 1)


def elect(train: TrainRanks, X: Array, y: Array, X_test: Array, parts: int, classes: Array) -> RunOff:
    """The run-off on X_test (m, ...) of the learners that `train(X_part, y_part)` makes of each part of X (n, ...), y (n,).

    As in `partition.vote`, whose conditions hold here too. A class that a part does not have comes last in its ranking.
    """
    scores = np.full((parts, len(X_test), len(classes)), -np.inf)
    for number, (X_part, y_part, present) in enumerate(partition.split(X, y, parts, np.asarray(classes))):
        if len(present) < 2:
            scores[number][:, present] = 0
        else:
            scores[number][:, present] = train(X_part, y_part)(X_test)
    return RunOff.of(scores)


def _half(gap: Array) -> Array:
    """⌈gap/2⌉"""
    return np.asarray(-(-gap // 2))
