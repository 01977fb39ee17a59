"""The worst leak, and what was won from what, in computed sentences; a name of something held stands in `backticks`."""

from __future__ import annotations

from collections import Counter

from divulge.contract import Poison, Record, Verdict
from divulge.report import loot, overview, severity, wording
from divulge.report.overview import Leak
from divulge.report.paths import Edge, Paths

_OPENINGS = {
    "gradients": "An open explanation endpoint",
    "predictions": "An open prediction endpoint",
    "weights": "A network whose weights can be read",
    "fitted": "A fitted model that can be read",
    "pipeline": "A training pipeline that accepts contributed points",
}
"What it means to hold a thing, for the start of a sentence."
_LOST = {
    "training_data": "gives away what it was trained on",
    "membership": "tells who was in its training data",
    "parameters": "gives its parameters away",
    "integrity": "can be poisoned",
    "hyperparameters": "gives its hyperparameters away",
}
"What it means to lose an asset."
_LOST_TO = {"copy": "can be copied", "fitted": "gives away which algorithm trained it"}
"The same, where what was won is less than the asset itself."
_REACHED = {"membership": "tells who was in the training data"}
"What it means to win a thing, where its name alone says little."
_WON = {"poison": "poison that raises the model's error"}
"The same, where one step wins it."


def sentences(record: Record) -> list[str]:
    """The worst leak in one sentence; then what each way through the graph reaches, and what that does not say."""
    paths = Paths(record)
    found = overview.leaks(record)
    if found:
        return [worst(found[0], paths), *ways(record)]
    attacks = [finding for finding in record.findings if finding.provenance.role == "attack"]
    tally = Counter(finding.verdict for finding in attacks if not finding.onward)
    means = any(finding.onward for finding in attacks)
    said = []
    if tally[Verdict.NONE_FOUND]:
        one = tally[Verdict.NONE_FOUND] == 1
        ran, these = ("one attack", "this attack") if one else (f"{tally[Verdict.NONE_FOUND]} attacks", "these attacks")
        said.append(f"No leak found by the {ran} that ran: evidence of resistance to {these} only.")
    elif tally[Verdict.FAILED] or not record.findings or (tally and not means):
        said.append("No attack came to an answer that holds: nothing is known of what this gives away.")
    if tally[Verdict.FAILED]:
        said.append(f"{wording.count(tally[Verdict.FAILED], 'attack')} failed, which says nothing either way.")
    if means:
        said.append("What was won on the way gives nothing away by itself.")
    return said or ["No attack was run, and what was run instead shows no leak."]


def worst(leak: Leak, paths: Paths) -> str:
    """Who gives away what, how much of it, and what that costs an attacker; what is no attack speaks for itself."""
    edge = leak.edge
    origin = edge.finding.provenance
    if origin.role != "attack":
        return f"The {origin.role} {wording.attack(edge.finding).lower()} shows a leak: {edge.finding.summary}"
    roots = paths.roots(edge)
    first = next((name for name in roots if paths.kinds[name] in _OPENINGS), roots[0] if roots else "")
    opening = _OPENINGS.get(paths.kinds.get(first, ""), "What is held")
    who = f"{opening} (`{first}`)" if first else opening
    lost = _LOST.get(leak.asset, f"gives away {wording.kind(leak.asset)}" if leak.asset else "leaks")
    lost = _LOST_TO.get(edge.finding.loot.kind, lost) if edge.finding.loot is not None else lost
    much, score = loot.won(edge.finding), severity.headline(edge.finding)
    if much and isinstance(edge.finding.loot, Poison) and score is not None:  # how many points says nothing of the harm
        name, harm = score
        much += f" make the {name} {wording.number(harm.value)}, null {wording.number(harm.null)}"
    price = f"for {wording.count(leak.rating.points, 'query', 'queries')}" if leak.rating.points else "without a query"
    shown = "" if origin.claimed else "; only the truth shows it"
    return f"{who} {lost}{f': {much},' if much else ''} {price} and in {wording.duration(leak.rating.seconds)}{shown}."


def ways(record: Record) -> list[str]:
    """What each way through the graph reaches, and what is shown by what is no attack."""
    paths = Paths(record)
    return [*_chains(paths), *_direct(paths), *_shown(record)]


def _shown(record: Record) -> list[str]:
    """What studies and baselines show, which nothing follows from."""
    leaks = [
        f"{finding.provenance.role} {wording.attack(finding).lower()}"
        for finding in record.findings
        if finding.provenance.role != "attack" and finding.verdict is Verdict.LEAK
    ]
    return [f"A leak is shown by the {wording.listing(leaks)}."] if leaks else []


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
