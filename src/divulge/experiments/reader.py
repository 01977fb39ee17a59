"""Reads a claim from its TOML file, runs it cell by cell, and says what came of it."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from divulge import datasets, defences, graph, registry, victims
from divulge.contract import Access, Candidates, Finding, Procedure, Truth
from divulge.errors import BadInput, refuse_unknown
from divulge.graph import Step
from divulge.run_folder import Pieces, code_version
from divulge.runner import Observer, Runner, one_blas_thread
from divulge.storage import fingerprint

Scale = Literal["quick", "paper"]
KEYS = (
    "title",
    "paper",
    "claim",
    "published",
    "attack",
    "score",
    "by_truth",
    "pool",
    "at_most",
    "at_least",
    "data",
    "victim",
    "vary",
    "options",
    "defence",
)
POOLS: dict[str, Callable[[list[float]], float]] = {
    "largest": max,
    "smallest": min,
    "mean": lambda values: float(np.mean(values)),
    "median": lambda values: float(np.median(values)),
}


@dataclass(frozen=True)
class Experiment:
    """One claim at one scale."""

    name: str
    title: str
    paper: str
    claim: str
    published: str
    "What the paper reports for it, in its own words or numbers."
    attack: str
    score: str
    pool: str
    "How the scores of all cells become one figure."
    data: Mapping[str, Any]
    victim: Mapping[str, Any]
    by_truth: bool = False
    "Whether the paper counts, with the truth in hand, what an attack comes to, claimed or not."
    at_most: float | None = None
    at_least: float | None = None
    vary: Mapping[str, list[Any]] = field(default_factory=dict)
    "`section.key` -> values, a section being data, victim, options or defence; a cell for every combination."
    options: Mapping[str, Any] = field(default_factory=dict)
    'The attack\'s. `units = "$victim.units"` takes what another section says in the same cell, so that both vary together.'
    defence: Mapping[str, Any] = field(default_factory=dict)
    "`name` and settings of what the owner puts before the victim's API once it is trained."

    @property
    def expected(self) -> str:
        return f"≤ {self.at_most:g}" if self.at_most is not None else f"≥ {self.at_least:g}"

    def cells(self) -> Iterator[dict[str, Any]]:
        for values in product(*self.vary.values()):
            yield dict(zip(self.vary, values, strict=True))


@dataclass(frozen=True, eq=False)
class Cell:
    """One victim of an experiment and what was found."""

    settings: Mapping[str, Any]
    finding: Finding[Any]
    value: float | None
    null: float | None


@dataclass(frozen=True, eq=False)
class Outcome:
    """A claim beside what was measured."""

    experiment: Experiment
    cells: tuple[Cell, ...]

    @property
    def ours(self) -> float | None:
        values = [cell.value for cell in self.cells if cell.value is not None]
        return POOLS[self.experiment.pool](values) if values else None

    @property
    def null(self) -> float | None:
        values = [cell.null for cell in self.cells if cell.null is not None]
        return float(np.median(values)) if values else None

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(cell.finding.verdict.value for cell in self.cells))

    @property
    def reproduced(self) -> bool:
        """Within the limit in every cell to which the attack applies; one that resisted or failed is none.

        A claim that an attack wins little, at most so much of what it would have more of, holds where it found nothing.
        """
        ours, most, least = self.ours, self.experiment.at_most, self.experiment.at_least
        scores = [cell.finding.scores.get(self.experiment.score) for cell in self.cells]
        little = most is not None and any(score is not None and score.better == "higher" for score in scores)
        unclaimed = little or self.experiment.by_truth
        if ours is None or ({"failed"} if unclaimed else {"none found", "failed"}) & self.counts.keys():
            return False
        return (most is None or ours <= most) and (least is None or ours >= least)


def names() -> list[str]:
    """Every experiment there is."""
    return sorted(_places())


def read(name: str, scale: Scale = "quick") -> Experiment:
    """One experiment by name, at one of its two scales."""
    places = _places()
    refuse_unknown([name], places, "experiments")
    return parse(name, places[name].read_text(encoding="utf-8"), scale)


def _places() -> dict[str, Traversable]:
    """Name -> file, of every paper's folder."""
    papers = [folder for folder in files("divulge.experiments").iterdir() if folder.is_dir()]
    return {
        path.name.removesuffix(".toml"): path
        for folder in papers
        for path in folder.iterdir()
        if path.name.endswith(".toml")
    }


