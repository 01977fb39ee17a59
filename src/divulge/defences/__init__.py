"""What an owner can do to an API, each defence re-tested by the attacks that it should stop.

A defence takes what an attacker would hold and returns what the attacker holds instead:

    api = defended(Gradients.of(model), "rounding", digits=3)

It is a fact about the service, so an attack cannot see that it is there, and the owner's own work behind it (the samples of
a smoothed gradient, say) is not counted as queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, replace
from typing import Any, Protocol, TypeVar, cast

from divulge.contract import Access, Fitted, Gradients, Parameters, Predictions, Weights
from divulge.defences.answers import Absolute, LabelOnly, Noise, Rounding, TopClass
from divulge.defences.asking import QueryLimit, SmoothGrad
from divulge.defences.spelling import spelled, words
from divulge.errors import BadInput, refuse_unknown

__all__ = [
    "DEFENCES", "GUARDS", "Defence", "behind", "called", "defended", "from_table", "guards", "made", "spelled", "words",
]  # fmt: skip

P = TypeVar("P", bound=Predictions)
ANSWERING: tuple[type[Access], ...] = (Predictions, Gradients)
RELEASED: tuple[type[Access], ...] = (Weights, Fitted, Parameters)


class Defence(Protocol):
    """Fields are settings; `guard` returns the same kind of access with other answers. `seed` is its own randomness."""

    def guard(self, access: P, seed: int) -> P: ...


DEFENCES: dict[str, type[Defence]] = {
    "rounding": Rounding,
    "noise": Noise,
    "absolute": Absolute,
    "top-class": TopClass,
    "label-only": LabelOnly,
    "smoothgrad": SmoothGrad,
    "query-limit": QueryLimit,
}


GUARDS: dict[str, tuple[type[Access], ...]] = {
    "rounding": ANSWERING + RELEASED,
    "noise": ANSWERING + RELEASED,
    "absolute": (Gradients,),
    "top-class": (Gradients,),
    "label-only": (Predictions,),
    "smoothgrad": (Gradients,),
    "query-limit": ANSWERING,
}
"What each can stand before: what answers, and what is released."


def guards(defence: Defence, name: str) -> tuple[type[Access], ...]:
    """The kinds of things that a defence with these settings can stand before."""
    part = getattr(defence, "of", "all")
    return GUARDS[name] if part == "all" else ANSWERING if part == "values" else (Gradients,)


def defended(access: P, name: str, *, seed: int = 0, **settings: Any) -> P:
    """The same API behind a defence of this name. Its identity says which, so no run takes one for the other."""
    return behind(access, made(name, settings, seed), name, seed)


def behind(access: P, defence: Defence, name: str, seed: int) -> P:
    """The same API behind a defence that was made."""
    return called(defence.guard(access, seed), access, defence, name, seed)


def called(guarded: P, access: P, defence: Defence, name: str, seed: int) -> P:
    """A guarded API, called after what it is and what stands before it."""
    said = ", ".join(f"{key}={value!r}" for key, value in sorted(asdict(cast(Any, defence)).items()))
    return replace(guarded, identity=f"{access.identity} behind {name}({said}) seed {seed}")


def made(name: str, settings: Mapping[str, Any], seed: Any = 0) -> Defence:
    """A defence by its name, with settings that were looked at."""
    refuse_unknown([name], DEFENCES, "defence")
    kind: Any = DEFENCES[name]
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise BadInput(f"expected a whole number from 0 as seed of the defence {name!r}, got {seed!r}; correct it")
    refuse_unknown(settings, [field.name for field in fields(kind)], f"defence {name!r}")
    missing = [field.name for field in fields(kind) if field.name not in settings and field.default is MISSING]
    if missing:
        raise BadInput(f"expected {' and '.join(missing)} for the defence {name!r}, got none; give it")
    truths = [setting for setting, value in settings.items() if isinstance(value, bool) and setting != "fresh"]
    if truths:
        raise BadInput(f"expected a number as {truths[0]} of the defence {name!r}, got {settings[truths[0]]}; correct it")
    defence: Defence = kind(**settings)
    if isinstance(defence, Rounding):
        defence.check()
    return defence


def from_table(access: object, table: Any, *, seed: int = 0) -> Predictions:
    """The same, from a table in a file: `{ name = "rounding", digits = 3 }`, or a list of such, the first nearest the model.

    A table may name a seed of its own.
    """
    if isinstance(table, list) and table:
        nearest = from_table(access, table[0], seed=seed)
        return from_table(nearest, table[1:], seed=seed) if table[1:] else nearest
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise BadInput(
            f'expected a defence as a table with a name, got {table!r}; write {{ name = "rounding", digits = 3 }}'
        )
    if not isinstance(access, Predictions):
        raise BadInput(
            f"a defence changes what an API answers, got {type(access).__name__}; give it to predictions or gradients"
        )
    return defended(access, **{"seed": seed, **table})
