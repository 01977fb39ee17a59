"""The first screen: the worst thing in a sentence, what leaked by asset, stolen pictures, and what helps most."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from divulge.contract import ImagePairs, Record, Remedy, TrainingData, Verdict
from divulge.report import headline, loot, overview, pictures, severity, trials, wording
from divulge.report.overview import Asset, Leak
from divulge.report.severity import Severity

SHOWN = 12
"Pairs of pictures on the first screen: four columns of three, beside the table."
BEST = "What helps most here, measured on this model."
DEAREST = "What stops most of those that were tried, and takes from users what they may not spare."
LONG = 140
"Characters of what was won, where its loot cannot be counted and its summary stands in."


@dataclass(frozen=True)
class Line:
    """What became of one asset, as a line of the first table."""

    heading: str
    leaks: int
    severity: Severity | None
    state: str
    summary: str
    score: str
    "The score that speaks for it, beside its null."
    sure: str
    price: str
    link: str


@dataclass(frozen=True)
class Opening:
    """What a reader sees before anything else."""

    lead: str
    rest: tuple[str, ...]
    assets: tuple[Line, ...]
    showcase: pictures.Gallery | None
    stolen: int
    "Number of the finding whose pictures these are, from 1."
    remedy: Remedy | None
    totals: str
    trial: str
    "What a defence did to this very model, where one was tried; otherwise empty."
    trial_heading: str


def opening(record: Record) -> Opening:
    found = overview.leaks(record)
    lead, *rest = headline.sentences(record)
    advice = overview.remedy(found)
    showcase, stolen = _showcase(found)
    tried = trials.best(record)
    return Opening(
        lead=lead,
        rest=() if found else tuple(rest),  # with a leak, the ways to it stand at the graph
        assets=tuple(_line(asset) for asset in overview.assets(record)),
        showcase=showcase,
        stolen=stolen,
        remedy=advice[1] if advice else None,
        totals=_totals(record),
        trial="" if tried is None else trials.table(record, tried).sentence,
        trial_heading=BEST if tried is None or trials.bearable(tried) else DEAREST,
    )


def heading(asset: str) -> str:
    """An asset's name as a reader meets it."""
    words = wording.kind(asset) or "something else"
    return words[:1].upper() + words[1:]


def _line(asset: Asset) -> Line:
    if not asset.groups:
        return Line(heading(asset.name), 0, None, asset.state, _nothing(asset), "", "", "", "")
    worst = asset.groups[0].worst
    return Line(
        heading=heading(asset.name),
        leaks=asset.leaks,
        severity=worst.rating.severity,
        state="leak",
        summary=_won(worst),
        score=_score(worst),
        sure=worst.rating.sure,
        price=worst.rating.price,
        link=f"evidence-{asset.name or 'other'}",
    )


def _won(leak: Leak) -> str:
    """What was won, counted; in the attack's own words where the truth alone shows it, or where it cannot be counted."""
    finding = leak.edge.finding
    return loot.won(finding) or wording.shorten(finding.summary, LONG)


def _score(leak: Leak) -> str:
    first = severity.headline(leak.edge.finding)
    if first is None:
        return ""
    name, score = first
    unit = f" {score.unit}" if score.unit else ""
    return f"{name}: {wording.number(score.value)}{unit}, null {wording.number(score.null)}"


def _nothing(asset: Asset) -> str:
    """How often what was tried, where nothing was won."""
    parts = [
        f"{wording.count(asset.tried[verdict], 'attempt')} {said}"
        for verdict, said in (
            (Verdict.NONE_FOUND, "found nothing"),
            (Verdict.FAILED, "failed (which says nothing)"),
            (Verdict.NOT_APPLICABLE, "did not apply"),
        )
        if asset.tried[verdict]
    ]
    nothing = "a step towards it was won, and no attack went on from there" if asset.steps else ""
    said = wording.listing(parts) or nothing or "nothing that was held allows an attack on it"
    return f"{said[:1].upper()}{said[1:]}."


def _totals(record: Record) -> str:
    """Everything that was tried, in a line."""
    verdicts = Counter(finding.verdict for finding in record.findings)
    many = overview.by_severity(record)
    rated = f" ({', '.join(f'{count:,} {level}' for level, count in many.items())})"
    ended = [
        f"{wording.count(verdicts[verdict], 'leak')}{rated}"
        if verdict is Verdict.LEAK
        else f"{verdicts[verdict]:,} {verdict}"
        for verdict in Verdict
        if verdicts[verdict]
    ]
    everything = [*record.findings, *(finding for trial in record.trials for finding in trial.findings)]
    points = sum(finding.cost.points for finding in everything)
    seconds = sum(finding.cost.seconds for finding in everything)
    whole = f"{wording.count(len(record.findings), 'attempt')}: {wording.listing(ended)}. " if ended else ""
    return f"{whole}The whole audit asked {wording.count(points, 'query', 'queries')} and took {wording.duration(seconds)}."


def _showcase(found: list[Leak]) -> tuple[pictures.Gallery | None, int]:
    """The pictures that the worst theft of training data won, beside the originals where they are known."""
    for leak in found:
        finding = leak.edge.finding
        won = finding.loot
        if leak.asset != "training_data" or not isinstance(won, TrainingData) or not pictures.drawable(won.shape):
            continue
        for figure in finding.figures:
            if isinstance(figure, ImagePairs) and len(figure.left):
                sides = f"Left: {figure.left_name}. Right: {figure.right_name}."  # how many there are, the table says
                right = loot.right(finding)  # pairs are in the order of their likeness
                shown = min(SHOWN, right or SHOWN)
                return replace(pictures.pairs(figure, shown), note=sides), leak.edge.number
        if won.shape is not None and len(won.X):
            alone = pictures.points(won.X, won.shape, None, "picture won", SHOWN)
            return replace(alone, title="Pictures that came out"), leak.edge.number
    return None, 0
