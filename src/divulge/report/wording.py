"""Numbers, durations and names as a reader wants them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from divulge.contract import Finding, Score


def number(value: float | None, digits: int = 3) -> str:
    """`1.2e-10`, `0.953`, `12,345`: as many digits as help, and a word for what is not a number."""
    if value is None:
        return "–"
    value = float(value)
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if value == int(value) and size < 1e9:
        return f"{int(value):,}"
    if size >= 1e6 or size < 1e-3:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}"
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def precise(value: float | None) -> str:
    """Six digits: for what was recovered, where the digits are the point."""
    return number(value, digits=6)


def interval(ends: tuple[float, float] | None, digits: int = 3) -> str:
    return "–" if ends is None else f"{number(ends[0], digits)} to {number(ends[1], digits)}"


def beside_null(name: str, score: Score) -> str:
    """`weight error 1.2e-10 (null 0.83: weights drawn at random)`."""
    unit = f" {score.unit}" if score.unit else ""
    return f"{name} {number(score.value)}{unit} (null {number(score.null)}{unit}: {score.null_of})"


def duration(seconds: float) -> str:
    """`0.4 s`, `3 min 12 s`, `2 h 5 min`."""
    if not math.isfinite(seconds):
        return number(seconds)
    if seconds < 0.05:
        return "under 0.1 s"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours} h", f"{minutes} min"] if hours else [f"{minutes} min", f"{rest} s"]
    return " ".join(part for part in parts if not part.startswith("0 "))


def count(amount: int, noun: str, plural: str = "") -> str:
    """`1 query`, `12,345 queries`."""
    return f"{amount:,} {noun if amount == 1 else plural or noun + 's'}"


def listing(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)


def kind(name: str) -> str:
    """A kind of access in words: `training_data` is training data."""
    return name.replace("_", " ")


def attack(finding: Finding[Any]) -> str:
    """An attack's title; a class name becomes words."""
    title = finding.provenance.title or finding.provenance.attack or "Attack"
    if " " in title:
        return title
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", title)
    return words[:1].upper() + re.sub(r"\b[A-Z](?=[a-z])", lambda match: match.group().lower(), words[1:])


def value(anything: Any) -> str:
    """One setting in a line of text; arrays by their shape, for their numbers say nothing to a reader."""
    if isinstance(anything, bool) or anything is None:
        return {True: "yes", False: "no", None: "none"}[anything]
    if isinstance(anything, int | float | np.number):
        return precise(float(anything))
    if isinstance(anything, np.ndarray):
        return f"array of {shape(anything.shape)}"
    if isinstance(anything, Mapping):
        return shorten(", ".join(f"{key}: {value(item)}" for key, item in anything.items()) or "none")
    if isinstance(anything, list | tuple):
        return shorten(", ".join(value(item) for item in anything[:20]) or "none")
    return shorten(str(anything))


def shape(sides: Sequence[int]) -> str:
    return " × ".join(f"{side:,}" for side in sides) or "one number"


def without_numbers(text: str) -> str:
    """The same sentence for all numbers in it."""
    return re.sub(r"\d(?:[\d.,]*\d)?(?:e[+-]?\d+)?", "0", text)


def shorten(text: str, length: int = 300) -> str:
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
