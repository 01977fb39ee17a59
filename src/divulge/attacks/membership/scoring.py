"""Membership scores beside the truth: how many members they give away, at how many false alarms, and who is most exposed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from divulge.contract import (
    Array,
    Candidates,
    Curve,
    Figure,
    Finding,
    Histogram,
    ImagePairs,
    Membership,
    Score,
    TrainingData,
    Truth,
    Verdict,
    surpasses,
)
from divulge.errors import BadInput
from divulge.solvers.shared import similarity
from divulge.solvers.statistics import roc

LEVELS = (0.01, 0.001)
"False-positive rates at which attacks on membership are compared."
AUC, ADVANTAGE, ACCURACY, EPSILON = "AUC", "advantage", "accuracy", "ε at least"
DELTA = 1e-5
"Of the differential privacy that the bound is about, as in most papers."
FEW = 10
"From so few non-members no rate of false alarms is known; so few members contradict no claim."
SURE = 0.999
"""Confidence at which the truth shows a leak that the attack did not claim; its figures have 95 %.

An audit has ten findings or so on membership: with 99 % one audit in ten would call a leak where nothing is.
"""
EXPOSED = 10
"Records named, and pictures shown, at most."


def headline(level: float) -> str:
    """What the true-positive rate at a false-positive rate is called among the scores."""
    return f"TPR at {100 * level:g} % FPR"


def scored(finding: Finding[Membership], truth: Truth, candidates: Candidates | None) -> Finding[Membership]:
    """The finding with scores and figures; failed where the truth contradicts its claim.

    What the attack did not claim is a leak where the truth shows it beyond doubt.
    """
    finding, compared = measured(finding, truth, candidates)
    if compared is None:
        return finding
    if finding.verdict is Verdict.LEAK and compared.contradicts:
        said = f"The truth contradicts what the attack claimed: members do not stand out, with {compared.words}."
        return finding.corrected(Verdict.FAILED, said)
    if finding.verdict is Verdict.NONE_FOUND and compared.shows:
        said = f"The truth shows that members stand out, though the attack could not tell: {compared.words}."
        return finding.corrected(Verdict.LEAK, said)
    return doubted(finding, compared) if finding.verdict is Verdict.NONE_FOUND else finding


def doubted(finding: Finding[Membership], compared: Comparison) -> Finding[Membership]:
    """A finding without a leak, which says so itself where a figure is above its null as chance alone may be."""
    if not compared.above:
        return finding
    doubt = f"By the truth members score higher, and not beyond doubt: {compared.words}."
    return replace(finding, summary=f"{finding.summary} {doubt}")


@dataclass(frozen=True)
class Comparison:
    """What the truth says about a leak of membership."""

    shows: bool
    "Members score above non-members, beyond doubt."
    above: bool
    "They do by one of the figures, its interval and all, which chance alone may do."
    contradicts: bool
    "They do not, by any figure, and would have been seen to."
    words: str
    "The figures, as a sentence goes on."


def measured(
    finding: Finding[Membership], truth: Truth, candidates: Candidates | None
) -> tuple[Finding[Membership], Comparison | None]:
    """The finding with scores, figures and notes, its verdict as it was; and what the truth says, if it can."""
    loot = finding.loot
    if loot is None:
        return finding, None
    member = members_of(truth, candidates, len(loot.scores), loot.records)
    if member is None:
        return finding, None
    groups, notes = _Groups.of(loot, member, candidates)
    known = truth.get(Membership)
    if known is not None and known.records is not None and loot.records is not None and len(known.records) > len(member):
        notes.append(f"{len(known.records) - len(member):,} records of the truth have no score and count nowhere.")
    notes.insert(0, f"Scored on {groups.sizes}.")
    lacking = _lacking(groups)
    if lacking:
        return replace(finding, notes=(*finding.notes, *notes, lacking)), None
    scores, more = _scores(groups, loot)
    changed = replace(
        finding,
        scores=scores | {name: score for name, score in finding.scores.items() if name not in scores},
        figures=(*_figures(groups, candidates), *finding.figures),
        notes=(*finding.notes, *notes, *more, _exposed(groups)),
    )
    return changed, _compared(groups, scores)


def members_of(truth: Truth, candidates: Candidates | None, count: int, records: Array | None = None) -> Array | None:
    """Which of `count` candidates are members: a boolean each, or None where the auditor does not know.

    The truth's membership tells by the names of the records where both sides have some, else by their order; the true
    training data tell by rows that are the same, in the coarser of the two number formats.
    """
    if candidates is not None and len(candidates.X) != count:
        raise BadInput(
            f"expected a score for each of the {len(candidates.X)} candidates, got {count}; score every candidate once"
        )
    known, data = truth.get(Membership), truth.get(TrainingData)
    if known is not None:
        return _by_name(known, count, records)
    if data is None or candidates is None:
        return None
    if data.X.shape[1] != candidates.X.shape[1]:
        raise BadInput(
            f"expected candidates with the {data.X.shape[1]} features of the true training data, got "
            f"{candidates.X.shape[1]}; prepare both the same way"
        )
    coarser = min(data.X.dtype, candidates.X.dtype, key=lambda kind: kind.itemsize)
    inside = set(_marks(data.X, coarser))
    return np.array([mark in inside for mark in _marks(candidates.X, coarser)])


def _by_name(known: Membership, count: int, records: Array | None) -> Array:
    if known.records is None or records is None:
        if len(known.decisions) != count:
            raise BadInput(
                f"expected a truth about each of the {count} records that have a score, got {len(known.decisions)}; "
                "name the records on both sides, or give both for the same ones in the same order"
            )
        return known.decisions
    place = {str(name): number for number, name in enumerate(known.records)}
    missing = [str(name) for name in records if str(name) not in place]
    if missing:
        raise BadInput(
            f"expected the truth to know every record that has a score, got {len(missing)} of {count} that it does not "
            f"know, such as {missing[0]!r}; correct the names, or remove those scores"
        )
    return known.decisions[[place[str(name)] for name in records]]


def _marks(X: Array, kind: np.dtype[np.generic]) -> list[bytes]:
    """A short mark of each row, the same only for the same row."""
    rows = np.ascontiguousarray(X, dtype=kind) + np.zeros(1, kind)  # which makes −0 a 0
    return [hashlib.blake2b(row.data, digest_size=16).digest() for row in rows]


@dataclass(frozen=True, eq=False)
class _Groups:
    """Scores of members and of non-members, each record once, and where they were among the candidates."""

    members: Array
    non_members: Array
    member_rows: Array
    non_member_rows: Array
    names: list[str]
    "Of all candidates, whoever they are."

    @classmethod
    def of(cls, loot: Membership, member: Array, candidates: Candidates | None) -> tuple[_Groups, list[str]]:
        rows, notes = np.arange(len(member)), []
        if candidates is not None:
            marks = _marks(candidates.X, candidates.X.dtype)
            first: dict[bytes, int] = {}
            kept = np.array([first.setdefault(mark, row) for row, mark in enumerate(marks)])
            both, member = member, member.copy()
            member[kept[both]] = True
            rows = np.unique(kept)
            again = len(kept) - len(rows)
            if again:
                mixed = len(set(kept[~both].tolist()) & set(kept[both].tolist()))
                also = f"; {mixed:,} of them member and non-member at once, and counted as members" if mixed else ""
                notes.append(f"{_count(again, 'candidate')} the same as an earlier one: each counts once{also}.")
        inside, outside = rows[member[rows]], rows[~member[rows]]
        names = [f"row {row}" for row in range(len(member))]
        if loot.records is not None:
            names = [f"record {name}" for name in loot.records]
        return cls(loot.scores[inside], loot.scores[outside], inside, outside, names), notes

    @property
    def sizes(self) -> str:
        return f"{len(self.members):,} members and {len(self.non_members):,} non-members"


def _lacking(groups: _Groups) -> str:
    """Why there are no rates, where there are none."""
    if not len(groups.members):
        return "No rates: none of the candidates is a member, so there is nobody to find."
    if len(groups.non_members) < FEW:
        return (
            f"No rates: at least {FEW} non-members are needed to know how often one is taken for a member, "
            f"{len(groups.non_members)} are there."
        )
    return ""


def _scores(groups: _Groups, loot: Membership) -> tuple[dict[str, Score], list[str]]:
    """Every figure with its interval beside what scores that know nothing would have, and what has to be said of them."""
    inside, outside, notes = groups.members, groups.non_members, []
    scores = {}
    for level in LEVELS:
        at = roc.tpr_at(inside, outside, level)
        if at is None:
            notes.append(
                f"No {headline(level)}: so fine a rate needs {1 / level:,.0f} non-members, {len(outside):,} are there."
            )
            continue
        useless = "scores that know nothing, at a threshold set on these non-members"
        scores[headline(level)] = Score(at.tpr, at.null, useless, interval=at.interval, most=1.0)
    area, ends = roc.auc(inside, outside), roc.auc_interval(inside, outside)
    scores[AUC] = Score(area, 0.5, "scores that know nothing", interval=ends, most=1.0)
    null = roc.advantage_null(len(inside), len(outside))
    largest, ends = roc.advantage(inside, outside), roc.advantage_interval(inside, outside)
    scores[ADVANTAGE] = Score(
        largest, null, "the best threshold of scores that know nothing, on average", interval=ends, most=1.0
    )
    if loot.decisions.any():
        called = loot.decisions[groups.member_rows], loot.decisions[groups.non_member_rows]
        share, ends = roc.balanced_accuracy(*called)
        scores[ACCURACY] = Score(share, 0.5, "a coin for every record", "balanced", interval=ends, most=1.0)
    bound = roc.epsilon_bound(inside, outside, DELTA)
    private = "training that gives nothing away"
    scores[EPSILON] = Score(bound.epsilon, 0.0, private, f"(δ = {DELTA:g})", interval=(bound.epsilon, float("inf")))
    if bound.epsilon > 0:
        notes.append(
            f"Training with differential privacy below ε = {bound.epsilon:.2g} at δ = {DELTA:g} is ruled out with "
            f"{100 * bound.confidence:g} % confidence, corrected for {bound.tried} thresholds tried, if records answer "
            "independently of each other."
        )
    return scores, notes


def _compared(groups: _Groups, scores: dict[str, Score]) -> Comparison:
    deciding = {name: scores[name] for name in (headline(LEVELS[0]), AUC, ACCURACY) if name in scores}
    others = {name: score for name, score in scores.items() if name not in deciding and surpasses(score)}
    words = ", ".join(
        f"{name} {score.value:.2g} ({score.interval[0]:.2g} to {score.interval[1]:.2g}; null {score.null:.2g})"
        for name, score in (*deciding.items(), *others.items())
        if score.interval is not None
    )
    better = any(score.interval is not None and score.interval[0] > score.null for score in deciding.values())
    inside, outside = groups.members, groups.non_members
    at = roc.tpr_at(inside, outside, LEVELS[0], SURE)
    beyond = at is not None and at.interval[0] > at.fpr_interval[1]  # whatever the threshold's own false alarms are
    anywhere = roc.epsilon_bound(inside, outside, 0.0, SURE).epsilon > 0  # few far above all others, or none far below
    shows = beyond or anywhere or roc.auc_interval(inside, outside, SURE)[0] > 0.5
    unseen = len(inside) < FEW and scores[AUC].value > scores[AUC].null  # better than chance, of too few to be sure
    contradicts = not better and not shows and not unseen
    return Comparison(shows, better or bool(others), contradicts, f"{words}, on {groups.sizes}")


def _exposed(groups: _Groups) -> str:
    """The members that score highest, each with how many non-members do as well."""
    named = []
    for place in _highest(groups.members):
        as_high = int(np.sum(groups.non_members >= groups.members[place]))
        named.append(f"{groups.names[groups.member_rows[place]]} ({groups.members[place]:.4g}, {as_high:,})")
    many = f"how many of {len(groups.non_members):,} non-members score as high"
    return f"Members most exposed, with their score and {many}: {', '.join(named)}."


def _figures(groups: _Groups, candidates: Candidates | None) -> Iterator[Figure]:
    yield _roc(groups)
    yield Histogram(
        "Scores of members and non-members", "score", {"members": groups.members, "non-members": groups.non_members}
    )
    if candidates is not None and candidates.shape is not None and similarity.pictured(candidates.shape):
        yield _gallery(groups, candidates.X, candidates.shape)


def _roc(groups: _Groups) -> Curve:
    """On logarithmic axes, where rates of no record at all are drawn at the edges, as half a record."""
    fpr, tpr = roc.roc(groups.members, groups.non_members)
    low, high = roc.bounds(np.rint(tpr * len(groups.members)).astype(int), len(groups.members))
    left, bottom = 1 / (2 * len(groups.non_members)), 1 / (2 * len(groups.members))
    x, ends = np.maximum(fpr, left), np.array([max(left, bottom), 1.0])
    return Curve(
        "Members found and false alarms",
        f"false-positive rate of {len(groups.non_members):,} non-members (0 at the left edge)",
        f"true-positive rate of {len(groups.members):,} members (0 at the bottom)",
        {"attack, with its 95 % band": (x, np.maximum(tpr, bottom)), "chance": (ends, ends)},
        log_x=True,
        log_y=True,
        bands={"attack, with its 95 % band": (x, np.maximum(low, bottom), np.maximum(high, bottom))},
    )


def _gallery(groups: _Groups, X: Array, shape: tuple[int, ...]) -> ImagePairs:
    sides = [(groups.members, groups.member_rows), (groups.non_members, groups.non_member_rows)]
    count = min(len(groups.members), len(groups.non_members), EXPOSED)
    chosen = [(scores[_highest(scores)[:count]], rows[_highest(scores)[:count]]) for scores, rows in sides]
    shown = [X[rows].reshape(count, *(shape[:2] if shape[2:] == (1,) else shape)) for _, rows in chosen]
    low, high = (0.0, 1.0) if X.min() >= 0 and X.max() <= 1 else (float(X.min()), float(X.max()))
    left, right = ((pictures - low) / ((high - low) or 1.0) for pictures in shown)
    return ImagePairs(
        "The members most exposed, beside the non-members that look most like members",
        left,
        right,
        "member",
        "non-member",
        tuple(f"scores {one:.3g} and {other:.3g}" for one, other in zip(chosen[0][0], chosen[1][0], strict=True)),
    )


def _highest(scores: Array) -> Array:
    return np.argsort(-scores, kind="stable")[:EXPOSED]


def _count(amount: int, noun: str) -> str:
    return f"{amount:,} {noun} is" if amount == 1 else f"{amount:,} {noun}s are"
