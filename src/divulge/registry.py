"""Every attack there is: ours and those of plug-ins come through the same door, the entry-point group."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from divulge.contract import Attack
from divulge.errors import BadInput, refuse_unknown

GROUP = "divulge.attacks"


@cache
def _loaded() -> tuple[dict[str, type[Attack[Any, Any]]], dict[str, str]]:
    attacks: dict[str, type[Attack[Any, Any]]] = {}
    broken: dict[str, str] = {}
    # Ours first: a plug-in cannot take the name of an attack that comes with divulge.
    points = sorted(entry_points(group=GROUP), key=lambda point: (not point.value.startswith("divulge."), point.name))
    for point in points:
        try:
            attack = point.load()
            _check(point.name, attack)
            if attacks.get(point.name, attack) is not attack:
                raise BadInput(f"the name is taken by {attacks[point.name].__module__}; choose another")
        except (Exception, SystemExit) as error:  # a plug-in may fail in any way, and must not take the others along
            broken[point.name] = f"{point.value}: {type(error).__name__}: {error}"
        else:
            attacks[point.name] = attack
    return attacks, broken


def attacks() -> dict[str, type[Attack[Any, Any]]]:
    """Name -> attack class, by name."""
    return dict(sorted(_loaded()[0].items()))


def broken() -> dict[str, str]:
    """Plug-ins that could not be loaded -> why."""
    return dict(_loaded()[1])


def attack(name: str) -> type[Attack[Any, Any]]:
    """One attack by its name."""
    refuse_unknown([name], attacks(), "attacks")
    return attacks()[name]


def _check(name: str, attack: Any) -> None:
    if not (isinstance(attack, type) and issubclass(attack, Attack) and hasattr(attack, "__pydantic_fields__")):
        raise BadInput("expected a class made with @option_class that derives from Attack[Needs, Yields]")
    if attack.name != name:
        raise BadInput(f"expected the entry point to be called {attack.name!r} as the attack is, got {name!r}; rename one")
