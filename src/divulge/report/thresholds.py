"""When an audit should fail whoever runs it: conditions such as `training_data>=1` on how much leaked."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from divulge.contract import ASSETS, Record, Verdict
from divulge.errors import BadInput, refuse_unknown
from divulge.report import overview, wording
from divulge.report.severity import Severity

CONDITION = re.compile(r"\s*([\w-]+)\s*(>=|==|>)\s*([0-9]{1,9})\s*")
COMPARED: dict[str, Callable[[int, int], bool]] = {">=": operator.ge, ">": operator.gt, "==": operator.eq}
VERDICTS = {"failed": Verdict.FAILED, "none_found": Verdict.NONE_FOUND, "not_applicable": Verdict.NOT_APPLICABLE}
KEYS = {
    "leaks": "leaks of any kind",
    **{
        str(level): f"leaks of severity {level}{' or worse' if level < max(Severity) else ''}"
        for level in reversed(Severity)
    },
    **{asset: f"leaks of {wording.kind(asset)}" for asset in ASSETS},
    "failed": "attacks that failed",
    "none_found": "attacks that found none",
    "not_applicable": "attacks found not applicable",
    "incomplete": "audits cut short",
}
"What can be counted -> in words. A severity counts what is worse too, so that `high>=1` does not overlook the critical."


@dataclass(frozen=True)
class Condition:
    """One condition, as it was written and as it is tested."""

    key: str
    sign: str
    bound: int

    def __str__(self) -> str:
        return f"{self.key}{self.sign}{self.bound}"

    def holds(self, tally: Counter[str]) -> bool:
        return COMPARED[self.sign](tally[self.key], self.bound)


def read(expressions: Iterable[str]) -> tuple[Condition, ...]:
    """Conditions from text; each text may hold several, with commas between them."""
    return tuple(_condition(part) for text in expressions for part in text.split(","))


def exceeded(record: Record, expressions: Iterable[str]) -> list[str]:
    """A sentence for each condition that holds: `fails on training_data>=1: 2 leaks of training data`."""
    tally = count(record)
    held = [condition for condition in dict.fromkeys(read(expressions)) if condition.holds(tally)]
    return [f"fails on {one}: {_counted(tally[one.key], KEYS[one.key])}" for one in held]


def count(record: Record) -> Counter[str]:
    """How many of everything that a condition can name."""
    leaks, verdicts = overview.counts(record), Counter(finding.verdict for finding in record.findings)
    tally = Counter({key: leaks[key] for key in ("leaks", *ASSETS)})
    for level in Severity:
        tally[str(level)] = sum(leaks[str(worse)] for worse in Severity if worse >= level)
    for key, verdict in VERDICTS.items():
        tally[key] = verdicts[verdict]
    tally["incomplete"] = int(not record.complete)
    return tally


def _condition(text: str) -> Condition:
    found = CONDITION.fullmatch(text)
    if not found:
        raise BadInput(
            f"expected a condition such as 'training_data>=1' to fail on, got {text.strip()!r}; write a key, >=, > or == "
            "and a number, all in quotation marks: a shell takes > for itself"
        )
    refuse_unknown([found[1]], KEYS, f"condition {text.strip()!r}")
    return Condition(found[1], found[2], int(found[3]))


def _counted(number: int, words: str) -> str:
    """`1 leak of training data`, `2 leaks of training data`."""
    noun, _, rest = words.partition(" ")
    return f"{number:,} {noun[:-1] if number == 1 else noun} {rest}"
