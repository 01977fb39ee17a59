"""Reconstructed training data beside the truth, and beside what useless reconstructions would have scored."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.stats import binom, hypergeom

from divulge.attacks.reconstruction import measuring, residuals
from divulge.attacks.reconstruction.claims import Claims
from divulge.attacks.reconstruction.measuring import Measure, Scale
from divulge.contract import (
    Array,
    Candidates,
    Directions,
    Finding,
    Remedy,
    Score,
    TrainingData,
    Truth,
    Verdict,
    Weights,
    above,
    surpasses,
)
from divulge.solvers.shared import similarity
from divulge.solvers.statistics import roc

PAPER = "Haim et al. 2022, Reconstructing Training Data from Trained Neural Networks, arXiv:2206.07758"
REMEDY = (
    Remedy(
        "Do not publish the weights, or train with differential privacy; then audit again.",
        "with noise 1 no image of 40 came back, where 30 and 35 did, for an accuracy of 0.790 in the place of 0.808 "
        "(docs/defences.md).",
    ),
    "Train on more points and for fewer epochs: networks that fit few points perfectly show them most.",
)
GOOD, FAIR = 0.9, 0.8
"NCC from which a picture is recognised at a glance, and from which no useless attack on digits has one."
EXACT = 0.05
"Relative error of a picture that is exact but for shades nobody sees."
SEEN, FITTED = 0.4, 0.6
"SSIM of the published count, and of the one after a fit."
HEADLINE = f"images at NCC > {GOOD:g}"
FAIRLY = f"images at NCC > {FAIR:g}"
PIXELS = "pixel-exact images"
PUBLISHED = f"images at SSIM > {SEEN:g}"
AFFINE = f"images at affine SSIM > {FITTED:g}"
CLAIMS = "claims that are right"
RANK = "median rank among non-members"
DECIDING = (HEADLINE, FAIRLY, PIXELS, PUBLISHED)
"Counts of which one above its null is enough for a claim to stand."

MEAN = "the training mean image"
SPAN = "random points of the recovered span"
FIRST_LAYER = "first-layer weights as images"
NON_MEMBERS = "non-members in place of the reconstructions"
FEW = 10
"Fewer reconstructions have no random points between them: one in 28 has NCC > 0.9 with one of five, in 1,300 of ten."
LEVELS = (0.99, GOOD, FAIR)
"NCC from which a training image counts as hit, where hits on training images are compared with hits on non-members."
CERTAIN = 1e-3
"Chance that so many of the images hit are training images, below which a leak is beyond doubt."
MIXED = 1000  # reconstructions mixed into one random point of their span, at most, for the time it takes
ROWS = 2000  # first-layer weights taken for pictures, at most: the largest
OTHERS = 10_000  # non-members that a reconstruction is ranked among, at most


def scored(finding: Finding[TrainingData], held: Directions, truth: Truth) -> Finding[TrainingData]:
    """The finding with scores and figures; failed where the truth contradicts its claim.

    What the attack did not claim is a leak where the truth shows it beyond doubt.
    """
    finding, compared = measured(finding, held, truth)
    if compared is None:
        return finding
    if finding.verdict is Verdict.LEAK and not _borne_out(finding, compared.claimed):
        said = f"The truth contradicts what the attack claimed: {compared.claimed.counts('a useless attack')}."
        if compared.preferred is not None:
            said += f" There are training images in what it handed over without a claim: {compared.preferred}."
        return finding.corrected(Verdict.FAILED, said)
    right = finding.scores.get(CLAIMS)
    if finding.verdict is Verdict.LEAK and right is not None and right.most is not None and right.value < right.most:
        said = f"By the truth {right.value:.0f} of the {right.most:,.0f} are right."
        return replace(finding, summary=f"{finding.summary} {said}")
    if finding.verdict is Verdict.NONE_FOUND and compared.preferred is not None:
        said = f"The truth shows training images in what the attack could not claim: {compared.preferred}."
        return finding.corrected(Verdict.LEAK, said)
    return doubted(finding, compared) if finding.verdict is Verdict.NONE_FOUND else finding


def doubted(finding: Finding[TrainingData], compared: Compared) -> Finding[TrainingData]:
    """A finding without a leak, which says so itself where a figure is better than its null as chance may be."""
    rank = finding.scores.get(RANK)
    nearer = rank is not None and above(rank)
    if not compared.better and not nearer:
        return finding
    said = compared.counts("null") if compared.better else ""
    if rank is not None and nearer:
        said = ", ".join(filter(None, [said, f"a {RANK} of {rank.value:,.4g} (null {rank.null:,.4g})"]))
    doubt = f"The truth finds more than a useless attack has, and not beyond doubt: {said}."
    return replace(finding, summary=f"{finding.summary} {doubt}")


def _borne_out(finding: Finding[TrainingData], compared: Compared) -> bool:
    """Whether claims stand: better than a useless attack; and right as often as they say, or mostly, or beyond doubt."""
    right, claims = finding.scores.get(CLAIMS), finding.evidence
    if not compared.better or right is None or right.interval is None or not isinstance(claims, Claims):
        return compared.better
    mostly = 2 * right.value > claims.claimed and surpasses(right) and right.interval[0] > compared.kin * claims.claimed
    return right.interval[1] >= claims.expected or mostly or compared.preferred is not None


def measured(
    finding: Finding[TrainingData],
    held: Directions,
    truth: Truth,
    *,
    without: Collection[str] = (),
) -> tuple[Finding[TrainingData], Compared | None]:
    """The finding with scores, figures and notes, its verdict as it was; and what was found beside the truth, if known.

    Counts are of everything handed over, as papers count; whether claims are right is a score of its own, and what decides.
    `without` leaves out some nulls, such as the one that is the attack itself.
    """
    known, loot = truth.get(TrainingData), finding.loot
    if known is None:
        return finding, None
    non_members = _non_members(truth.get(Candidates), known.X)
    network = held if isinstance(held, Weights) else None
    near = None if network is None else residuals.residual(network, known, non_members)
    if near is not None:
        scores = dict(finding.scores) | {residuals.NAME: near[0]}
        finding = replace(finding, scores=scores, notes=(*finding.notes, near[1]))
    claimed = finding.evidence if isinstance(finding.evidence, Claims) else None
    parts = [*([] if loot is None else [loot.X]), *([] if claimed is None else [claimed.candidates])]
    if not sum(map(len, parts)):
        return finding, None
    found = np.concatenate(parts)
    if known.X.shape[1] != found.shape[1]:
        widths = f"the reconstructions have {found.shape[1]} features and the training data {known.X.shape[1]}"
        return replace(finding, notes=(*finding.notes, f"Not scored: {widths}.")), None
    scale = Scale.of(known, held)
    compared = Compared.of(found, held, scale, non_members, without)
    mine, counted, notes = compared.mine, dict(compared.scores), _notes(compared.mine, scale)
    if loot is not None and len(loot.X) < len(found):  # what is merely handed over bears out no claim
        compared = replace(compared, part=Compared.of(loot.X, held, scale, non_members, without))
    if loot is not None and claimed is not None:
        right, said = _claims_right(loot.X, claimed, compared, scale)
        counted, notes = {CLAIMS: right, **counted}, [said, *notes]
    if non_members is not None:
        rng = np.random.default_rng(0)
        counted[RANK] = _rank(mine, scale, _drawn(non_members, OTHERS, rng))
        notes.append(compared.control_words(scale))
    changed = replace(
        finding,
        scores=counted | {name: score for name, score in finding.scores.items() if name not in counted},
        figures=(*measuring.figures(mine, scale, network or truth.get(Weights), known.y), *finding.figures),
        notes=(*finding.notes, *notes),
    )
    return changed, compared


def _claims_right(X: Array, claimed: Claims, compared: Compared, scale: Scale) -> tuple[Score, str]:
    """How many of the claimed points X (k, d) are right, and what to say of it beside what was expected."""

    def share(points: Array) -> float:
        return float(np.mean(similarity.ncc(points, scale.originals).max(axis=1) > claimed.right_at))

    nulls = {name: share(null.found) for name, null in compared.nulls.items()}
    worst = max(nulls, key=lambda name: nulls[name])
    right = round(len(X) * share(X.astype(scale.originals.dtype)))
    low, high = (len(X) * float(end[0]) for end in roc.bounds(np.array([right]), len(X)))
    said = f"{right} of the {len(X)} claimed are right at NCC > {claimed.right_at:g}; {claimed.expected:.1f} were expected"
    said += ", which the truth contradicts." if high < claimed.expected else "."
    return Score(right, len(X) * nulls[worst], worst, f"of {len(X)} claimed", interval=(low, high), most=len(X)), said


@dataclass(frozen=True, eq=False)
class Compared:
    """Some reconstructions beside what needs no attack, and beside non-members where they are known."""

    mine: Measure
    nulls: Mapping[str, Measure]
    scores: Mapping[str, Score]
    better: bool
    "Whether they have more of the training images than anything useless has."
    preferred: str | None
    "What shows beyond doubt that training images are among them, if anything does."
    others: Array | None
    "As many non-members as there are training images."
    kin: float
    "Share of the training images that are like another of them: as often any picture of their kind is like one."
    part: Compared | None = None
    "Those alone that the attack claimed, where it handed over more."

    @property
    def claimed(self) -> Compared:
        return self.part or self

    @classmethod
    def of(
        cls, found: Array, held: Directions, scale: Scale, non_members: Array | None, without: Collection[str]
    ) -> Compared:
        rng = np.random.default_rng(0)
        mine = scale.measure(found)
        useless = _useless(mine.found, held, scale, non_members, rng)
        nulls = {name: scale.measure(X, pairs) for name, X, pairs in useless if name not in without}
        scores = _scores(mine, nulls, scale)
        better = any(scores[name].value > scores[name].null for name in DECIDING if name in scores)
        preferred = _to_the_pixel(mine, nulls, scale.originals)
        if non_members is None:
            return cls(mine, nulls, scores, better, preferred, None, _kin(scale.originals, rng))
        others = _drawn(non_members, len(scale.originals), rng).astype(mine.found.dtype)
        beside = _drawn(non_members, OTHERS, rng).astype(mine.found.dtype)
        preferred = _preferred(mine, nulls, scale.originals, beside) or preferred
        return cls(mine, nulls, scores, better or preferred is not None, preferred, others, _kin(scale.originals, rng))

    def counts(self, null: str) -> str:
        """Training images of each kind that decides, beside those of a useless attack."""
        told = {name: self.scores[name] for name in DECIDING if name in self.scores}
        return ", ".join(f"{score.value:.0f} {name} ({null} {score.null:.0f})" for name, score in told.items())

    def control_words(self, scale: Scale) -> str:
        """How many non-members the same reconstructions hit."""
        assert self.others is not None
        alike = similarity.ncc(self.mine.found, self.others)
        control = alike[similarity.matched(alike)]
        hit = f"{np.sum(control > GOOD)} of {len(self.others)} non-members at NCC > {GOOD:g}, "
        hit += f"{np.sum(control > FAIR)} at NCC > {FAIR:g}"
        if scale.shape is not None:
            seen = similarity.ssim(
                similarity.voted(self.mine.found, self.others, alike), scale.as_unit(self.others), scale.shape
            )
            hit += f", {np.sum(seen > SEEN)} at SSIM > {SEEN:g}"
        return f"{hit}, when the same reconstructions are matched with those."


def _useless(
    loot: Array, held: Directions, scale: Scale, non_members: Array | None, rng: np.random.Generator
) -> Iterator[tuple[str, Array, tuple[Array, Array] | None]]:
    """What needs no attack, in the place of reconstructions: name, points, and pairs where those are no question."""
    everyone = np.arange(len(scale.originals))
    yield MEAN, scale.mean[None], (np.zeros_like(everyone), everyone)
    W = held.rows[:, :-1].astype(loot.dtype)
    fits = W.shape[1] == loot.shape[1]
    away = loot - scale.mean
    if len(loot) >= FEW or not fits:
        sources = _drawn(away, MIXED, rng)
        mixture = rng.standard_normal((len(loot), len(sources)), loot.dtype)
        yield SPAN, scale.mean + mixture @ sources / math.sqrt(len(sources)), None
    else:
        drawn = rng.standard_normal((len(loot), len(W)), loot.dtype) @ W
        sizes = np.linalg.norm(drawn, axis=1, keepdims=True)
        yield SPAN, scale.mean + drawn / np.where(sizes > 0, sizes, 1) * np.linalg.norm(away, axis=1, keepdims=True), None
    if fits:
        largest = W[np.argsort(-np.linalg.norm(W, axis=1), kind="stable")[:ROWS]]
        yield FIRST_LAYER, np.concatenate([largest, -largest]), None
    if non_members is not None:
        yield NON_MEMBERS, _drawn(non_members, len(loot), rng), None


def _scores(mine: Measure, nulls: Mapping[str, Measure], scale: Scale) -> dict[str, Score]:
    """Every statistic of the reconstructions beside the largest that a useless attack has."""
    statistics: dict[str, Callable[[Measure], Any]] = {
        HEADLINE: lambda it: np.sum(it.ncc > GOOD),
        FAIRLY: lambda it: np.sum(it.ncc > FAIR),
        PIXELS: lambda it: np.sum(it.error <= EXACT),
    }
    if scale.shape is not None:
        statistics[PUBLISHED] = lambda it: np.sum((it.ssim > SEEN) & (it.ssim > scale.mean_ssim))
        statistics[AFFINE] = lambda it: np.sum(it.affine > FITTED)
    counts = set(statistics)
    statistics["best NCC of a pair"] = lambda it: it.ncc.max()
    statistics["median NCC of the pairs"] = lambda it: np.median(it.ncc[it.pairs[1]])
    scores = {}
    for name, statistic in statistics.items():
        values = {null: float(statistic(measure)) for null, measure in nulls.items()}
        first = max(values, key=lambda null: values[null])
        digits, unit = (0, f"of {len(scale.originals)}") if name in counts else (2, "")
        rest = ", ".join(f"{null} {value:.{digits}f}" for null, value in values.items() if null != first)
        null_of = f"{first} (others: {rest})" if rest else first
        most = len(scale.originals) if name in counts else 1.0
        scores[name] = Score(float(statistic(mine)), values[first], null_of, unit, most=most)
    return scores


def _notes(mine: Measure, scale: Scale) -> list[str]:
    notes = []
    if len(mine.pairs[0]) < len(scale.originals):
        notes.append(f"{len(mine.found)} reconstructions stand against {len(scale.originals)} training images.")
    alone = int(np.sum(scale.mean_ssim > SEEN))
    if alone:
        notes.append(
            f"The mean image alone has SSIM > {SEEN:g} with {alone} of {len(scale.originals)} training images; "
            "an image counts only where its reconstruction has more."
        )
    return notes


def _rank(mine: Measure, scale: Scale, others: Array) -> Score:
    """How many non-members a reconstruction resembles more than its image, beside one that is matched with a non-member.

    Images are matched with the reconstructions most like them, so that a useless one too resembles its own more than most.
    """
    count = len(scale.originals)
    if len(others) < 2 * count:
        chance = "a reconstruction that has nothing to do with its image"
        middle = float(np.median(similarity.ranks(mine.found, scale.originals, others, mine.pairs)))
        return Score(middle, 1 + len(others) / 2, chance, f"of {len(others) + 1}", better="lower")
    instead, rest = others[:count].astype(mine.found.dtype), others[count:]
    middle = float(np.median(similarity.ranks(mine.found, scale.originals, rest, mine.pairs)))
    null = float(np.median(similarity.ranks(mine.found, instead, rest)))
    return Score(
        middle, null, "the same reconstructions, matched with as many non-members", f"of {len(rest) + 1}", better="lower"
    )


def _preferred(mine: Measure, nulls: Mapping[str, Measure], originals: Array, others: Array) -> str | None:
    """What of the images that reconstructions hit are training images, if more than chance explains, and than a null hits.

    Where all pictures are alike, as digits are, a thousand of them hit many training images, and non-members as often: of
    all images hit, whichever reconstruction hits them, the share of training images is that of all images looked at, and
    their number hypergeometric. Hits are counted from several levels on, and from the one that as many images reach as
    there are training images. Pictures of one thing are hit together and count once, as nobody's where a non-member is
    among them.
    """
    count, pool = len(originals), np.concatenate([originals, others])
    best = _nearest(mine.found, pool)
    useless = [_nearest(null.found, originals) for name, null in nulls.items() if name != NON_MEMBERS]
    levels = (*LEVELS, float(np.sort(best)[-count - 1]))

    def by_chance(inside: int, outside: int) -> bool:
        return bool(hypergeom.sf(inside - 1, len(pool), count, inside + outside) >= CERTAIN / len(levels))

    for level in levels:
        hit = best > level
        inside, outside = int(np.sum(hit[:count])), int(np.sum(hit[count:]))
        if inside <= max((int(np.sum(near > level)) for near in useless), default=0) or by_chance(inside, outside):
            continue
        if not by_chance(*_different(pool[hit], inside)):
            return f"{inside} of {count} are there at NCC > {level:.3g}, and of {len(others):,} non-members {outside}"
    return None


def _different(X: Array, members: int) -> tuple[int, int]:
    """How many things images (n, d) are of, the first of which are training images: of theirs alone, and of the others."""
    things = _things(X)
    strange = np.unique(things[members:])
    return len(np.setdiff1d(things, strange)), len(strange)


def _to_the_pixel(mine: Measure, nulls: Mapping[str, Measure], originals: Array) -> str | None:
    """How many images are there that nobody draws by chance, if more than chance has beyond every null: by the sign test."""
    there = mine.error <= EXACT
    useless = [null.error <= EXACT for null in nulls.values()]
    for theirs in useless:
        ours, only_theirs = len(np.unique(_things(originals[there & ~theirs]))), int(np.sum(theirs & ~there))
        if binom.sf(ours - 1, ours + only_theirs, 0.5) >= CERTAIN:
            return None
    most = max(int(np.sum(theirs)) for theirs in useless)
    return f"{np.sum(there)} of {len(originals)} are there to the pixel, where a useless attack has {most}"


def _nearest(found: Array, originals: Array) -> Array:
    return np.asarray(similarity.ncc(found, originals).max(axis=0))


def _kin(originals: Array, rng: np.random.Generator) -> float:
    """Share of images, or of some of them, that are like another one."""
    places = rng.permutation(len(originals))[:MIXED]
    alike = similarity.ncc(originals[places], originals)
    alike[np.arange(len(places)), places] = -1
    return float(np.mean(alike.max(axis=1) > GOOD))


def _things(X: Array) -> Array:
    """(n,): a number for each of n images, the same for those that are pictures of one thing, directly or by others."""
    if not len(X):
        return np.zeros(0, int)
    return np.asarray(connected_components(similarity.ncc(X, X) > GOOD, directed=False)[1])


def _drawn(X: Array, count: int, rng: np.random.Generator) -> Array:
    """Some of the rows, all different."""
    return X if len(X) <= count else X[rng.choice(len(X), count, replace=False)]


def _non_members(candidates: Candidates | None, members: Array) -> Array | None:
    """Candidates that are no training points, where there are any."""
    if candidates is None or candidates.X.shape[1] != members.shape[1]:
        return None
    X = np.ascontiguousarray(candidates.X)
    members = np.ascontiguousarray(members, dtype=X.dtype)
    known = {row.tobytes() for row in members}
    suspects = np.flatnonzero(np.isin(X.sum(axis=1), members.sum(axis=1)))
    same = [place for place in suspects if X[place].tobytes() in known]
    non_members = np.delete(X, same, axis=0) if same else X
    return non_members if len(non_members) else None
