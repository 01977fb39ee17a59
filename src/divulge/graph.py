"""Forward chaining: from what is held to everything that can be won."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, product
from typing import Any

from divulge.contract import Access, Attack, Finding, Procedure
from divulge.errors import BadInput
from divulge.storage import fingerprint


@dataclass(frozen=True, eq=False)
class Held:
    """A thing in hand and how it was come by."""

    name: str
    kind: type[Access]
    access: Access | None
    "None in a plan, where nothing has been won yet."
    fingerprint: str
    source: str
    roots: tuple[str, ...]
    "Names of what was held from the start that this goes back to."
    path: tuple[str, ...] = ()
    "Attacks on the way here: none is applied to its own loot, so every chain ends."


@dataclass(frozen=True, eq=False)
class Step:
    """One attack, baseline or study on one choice of inputs."""

    attack: Procedure[Any, Any]
    inputs: tuple[Held, ...]
    choices: int
    "How many choices of inputs this attack had: with more than one, a pair that does not fit is no mistake."
    wins: str = ""
    "The name the loot will have, known when the step is taken; empty for what is no edge of the graph."

    @property
    def key(self) -> tuple[str, ...]:
        return (self.attack.name, *(held.fingerprint for held in self.inputs))

    @property
    def roots(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(root for held in self.inputs for root in held.roots))

    @property
    def path(self) -> tuple[str, ...]:
        return (*(name for held in self.inputs for name in held.path), self.attack.name)


def hold(held: Access | Iterable[Access] | Mapping[str, Access], sources: Mapping[str, str] | None = None) -> list[Held]:
    """Name what is held from the start: by the names given, or by its kind."""
    things = [held] if isinstance(held, Access) else list(held.values() if isinstance(held, Mapping) else held)
    for access in things:
        if not isinstance(access, Access):
            raise BadInput(f"expected things such as Fitted(...) or TrainingData(...), got {type(access).__name__}")
    if not isinstance(held, Mapping):
        counts: Counter[str] = Counter()
        named = {}
        for access in things:
            kind = access.kind.replace("_", " ")
            counts[kind] += 1
            named[kind if counts[kind] == 1 else f"{kind} {counts[kind]}"] = access
        held = named
    for name in held:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or "`" in name:
            raise BadInput(f"expected names that can be printed, without `, got {name!r}; give it another name")
    return [
        Held(name, type(access), access, fingerprint(access), _public((sources or {}).get(name, "in memory")), (name,))
        for name, access in held.items()
    ]


def _public(source: str) -> str:
    """Where a thing came from, without what a query of an address may keep secret: reports are forwarded."""
    address, mark, options = source.partition("#")
    if "://" not in address:
        return source
    return re.sub(r"([?&])([^=&]*=)?[^&]+", r"\1\2…", address) + mark + options


def pursue(
    held: Sequence[Held], attacks: Sequence[Procedure[Any, Any]], execute: Callable[[Step], Held | None]
) -> tuple[Held, ...]:
    """Run every attack whose needs are met, once for each distinct input, until nothing new is won.

    What asks least comes first, of all that can be done with what is held by then: eight answers are asked before a
    thousand, and what follows from them without another question is done before.
    """
    everything = list(held)
    done: set[tuple[str, ...]] = set()
    while step := next((step for step in _steps(everything, attacks) if step.key not in done), None):
        done.add(step.key)
        won = execute(named(step, {thing.name for thing in everything}))
        if won is not None:
            everything.append(won)
    return tuple(everything)


def plan(held: Sequence[Held], attacks: Sequence[Procedure[Any, Any]]) -> list[Step]:
    """The steps an audit would take if every attack won."""
    steps: list[Step] = []

    def pretend(step: Step) -> Held | None:
        steps.append(step)
        if not isinstance(step.attack, Attack):
            return None
        return Held(step.wins, step.attack.yields, None, repr(step.key), step.attack.name, step.roots, step.path)

    pursue(held, attacks, pretend)
    return steps


def unmet(held: Iterable[Held], attacks: Iterable[Procedure[Any, Any]], started: set[str]) -> dict[str, str]:
    """Attacks that never started -> what they need that nobody holds."""
    kinds = [thing.kind for thing in held]
    reasons = {}
    for attack in attacks:
        if attack.name not in started:
            missing = [need.kind for need in attack.needs if not any(issubclass(kind, need) for kind in kinds)]
            reasons[attack.name] = f"needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not held"
    return reasons


def _steps(held: Sequence[Held], attacks: Sequence[Procedure[Any, Any]]) -> Iterator[Step]:
    for attack in sorted(attacks, key=lambda attack: (not isinstance(attack, Attack), attack.asks, attack.name)):
        fitting = [
            [thing for thing in held if issubclass(thing.kind, need) and attack.name not in thing.path]
            for need in attack.needs
        ]
        given = [any(not thing.path for thing in things) for things in fitting]
        choices = [inputs for inputs in product(*fitting) if _belong(inputs, given)]
        for inputs in choices:
            yield Step(attack, inputs, len(choices))


def _belong(inputs: Sequence[Held], given: Sequence[bool]) -> bool:
    """Whether loot among the inputs goes back to the same model as another input, or stands in for what was not given.

    Training data won from one model says nothing about another, whose data is given.
    """
    return all(
        not thing.path
        or not instead
        or len(inputs) == 1
        or any(other is not thing and not set(other.roots).isdisjoint(thing.roots) for other in inputs)
        for thing, instead in zip(inputs, given, strict=True)
    )


def won(step: Step, finding: Finding[Any]) -> Held | None:
    """What a finding leaves in an attacker's hands."""
    # Not the verdict: scoring may have changed it, and the attacker cannot know.
    loot = finding.loot
    if loot is None or not finding.provenance.won:
        return None
    source = f"won by {step.attack.name}"
    return Held(step.wins, type(loot), loot, fingerprint(loot), source, step.roots, step.path)


def named(step: Step, taken: set[str]) -> Step:
    """With a name for its loot: `weights of api`; a second of that name says which attack won it, a third from what."""
    if not isinstance(step.attack, Attack):
        return step
    plain = f"{step.attack.yields.kind.replace('_', ' ')} of {step.roots[0]}"
    by = f"{plain} by {step.attack.name}"
    whole = f"{by} from {' and '.join(thing.name for thing in step.inputs)}"
    more = (f"{whole} ({number})" for number in count(2))
    return replace(step, wins=next(name for name in chain((plain, by, whole), more) if name not in taken))
