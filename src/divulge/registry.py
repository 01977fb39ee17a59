"""Every attack, baseline and study there is: ours and those of plug-ins come through the same doors, and load on use."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from divulge.contract import Attack, Baseline, Procedure, Study
from divulge.errors import BadInput, refuse_unknown

Kind = type[Procedure[Any, Any]]

GROUPS: dict[str, Kind] = {"divulge.attacks": Attack, "divulge.baselines": Baseline, "divulge.studies": Study}
"Entry-point group -> what is registered there."


def attacks() -> dict[str, type[Attack[Any, Any]]]:
    """Name -> attack class, by name."""
    return _all("divulge.attacks")


def baselines() -> dict[str, type[Baseline[Any, Any]]]:
    """Name -> published method to compare with."""
    return _all("divulge.baselines")


def studies() -> dict[str, type[Study[Any]]]:
    """Name -> study."""
    return _all("divulge.studies")


def others() -> dict[str, Kind]:
    """Name -> what is no attack: studies, then baselines."""
    return {**studies(), **baselines()}


def names() -> list[str]:
    """What every attack, baseline and study is called; nothing is loaded for it."""
    return sorted(_points()[0])


def attack(name: str) -> type[Attack[Any, Any]]:
    """One attack by its name; no other is loaded."""
    points = _points()[0]
    refuse_unknown([name], [known for known, point in points.items() if point.group == "divulge.attacks"], "attacks")
    found: type[Attack[Any, Any]] = _usable(name)
    return found


def procedure(name: str) -> Kind:
    """One attack, baseline or study by its name; no other is loaded."""
    refuse_unknown([name], _points()[0], "attacks and studies")
    return _usable(name)  # type: ignore[no-any-return]  # checked when it was loaded


def broken() -> dict[str, str]:
    """Plug-ins that could not be loaded -> why."""
    points, taken = _points()
    foreign = {name: _loaded(name) for name, point in points.items() if not _ours(point)}
    return dict(sorted((taken | {name: why for name, why in foreign.items() if isinstance(why, str)}).items()))


@cache
def _points() -> tuple[dict[str, EntryPoint], dict[str, str]]:
    """Name -> entry point, and names that a plug-in would take from another -> why it may not."""
    found: dict[str, EntryPoint] = {}
    taken: dict[str, str] = {}
    points = [point for group in GROUPS for point in entry_points(group=group)]
    # Ours first: a plug-in cannot take the name of an attack that comes with divulge.
    for point in sorted(points, key=lambda point: (not _ours(point), point.name)):
        if found.setdefault(point.name, point).value != point.value:
            taken[point.name] = f"{point.value}: the name is taken by {found[point.name].module}; choose another"
    return found, taken


@cache
def _loaded(name: str) -> Any:
    """A class, or the reason why there is none."""
    point = _points()[0][name]
    try:
        found = point.load()
        _check(point, found)
    except (Exception, SystemExit) as error:  # a plug-in may fail in any way, and must not take the others along
        return f"{point.value}: {type(error).__name__}: {error}"
    return found


def _all(group: str) -> dict[str, Any]:
    here = sorted(name for name, point in _points()[0].items() if point.group == group)
    return {name: found for name in here if not isinstance(found := _loaded(name), str)}


def _usable(name: str) -> Any:
    found = _loaded(name)
    if isinstance(found, str):
        raise BadInput(f"{name} could not be loaded: {found}; repair or uninstall its package")
    return found


def _ours(point: EntryPoint) -> bool:
    return point.value.startswith("divulge.")


def _check(point: EntryPoint, found: Any) -> None:
    kind = GROUPS[point.group]
    if not (isinstance(found, type) and issubclass(found, kind) and hasattr(found, "__pydantic_fields__")):
        needs = "Needs" if kind is Study else "Needs, Yields"
        raise BadInput(f"expected a class made with @option_class that derives from {kind.__name__}[{needs}]")
    if found.name != point.name:
        raise BadInput(
            f"expected the entry point to be called {found.name!r} as the attack is, got {point.name!r}; rename one"
        )
