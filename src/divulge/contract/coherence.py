"""Whether what a finding says fits together: its verdict, its sentence, its scores, its power and its loot."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from divulge.contract.access import Weights
from divulge.contract.finding import Finding, Score, Verdict

OFF = 1e-4
"Error of a copy, as a share of what a useless one has, from which nobody would call it exact; of float32 it is 1e-6."
MOSTLY = 0.5
"Of the way from the null to the most that can be scored: so much is something, interval or not."
ROUNDING = 1e-9
"Of a score: so far outside of its interval it may lie."
DOUBT = ("chance", "not beyond doubt")
"How a summary says that what is better than its null shows nothing."
TRUTH = ("truth", "test points")
"How it says that what was claimed turned out wrong."


def contradictions(finding: Finding[Any]) -> list[str]:
    """What a reader would stumble over, a sentence each."""
    return [*_scores(finding), *_verdict(finding), *_loot(finding)]


def above(score: Score) -> bool:
    """Whether a score is better than its null, however little."""
    return score.value > score.null if score.better == "higher" else score.value < score.null


def surpasses(score: Score) -> bool:
    """Whether a score is better than its null, by its interval where it has one."""
    if not (math.isfinite(score.value) and math.isfinite(score.null)):
        return False
    if score.interval is None:
        return above(score)
    return min(score.interval) > score.null if score.better == "higher" else max(score.interval) < score.null


def _scores(finding: Finding[Any]) -> Iterator[str]:
    for name, score in finding.scores.items():
        if math.isnan(score.value) or math.isnan(score.null):
            yield f"the score {name!r} or its null is no number"
        near = ROUNDING * abs(score.value)
        if score.interval is not None and not min(score.interval) - near <= score.value <= max(score.interval) + near:
            yield f"the score {name!r} is {score.value:g}, outside of its interval {score.interval}"
        if score.most is not None and max(score.value, score.null, *(score.interval or ())) > score.most + near:
            yield f"the score {name!r}, its null or its interval is above {score.most:g}, which is the most that it can be"
    if unknown := [name for name in finding.measured if name not in finding.scores]:
        yield f"it says that the truth gave {unknown}, which are no scores of it"


def _verdict(finding: Finding[Any]) -> Iterator[str]:
    measured = {name: score for name in finding.measured if (score := finding.scores.get(name)) is not None and score.speaks}
    first = next(iter(measured), "")
    said = finding.summary.lower()
    if finding.verdict in (Verdict.LEAK, Verdict.FAILED) and finding.power:
        yield f"the verdict is {finding.verdict}, and power is for what found nothing: {finding.power}"
    if finding.verdict is Verdict.LEAK and not finding.provenance.claimed and finding.provenance.attack and not measured:
        yield "it is a leak that the truth shows, and no score is from the truth"
    if finding.verdict is Verdict.LEAK and measured and not any(map(above, measured.values())):
        yield f"it is called a leak, and nothing that the truth gave is better than its null: {', '.join(measured)}"
    if finding.verdict is Verdict.NONE_FOUND and not finding.onward and not any(word in said for word in DOUBT):
        for name, score in measured.items():
            if surpasses(score) and (score.interval is not None or name == first or _mostly(score)):
                yield f"nothing was found, and {name!r} is better than its null, of which the summary says nothing"
    if finding.verdict is Verdict.FAILED and finding.provenance.claimed and not any(word in said for word in TRUTH):
        yield "it was claimed and has failed, and its summary does not say that the truth is against it"


def _mostly(score: Score) -> bool:
    return score.most is not None and score.value - score.null > MOSTLY * (score.most - score.null)


def _loot(finding: Finding[Any]) -> Iterator[str]:
    if not isinstance(finding.loot, Weights) or not finding.loot.exact:
        return
    for name in finding.measured:
        score = finding.scores.get(name)
        if score is not None and "error" in name and score.better == "lower" and not score.value < OFF * score.null:
            yield f"the copy is called exact, and {name!r} is {score.value:g} where a useless one has {score.null:g}"
