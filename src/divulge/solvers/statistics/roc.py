"""How well scores tell members from non-members, each figure with the interval that its sample size allows.

A higher score means "member". Scores come as two arrays, of members and of non-members; records are taken to
answer independently of each other. A threshold takes all of a tie or none of it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from scipy import special

from divulge.arrays import Array

CONFIDENCE = 0.95
DENSITY = 1.25
"""From one rank that is tried to the next, away from either end of the non-members: a bound is off by ln 1.25 at most for
it, and 10,000 non-members have 72 ranks to correct for."""
HALVINGS = 60
"Of an interval that holds the end of another one: more digits than a double has. A guard, not a choice."


@dataclass(frozen=True)
class Operating:
    """What a threshold does that calls members at a false-positive rate asked for."""

    level: float
    "The false-positive rate asked for."
    threshold: float
    "Scores above this are called members."
    tpr: float
    interval: tuple[float, float]
    "Of the true-positive rate."
    fpr: float
    "The share of non-members called members: the level, or less where ties or whole numbers forbid it."
    fpr_interval: tuple[float, float]
    "Of the false-positive rate; its upper end knows that non-members chose the threshold."
    null: float
    "What scores that know nothing find of the members, on average; more than the level where it lets few non-members pass."


@dataclass(frozen=True)
class EpsilonBound:
    """The least ε of (ε, δ)-differential privacy that scores leave possible."""

    epsilon: float
    delta: float
    confidence: float
    threshold: float
    "Scores above this are called members, where the bound was found."
    side: str
    "Which error is too rare: of those called `members` or `non-members`; empty where ε is 0."
    tried: int
    "Thresholds that the bound is corrected for."


def clopper_pearson(hits: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a share: each end is wrong in at most half of 1 − confidence of all samples."""
    low, high = bounds(np.array([hits]), trials, confidence)
    return float(low[0]), float(high[0])


def bounds(hits: Array, trials: int, confidence: float = CONFIDENCE) -> tuple[Array, Array]:
    """Clopper and Pearson's intervals of many shares of one number of trials: their lower ends and their upper ends."""
    tail = (1 - confidence) / 2
    return _least(hits, trials, tail), _most(hits, trials, tail)


def tpr_at(members: Array, non_members: Array, level: float, confidence: float = CONFIDENCE) -> Operating | None:
    """The true-positive rate where at most a share `level` of the non-members are called members.

    None where that share is less than one non-member: so fine a rate was not measured. The threshold is a non-member's
    score, so members know nothing of it and their interval is exact. Above the (k+1)-th largest of n non-members one more
    record of their kind falls with probability (k + 1)/(n + 1), which is the null.
    """
    count = len(non_members)
    allowed = math.floor(level * count * (1 + 2 * sys.float_info.epsilon))  # 0.29 · 100 is 28.999999999999996
    if allowed < 1:
        return None
    threshold = -math.inf if allowed >= count else float(np.sort(non_members)[count - 1 - allowed])
    hits, false = int(np.sum(members > threshold)), int(np.sum(non_members > threshold))
    low, _ = clopper_pearson(false, count, confidence)
    _, high = clopper_pearson(min(allowed, count), count, confidence)
    interval = clopper_pearson(hits, len(members), confidence)
    null = min(1.0, (allowed + 1) / (count + 1))
    return Operating(level, threshold, hits / len(members), interval, false / count, (low, high), null)


def roc(members: Array, non_members: Array) -> tuple[Array, Array]:
    """False- and true-positive rates at every distinct threshold, from (0, 0) to (1, 1)."""
    values = np.unique(np.concatenate([members, non_members]))[::-1]
    rates = [_above(group, values) / len(group) for group in (non_members, members)]
    fpr, tpr = (np.concatenate([rate, [1.0]]) for rate in rates)
    return fpr, tpr


def auc(members: Array, non_members: Array) -> float:
    """The chance that a member scores above a non-member, a tie counting half."""
    ordered = np.sort(non_members)
    below = np.searchsorted(ordered, members, "left") + np.searchsorted(ordered, members, "right")
    return float(below.mean() / (2 * len(non_members)))


