"""Candidates with one input beside the training points, with a check of every assumption of the theorems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import binom

from divulge.attacks.univariate.candidates import Found
from divulge.attacks.univariate.findings import drawn
from divulge.contract import Array, Finding, Score, TrainingData, Verdict, Weights
from divulge.solvers.margin.max_margin import signed_labels
from divulge.solvers.statistics import roc
from divulge.solvers.univariate import margin_minima
from divulge.solvers.univariate.margin_points import Stationarity

NEAR = 1e-3
"""Share of the training points' range: a candidate this near to one is that one. Certified ones are off by 1e-6, and points
drawn anywhere are this near to one of 20 in 4 % of the draws."""
ON = 1e-3
"""A training point is on the margin where y N(x) exceeds the smallest by no more than this share: minima are there to 1e-9,
and the rest is for networks that were trained."""
QUARTER = 0.25
"Of the certified candidates, at least, that are training points by theorem 3.4."
FAR = 2.0
"Times the training points' range: breakpoints farther out would only make chance look worse."
HEADLINE = "certified precision"
OFFERED = "precision of all candidates"
CERTAIN = 1e-3
"Chance that as many of the candidates are training points, from which on the truth shows a leak that nothing certified."
EVENLY = "points drawn evenly over the range of candidates, breakpoints and training points"
ALIKE = "points drawn like the training points or evenly, at most"
WIDER = (1, 3, 10, 30)
"""Times a distance, for how dense points lie: at the distance itself few have a neighbour by chance, and farther out the
density is another. The largest counts."""


def scored(
    finding: Finding[TrainingData], found: Found, known: TrainingData | None, network: Weights | None
) -> Finding[TrainingData]:
    """The finding with scores, figures and what the truth says of the assumptions; failed where it contradicts a claim.

    Candidates that nothing certified are a leak where more of them are training points than chance explains.
    """
    if known is None:
        return finding
    if known.X.shape[1] != 1:
        note = f"Not scored: the candidates have one feature and the training data {known.X.shape[1]}."
        return replace(finding, notes=(*finding.notes, note))
    truth = np.sort(known.X[:, 0])
    values = found.function(known.X[:, 0] - found.shift)
    y = signed_labels(known.y, values)
    scores, notes = _scores(found, truth, known.X[:, 0][_on_margin(y, values)])
    if network is not None and _plain(network):
        checked, more = _assumptions(network, known.X[:, 0] - found.shift, y, values)
        scores, notes = scores | checked, [*notes, *more]
    notes.append(f"A candidate counts as a training point within {max(NEAR, found.tolerance):g} of their range.")
    finding = replace(
        finding,
        scores=scores | dict(finding.scores),
        figures=(*drawn(found, truth), *finding.figures[1:]),
        notes=(*finding.notes, *notes),
    )
    head = scores.get(HEADLINE)
    if finding.verdict is Verdict.LEAK and head is not None and (head.value < QUARTER or head.value <= head.null):
        said = (
            f"The truth contradicts the certificates: {head.value:.0%} of the certified candidates are training points, and "
            "a quarter was guaranteed."
        )
        return finding.corrected(Verdict.FAILED, said)
    offered = scores.get(OFFERED)
    if finding.verdict is Verdict.NONE_FOUND and offered is not None:
        many, right = len(found.x), round(offered.value * len(found.x))
        chance = f"of as many drawn like those {offered.null * many:.2g} would be, at most"
        said = f"of {many} candidates {right} are training points; {chance}"
        if beyond_chance(right, many, offered.null):
            return finding.corrected(Verdict.LEAK, f"The truth shows more than the attack could certify: {said}.")
        if offered.value > offered.null:
            return replace(finding, summary=f"{finding.summary} By the truth, and not beyond doubt, {said}.")
    return finding


def beyond_chance(right: int, many: int, chance: float) -> bool:
    """Whether so many of the candidates are training points as chance has them in less than one case of a thousand."""
    return bool(binom.sf(right - 1, many, chance) < CERTAIN)


def _scores(found: Found, truth: Array, margin_points: Array) -> tuple[dict[str, Score], list[str]]:
    reach = np.concatenate([truth, found.x, found.function.knots + found.shift])
    reach = reach[np.abs(reach - np.median(truth)) <= FAR * (float(np.ptp(truth)) or np.inf)]
    width = float(np.ptp(reach)) or 1.0
    near = max(NEAR, found.tolerance) * (float(np.ptp(truth)) or width)
    chance = _covered(truth, near, float(reach.min()), float(reach.max()))
    right = _distance(found.reading.points + found.shift, truth) <= near
    certified, certain = found.certified, found.certain
    scores: dict[str, Score] = {}
    if certified.any():
        scores[HEADLINE] = Score(float(right[certified].mean()), chance, EVENLY, most=1.0)
    if certain.any():
        scores["precision of those certain each"] = Score(float(right[certain].mean()), chance, EVENLY, most=1.0)
    if len(found.x):
        alike = max(chance, chance_of(truth, near))
        scores[OFFERED] = Score(float((_distance(found.x, truth) <= near).mean()), alike, ALIKE, most=1.0)
    if len(margin_points):
        for name, x in {
            "margin points found": found.x,
            "margin points certified": found.reading.points[certified] + found.shift,
        }.items():
            share = float((_distance(margin_points, x) <= near).mean()) if len(x) else 0.0
            null = 1 - (1 - min(2 * near / width, 1.0)) ** len(x)
            scores[name] = Score(share, null, f"{len(x)} {EVENLY}", most=1.0)
    windows = found.all_windows
    if windows:
        held = [bool(right[one.members].any()) for one in windows]
        null = float(np.mean([1 - (1 - chance) ** len(one.members) for one in windows]))
        scores["windows with a training point"] = Score(float(np.mean(held)), null, f"as many {EVENLY}", most=1.0)
    notes = [f"{len(margin_points)} of {len(truth)} training points are on the margin."]
    return scores, notes


def _assumptions(network: Weights, x: Array, y: Array, values: Array) -> tuple[dict[str, Score], list[str]]:
    """The KKT residual at the training points, whether a local minimum is proven, and a unit that is on at all of them."""
    (W, b), (V, _) = network.layers
    alive = (np.abs(W[:, 0]) + np.abs(b) > 0) & (V[0] != 0)
    w, b, v = W[alive, 0].astype(float), b[alive].astype(float), V[0, alive].astype(float)
    margin = float((y * values).min())
    if margin <= 0 or not len(w):
        return {}, ["The network does not separate its training points, so no margin is defined and no theorem applies."]
    on = _on_margin(y, values)
    left = Stationarity.of(w, b, v, x[on], y[on]).explained().residual
    roughly = Stationarity.of(w, b, v, x, y, at=NEAR).explained().residual
    order = np.argsort(x)
    root = np.sqrt(margin)
    distinct = bool((np.diff(x[order]) > 0).all())
    lowest = distinct and margin_minima.is_local_minimum(w / root, b / root, v / root, x[order], y[order])
    always = int((np.outer(x, w) + b > 0).all(axis=0).sum())
    notes = [
        f"The true margin is {margin:.6g}.",
        f"At the training points the weights are {'' if lowest else 'not '}proven to be a local minimum, and "
        f"{always or 'no'} {'unit is' if always <= 1 else 'units are'} on at all of them; theorem 3.3 needs both.",
    ]
    scores = {
        "KKT residual at the margin points": Score(left, 1.0, "no points at all", better="lower", speaks=False),
        "residual at all training points, roughly": Score(roughly, 1.0, "no points at all", better="lower", speaks=False),
    }
    return scores, notes


def _plain(network: Weights) -> bool:
    return len(network.layers) == 2 and network.dimension == 1 and len(network.layers[-1][1]) == 1


def _on_margin(y: Array, values: Array) -> Array:
    signed = y * values
    found: Array = (signed <= (1 + ON) * signed.min()) & (signed > 0)
    return found


def _distance(x: Array, others: Array) -> Array:
    return np.asarray(np.abs(x[:, None] - others).min(axis=1)) if len(others) else np.full(len(x), np.inf)


def chance_of(truth: Array, near: float) -> float:
    """The chance, at most, that a fresh point like sorted training points lies within a distance of one.

    Judged by how many training points have another that near, or a few times as near, with the upper end of its interval.
    """
    if len(truth) < 2:
        return 0.0
    gaps = np.diff(truth)
    nearest = np.minimum(np.append(np.inf, gaps), np.append(gaps, np.inf))
    hits = {times: int(np.sum(nearest <= times * near)) for times in WIDER}
    densest = max(WIDER, key=lambda times: (hits[times] / times, times))
    return roc.clopper_pearson(hits[densest], len(truth))[1] / densest


def _covered(truth: Array, near: float, low: float, high: float) -> float:
    """Share of a range that lies within a distance of any training point."""
    if high <= low:
        return 1.0
    starts, ends = np.maximum(truth - near, low), np.minimum(truth + near, high)
    reached = np.maximum.accumulate(np.append(low, ends[:-1]))
    return float(np.maximum(ends - np.maximum(starts, reached), 0).sum() / (high - low))
