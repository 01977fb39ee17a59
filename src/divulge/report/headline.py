"""What was won from what, in computed sentences; a name of something held stands in `backticks`."""

from __future__ import annotations

from collections import Counter

from divulge.contract import Record, Verdict
from divulge.report import wording
from divulge.report.paths import Edge, Paths

_OPENINGS = {
    "gradients": "An open explanation endpoint",
    "predictions": "An open prediction endpoint",
    "weights": "A network whose weights can be read",
    "fitted": "A fitted model that can be read",
    "pipeline": "A training pipeline that accepts contributed points",
}
"What it means to hold a thing, for the start of a sentence."
_REACHED = {"membership": "tells who was in the training data"}
"What it means to win a thing, where its name alone says little."
_WON = {"poison": "poison that raises the model's error"}
"The same, where one step wins it."


def sentences(record: Record) -> list[str]:
    """The headline: how many attacks won, what each way through the graph reaches, and what that does not say."""
    paths = Paths(record)
    tally = Counter(finding.verdict for finding in record.findings if finding.provenance.role == "attack")
    if tally[Verdict.LEAK]:
        return [_won(tally), *_chains(paths), *_direct(paths), *_shown(record)]
    said = []
    if tally[Verdict.NONE_FOUND]:
        one = tally[Verdict.NONE_FOUND] == 1
        ran, these = ("one attack", "this attack") if one else (f"{tally[Verdict.NONE_FOUND]} attacks", "these attacks")
        said.append(f"No leak found by the {ran} that ran: evidence of resistance to {these} only.")
    elif tally or not record.findings:
        said.append("No attack ran to its end: nothing is known of what this gives away.")
    if tally[Verdict.FAILED]:
        said.append(f"{wording.count(tally[Verdict.FAILED], 'attack')} failed, which says nothing either way.")
    return [*said, *_shown(record)] or ["No attack was run, and what was run instead shows no leak."]


def _shown(record: Record) -> list[str]:
    """What studies and baselines show, which nothing follows from."""
    leaks = [
        f"{finding.provenance.role} {wording.attack(finding).lower()}"
        for finding in record.findings
        if finding.provenance.role != "attack" and finding.verdict is Verdict.LEAK
    ]
    return [f"A leak is shown by the {wording.listing(leaks)}."] if leaks else []


def _won(tally: Counter[Verdict]) -> str:
    leaks, ran = tally[Verdict.LEAK], tally.total() - tally[Verdict.NOT_APPLICABLE]
    return "The one attack that ran won something." if ran == 1 else f"{leaks} of {ran} attacks won something."


def _chains(paths: Paths) -> list[str]:
    """One sentence for each way of two steps or more."""
    said = []
    for edge in paths.ends:
        way, roots = paths.way(edge), paths.roots(edge)
        if len(way) < 3:
            continue
        kinds = [wording.kind(paths.kinds[name]) for name in way]
        opening = _OPENINGS.get(paths.kinds[way[0]], "What is held")
        others = [f"`{name}`" for name in roots if name != way[0]]
        helped = f", with {wording.listing(others)}," if others else ""
        reached = _REACHED.get(paths.kinds[way[-1]], f"reaches the {kinds[-1]}")
        said.append(f"{opening} (`{way[0]}`){helped} {reached} in {len(way) - 1} steps: {' → '.join(kinds)}.")
    return list(dict.fromkeys(said))


def _direct(paths: Paths) -> list[str]:
    """What one step wins, gathered by what it starts from."""
    gathered: dict[tuple[str, ...], list[Edge]] = {}
    for edge in paths.ends:
        if len(paths.way(edge)) < 3:
            gathered.setdefault(edge.sources, []).append(edge)
    said = []
    for sources, edges in gathered.items():
        kinds = list(dict.fromkeys(_WON.get(paths.kinds[edge.won], wording.kind(paths.kinds[edge.won])) for edge in edges))
        verb = "were" if len(kinds) > 1 or kinds[0].endswith("s") else "was"
        won = f"{wording.listing(kinds)} {verb} won."
        if sources:
            said.append(f"From {wording.listing([f'`{name}`' for name in sources])}, {won}")
        else:
            said.append(won[:1].upper() + won[1:])
    return said