def parse(name: str, text: str, scale: Scale) -> Experiment:
    """An experiment from TOML; the table of its scale overrides the rest."""
    document = tomllib.loads(text)
    refuse_unknown([scale], ("quick", "paper"), "scale")
    scales = document.pop("scale", {})
    refuse_unknown(document, KEYS, f"{name}.toml")
    refuse_unknown(scales, ("quick", "paper"), f"{name}.toml [scale]")
    chosen = _merged(document, scales.get(scale, {}))
    refuse_unknown(chosen, KEYS, f"{name}.toml [scale.{scale}]")
    missing = [
        key
        for key in ("title", "paper", "claim", "published", "attack", "score", "pool", "data", "victim")
        if key not in chosen
    ]
    if missing or ("at_most" in chosen) == ("at_least" in chosen):
        raise BadInput(f"{name}.toml: expected {', '.join(missing) or 'one of at_most and at_least'}; add what is missing")
    refuse_unknown([chosen["pool"]], POOLS, f"{name}.toml pool")
    return Experiment(name=name, **chosen)


def run(
    experiment: Experiment,
    *,
    seed: int = 0,
    out: Path | None = None,
    workers: int | None = None,
    observer: Observer | None = None,
) -> Outcome:
    """Train every victim, attack it, pool the scores. With `out`, finished cells are found again."""
    runner = Runner(out, seed=seed, workers=workers, observer=observer)
    with one_blas_thread():
        return Outcome(experiment, tuple(_cell(experiment, changes, runner) for changes in experiment.cells()))


def _cell(experiment: Experiment, changes: Mapping[str, Any], runner: Runner) -> Cell:
    sections: dict[str, dict[str, Any]] = {
        "data": dict(experiment.data),
        "victim": dict(experiment.victim),
        "options": dict(experiment.options),
        "defence": dict(experiment.defence),
    }
    for place, value in changes.items():
        section, _, key = place.partition(".")
        refuse_unknown([section], sections, f"{experiment.name}.toml [vary]")
        sections[section][key] = value
    options, defence = _referred(sections.pop("options"), sections, experiment.name), sections.pop("defence")
    attack: Procedure[Any, Any] = registry.procedure(experiment.attack)(**options)
    victim = _victim(sections, runner).opened()
    held = _defended(victim.held, defence, runner.seed) if defence else victim.held
    step = graph.named(Step(attack, tuple(graph.hold(held)), choices=1), set())
    finding = runner.execute(step, Truth(victim.truth))
    score = finding.scores.get(experiment.score)
    return Cell(changes, finding, score.value if score else None, score.null if score else None)


def _victim(sections: Mapping[str, Mapping[str, Any]], runner: Runner) -> victims.Victim:
    """Train a victim, or find the one an interrupted run trained."""
    described = {**sections, "seed": runner.seed}
    key = fingerprint({**described, "code": code_version("divulge.victims")})
    pieces = Pieces(runner.folder / "victims", runner.observer.log) if runner.folder else None
    if pieces:
        try:
            return victims.Victim(**pieces.recall(key))
        except KeyError:
            pass
    data = dict(sections["data"])
    loaded = datasets.load(data.pop("name"), seed=data.pop("seed", runner.seed), **data)
    # Without the code: the same description draws the same numbers in every version.
    rng = np.random.default_rng(np.random.SeedSequence(runner.seed, spawn_key=(int(fingerprint(described)[:8], 16),)))
    test = Candidates(loaded.X_test, loaded.y_test) if len(loaded.X_test) else None
    made = victims.make(X=loaded.X, y=loaded.y, rng=rng, test=test, shape=loaded.shape, **sections["victim"])
    if pieces:
        pieces.keep(key, {"held": dict(made.held), "truth": dict(made.truth), "served": dict(made.served)})
    return made


def _referred(options: Mapping[str, Any], sections: Mapping[str, Mapping[str, Any]], experiment: str) -> dict[str, Any]:
    """Options with every "$section.key" replaced by what that section says."""
    found = dict(options)
    for name, value in options.items():
        if isinstance(value, str) and value.startswith("$"):
            section, _, key = value[1:].partition(".")
            refuse_unknown([section], sections, f"{experiment}.toml [options] {name}")
            refuse_unknown([key], sections[section], f"{experiment}.toml [options] {name}")
            found[name] = sections[section][key]
    return found


def _defended(held: Mapping[str, Access], defence: Mapping[str, Any], seed: int) -> dict[str, Access]:
    if "api" not in held:
        raise BadInput(f"expected a victim with an API to defend, got {', '.join(held)}; leave [defence] out")
    return {**held, "api": defences.from_table(held["api"], defence, seed=seed)}


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