def auc_interval(members: Array, non_members: Array, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Newcombe's method 5 (2006): those areas that are no further from the one measured than their own deviations allow.

    The deviation is Hanley and McNeil's with N* = (m + n)/2 − 1 for both samples, so an area of 1 has an interval as well.
    """
    area = auc(members, non_members)
    sizes = len(members), len(non_members)
    far = float(special.ndtri((1 + confidence) / 2))
    return _furthest(area, 0.0, far, sizes), _furthest(area, 1.0, far, sizes)


def advantage(members: Array, non_members: Array) -> float:
    """The largest true-positive rate less false-positive rate of all thresholds; 0 at least, where nobody is called one."""
    fpr, tpr = roc(members, non_members)
    return float(np.max(tpr - fpr))


def advantage_null(members: int, non_members: int) -> float:
    """What scores that know nothing have for their advantage on average, in samples of these sizes."""
    return math.sqrt(math.pi / 8 * (1 / members + 1 / non_members))


def advantage_interval(members: Array, non_members: Array, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Where the best threshold's advantage is in truth (Dvoretzky, Kiefer, Wolfowitz and Massart), whichever it is."""
    each = math.log(4 / (1 - confidence)) / 2  # two ends, and two samples at each
    off = math.sqrt(each / len(members)) + math.sqrt(each / len(non_members))
    best = advantage(members, non_members)
    return max(0.0, best - off), min(1.0, best + off)


def balanced_accuracy(
    members: Array, non_members: Array, confidence: float = CONFIDENCE
) -> tuple[float, tuple[float, float]]:
    """The mean of the shares of members called members and of non-members called none, and its interval.

    Takes decisions, not scores. The two intervals are put together as Newcombe and Zou do: by the squares of their arms.
    """
    shares = [(int(np.sum(members)), len(members)), (int(np.sum(~non_members.astype(bool))), len(non_members))]
    ends = [clopper_pearson(hits, trials, confidence) for hits, trials in shares]
    values = [hits / trials for hits, trials in shares]
    value = sum(values) / 2
    down, up = (math.hypot(*(share - end[side] for share, end in zip(values, ends, strict=True))) / 2 for side in (0, 1))
    return value, (max(0.0, value - down), min(1.0, value + up))


def epsilon_bound(members: Array, non_members: Array, delta: float = 1e-5, confidence: float = CONFIDENCE) -> EpsilonBound:
    """The ε below which no (ε, δ)-differentially private training would have been told apart so well; never below 0.

    Such training has TPR ≤ e^ε · FPR + δ and TNR ≤ e^ε · FNR + δ at every threshold. Thresholds are scores of non-members,
    at ranks that only their number decides: above the (k+1)-th largest of n, non-members in general hold a share that is
    Beta(k + 1, n − k) distributed, or less with ties; its upper quantile is Clopper and Pearson's end for k of n. Members
    know nothing of that threshold, so their share has Clopper and Pearson's end as well. The two ends of every threshold
    share what may go wrong evenly (Bonferroni), so the best threshold may be chosen after looking. Records must answer
    independently of each other, as those of one model do only roughly.
    """
    ranks = _ranks(len(non_members))
    thresholds = np.sort(non_members)[len(non_members) - 1 - ranks]
    tail = (1 - confidence) / (2 * len(ranks))
    fpr = _most(ranks, len(non_members), tail)
    tpr = _least(_above(members, thresholds), len(members), tail)
    with np.errstate(divide="ignore"):
        sides = {
            "members": np.log(np.maximum(tpr - delta, 0) / fpr),
            "non-members": np.log(np.maximum(1 - fpr - delta, 0) / (1 - tpr)),
        }
    side = max(sides, key=lambda name: float(sides[name].max()))
    best = int(np.argmax(sides[side]))
    epsilon = float(sides[side][best])
    found = epsilon > 0
    return EpsilonBound(max(epsilon, 0.0), delta, confidence, float(thresholds[best]), side if found else "", len(ranks))


def _above(scores: Array, thresholds: Array) -> Array:
    """How many scores are above each threshold."""
    return np.asarray(len(scores) - np.searchsorted(np.sort(scores), thresholds, "right"))


def _ranks(count: int) -> Array:
    """Ranks to try of `count` non-members: the first ones, then ever further apart up to the middle; the same from below."""
    ranks, rank = [0], 1.0
    while rank <= count / 2:
        ranks.append(int(rank))
        rank = max(rank + 1, rank * DENSITY)
    first = np.array([rank for rank in ranks if rank < count])
    return np.unique(np.concatenate([first, count - 1 - first]))


def _least(hits: Array, trials: int, error: float) -> Array:
    """The smallest share that makes so many hits likely: the lower end of Clopper and Pearson's interval."""
    inner = special.betaincinv(np.maximum(hits, 1), trials - hits + 1, error)
    return np.asarray(np.where(hits > 0, inner, 0.0))


def _most(hits: Array, trials: int, error: float) -> Array:
    return 1 - _least(trials - hits, trials, error)


def _furthest(area: float, end: float, far: float, sizes: tuple[int, int]) -> float:
    """The area nearest `end` that is within `far` of its own deviations of the one measured."""
    m, n = sizes
    effective = (m + n) / 2 - 1
    inside, outside = area, end
    for _ in range(HALVINGS):
        other = (inside + outside) / 2
        spread = 1 + effective * ((1 - other) / (2 - other) + other / (1 + other))
        within = (area - other) ** 2 <= far**2 * other * (1 - other) * spread / (m * n)
        inside, outside = (other, outside) if within else (inside, other)
    return inside
