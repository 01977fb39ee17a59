"""Logit gaps of a classifier, from whatever it answers, and clusters of equal margins among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from divulge.arrays import Array
from divulge.solvers.shared.affine import adds_to_one

Kind = Literal["output", "outputs", "probability", "probabilities"]

WIDTHS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Of a cluster, as shares of its height. Training to a loss of 1e-20 leaves 2 % (the sphere of the experiments), to 1e-6
about 10 %, and what is within the least is as good as equal. Each is about twice the one before, so one is near any cluster.
"""
FLANK = 2.0
"""Length of a flank beside the widest window, in such windows, and shorter by √width beside others. Longer ones reach over
slopes, shorter ones hold nobody: half or twice as long they miss clusters that the tests want found."""
BUMP = 0.15
"Deviation of the narrowest bump in log |f| that a smooth crowd may have: |f| of 10 ± 1.5."


@dataclass(frozen=True, eq=False)
class LogitGaps:
    """|f| of one output, or of several how far the largest is above the next."""

    values: Array
    "(n,), never negative."
    kind: Kind
    "What was answered."
    saturated: int
    "Probabilities of exactly 0 or 1: they say only that the gap is larger than any number could tell."
    votes: bool = False
    "Whether outputs are votes of one class against another: their gaps have steps, whoever was trained on."


def logit_gaps(answers: Array, kind: Literal["auto", "values", "probabilities"] = "auto") -> LogitGaps | None:
    """From answers (n, outputs); None where they are names of classes, whatever is answered."""
    A = np.asarray(answers, dtype=float).reshape(len(answers), -1)
    if _named(A):
        return None
    alone = A.shape[1] == 1
    chances = bool(((A >= 0) & (A <= 1)).all()) if alone else adds_to_one(A)
    if kind == "values" or (kind == "auto" and not chances):
        return LogitGaps(_apart(A), "output" if alone else "outputs", 0, _voted(A))
    whole = np.column_stack([1 - A, A]) if alone else A
    with np.errstate(divide="ignore"):
        logs = np.log(np.clip(whole, 0, 1))
    ends = ~np.isfinite(logs)
    logs[ends] = logs[~ends].min(initial=-37.0)
    return LogitGaps(_apart(logs), "probability" if alone else "probabilities", int(ends.any(axis=1).sum()))


def _named(A: Array) -> bool:
    """Whether answers are classes: numbers from 0, or −1 and 1, or a 1 among zeros."""
    if A.shape[1] > 1:
        return bool(np.isin(A, (0, 1)).all() and (A.sum(axis=1) == 1).all())
    return bool((np.round(A) == A).all() and ((A >= 0).all() or np.isin(A, (-1, 1)).all()))


def _voted(A: Array) -> bool:
    """Whether K outputs are votes of K(K − 1)/2 pairs of classes with a remainder below 1/3, as scikit-learn's SVC has."""
    classes, votes = A.shape[1], np.round(A)
    whole = bool((np.abs(A - votes) < 1 / 3).all() and (votes >= 0).all())
    return classes > 2 and whole and bool((votes.sum(axis=1) == classes * (classes - 1) // 2).all())


def _apart(A: Array) -> Array:
    if A.shape[1] == 1:
        return np.abs(A[:, 0])
    best = np.sort(A, axis=1)[:, -2:]
    found: Array = best[:, 1] - best[:, 0]
    return found


@dataclass(frozen=True)
class MarginCluster:
    """A logit gap that more points have than the gaps around it explain."""

    at: float
    "Their median."
    low: float
    "The least of them."
    width: float
    "As a share of it: from the least of the cluster to its largest."
    count: int
    expected: float
    "So many, at most, the denser side of the cluster would put there."
    p_value: float
    "Of so dense a window anywhere, at any width, in a smooth crowd."

    @property
    def high(self) -> float:
        return self.low * (1 + self.width)


def margin_cluster(gaps: Array, low: float = 0.0, high: float = np.inf) -> MarginCluster | None:
    """The cluster of equal margins with the smallest p-value among positive gaps (n,): a scan statistic.

    Each gap counts once: rounding makes equal ones, training does not. A cluster's least gap lies between `low` and `high`.
    None where there are too few gaps, or none is there.

    Windows [u, u + t] of u = log gap begin at every gap, in each width t. Given that N points lie in a window or in the
    flank of length f beside it, and one of them where the window begins, the others inside are Binomial(N − 1, q) with
    q = r t/(r t + f) where the crowd is r times as dense in the window as in the flank. Of the two flanks the denser one
    counts, so slopes and edges make no cluster, and r is what it is on top of a normal bump of deviation `BUMP`. So

        p(window) = P(Binomial(N − 1, q) ≥ inside − 1),   p-value = min(1, windows · widths · min p(window)).

    It is an upper bound, by Bonferroni, in every crowd without narrower bumps: of 20,020 crowds of 50 to 5,000 points of
    eleven kinds (bench/logit_gap.py, seed 1000) 0.005 % had p < 1e-2 and none p < 1e-3.
    """
    u = np.log(np.unique(gaps[gaps > 0]))
    with np.errstate(divide="ignore"):
        starts = np.flatnonzero((u >= np.log(low)) & (u <= np.log(high)))
    if len(u) < 3 or not len(starts):
        return None
    return min((_densest(u, starts, width) for width in WIDTHS), key=lambda one: one.p_value)


def _densest(u: Array, starts: Array, width: float) -> MarginCluster:
    """The window of one width with the smallest p-value, of sorted u (n,) from any of u[starts]; the fullest of several."""
    t, widest = np.log1p(width), np.log1p(WIDTHS[-1])
    flank = FLANK * np.sqrt(t * widest)
    ends = np.searchsorted(u, u[starts] + t, side="right")
    inside = ends - starts
    left = starts - np.searchsorted(u, u[starts] - flank, side="left")
    right = np.searchsorted(u, u[starts] + t + flank, side="right") - ends
    beside = np.maximum(left, right)
    share = _bump(t, flank) * t / flank
    # P(Binomial(m, q) ≥ k) is the regularised incomplete beta function I_q(k, m − k + 1).
    p = special.betainc(np.maximum(inside - 1, 1), beside + 1, share / (1 + share))
    p = np.where(inside > 1, np.minimum(1.0, p * len(starts) * len(WIDTHS)), 1.0)
    best = int(np.lexsort((-inside, p))[0])
    those = np.exp(u[starts[best] : ends[best]])
    return MarginCluster(
        float(np.median(those)),
        float(those[0]),
        float(those[-1] / those[0] - 1),
        int(inside[best]),
        float((beside[best] + 1) * share),
        float(p[best]),
    )


def _bump(t: float, flank: float) -> float:
    """How many times denser a normal bump is in a window on its top than in the flank beside that."""
    top, middle, foot = special.ndtr(np.array([-t / 2, t / 2, t / 2 + flank]) / BUMP)
    return float((middle - top) / t * flank / (foot - middle))
