"""What an attack knew when it ended, as a typed value: handed from `run` to `score`, stored, shown in the JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


class Evidence:
    """Subclasses are frozen dataclasses of numbers, text, arrays and other evidence, known by their name."""

    kinds: ClassVar[dict[str, type[Evidence]]] = {}

    def __init_subclass__(cls) -> None:
        known = Evidence.kinds.get(cls.__name__)
        if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"evidence {cls.__name__} of {cls.__module__} has the name of {known.__module__}'s; rename one")
        Evidence.kinds[cls.__name__] = cls


@dataclass(frozen=True, eq=False)
class StoredEvidence(Evidence):
    """Evidence read from a file while the attack that made it is not loaded: its name, and what it held."""

    name: str
    values: Mapping[str, Any]
