"""What the auditor knows and the attacker does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar, cast

from divulge.contract.access import Access, TrainingData
from divulge.contract.tables import is_raw
from divulge.errors import BadInput, TruthSealed, refuse_unknown

A = TypeVar("A", bound=Access)


class Truth:
    """What the auditor knows and the attacker does not. It cannot be read while an attack runs."""

    def __init__(self, known: Mapping[str, Access] | None = None) -> None:
        self.__known = dict(known or {})
        self.__sealed = 0
        refuse_unknown(self.__known, Access.kinds, "truth")
        for kind, value in self.__known.items():
            if not isinstance(value, Access.kinds[kind]):
                raise BadInput(f"truth: expected {Access.kinds[kind].__name__} under {kind!r}, got {type(value).__name__}")
            if isinstance(value, TrainingData) and is_raw(value.X):
                raise BadInput(
                    "truth: expected training data as a dense array of numbers, got another form; pass X.toarray()"
                )

    def get(self, kind: type[A]) -> A | None:
        """The truth of one kind, or None where the auditor does not know it."""
        if self.__sealed:
            raise TruthSealed(f"an attack reached for the true {kind.kind}; only scoring may read the truth")
        return cast(A | None, self.__known.get(kind.kind))

    def all(self) -> dict[str, Access]:
        """Everything the auditor knows, by kind."""
        if self.__sealed:
            raise TruthSealed("an attack reached for the truth; only scoring may read it")
        return dict(self.__known)

    @contextmanager
    def sealed(self) -> Iterator[None]:
        self.__sealed += 1
        try:
            yield
        finally:
            self.__sealed -= 1
