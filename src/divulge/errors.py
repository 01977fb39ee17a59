"""What can go wrong, said so that a person can act on it: expected, got, remedy."""

from collections.abc import Iterable
from difflib import get_close_matches


class DivulgeError(Exception):
    """Every error divulge raises on purpose."""


class BadInput(DivulgeError, ValueError):
    """What was handed in cannot be used as it is."""


class StorageError(BadInput):
    """A file could not be written or read; what was finished before is kept."""


class TargetFailed(BadInput):
    """A target stopped answering. While an attack runs, it fails and a later run tries again."""


class NotApplicable(DivulgeError):
    """Raised by an attack whose assumptions do not hold; becomes the verdict of that name."""


class AttackFailed(DivulgeError):
    """Raised by an attack that applies but did not get there; becomes the verdict *failed*."""


class BudgetSpent(DivulgeError):
    """The time or the queries the auditor allowed are used up."""


class TruthSealed(DivulgeError):
    """An attack reached for the truth that will score it."""


def refuse_unknown(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse the first key that nobody reads, naming the nearest one that somebody does."""
    known = sorted(known)
    for key in given:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of: {', '.join(known)}"
            raise BadInput(f"{where}: unknown key {key!r}; {hint}")


def sentence(reason: object) -> str:
    """A reason as a person would write it down: its first line, from a capital to a full stop."""
    text = str(reason).strip().partition("\n")[0].rstrip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
