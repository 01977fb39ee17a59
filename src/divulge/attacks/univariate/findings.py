"""What a finding says and draws of candidates with one input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from divulge.attacks.univariate.candidates import Found
from divulge.contract import Array, Curve, Evidence, Figure, Finding, Scatter, TrainingData, Verdict
from divulge.solvers.univariate.polyline import Piecewise

LISTED = 40
"Candidates that notes list one by one: twice as many as the victims here have."
WHOLE = "The network as far as its breakpoints go"
BESIDE = 0.25
"Of the candidates' range, drawn to both sides of it, or less where the function grows to more than"
TALL = 3.0
"times its margin there."


@dataclass(frozen=True)
class CertifiedPoints(Evidence):
    """How many candidates are certified, and at which tolerance."""

    margin: float
    listed: int
    "Candidates, each once."
    certified: int
    certain_each: int
    guaranteed: int
    "Of those certified that are training points, at least."
    tolerance: float
    "Within which of a training point a certificate holds, in shares of the breakpoints' spread; 0 where it is exact."

    @classmethod
    def of(cls, found: Found) -> CertifiedPoints:
        sure = int(found.certified.sum()), int(found.certain.sum()), found.guarantee
        return cls(float(found.reading.margin), len(found.x), *sure, found.tolerance)


@dataclass(frozen=True, eq=False)
class FunctionOfValues(Evidence):
    """The piecewise linear function that values were found to lie on."""

    knots: Array
    values: Array
    slopes: Array
    origin: float
    points: CertifiedPoints

    @classmethod
    def of(cls, function: Piecewise, found: Found) -> FunctionOfValues:
        return cls(function.knots, function.values, function.slopes, function.origin, CertifiedPoints.of(found))

    @property
    def function(self) -> Piecewise:
        return Piecewise(self.knots, self.values, self.slopes, self.origin)


def finding(found: Found, power: str) -> Finding[TrainingData]:
    """What to say of candidates before the truth is looked at."""
    loot, sure, many = found.loot(), int(found.certified.sum()), len(found.x)
    notes = (found.margin_from, *found.notes, *_listed(found))
    about: dict[str, Any] = {"evidence": CertifiedPoints.of(found), "figures": drawn(found), "notes": notes}
    if found.misfit:
        offered = f"; {many} points on the margin are offered without a certificate" if loot is not None else ""
        return Finding(Verdict.NOT_APPLICABLE, f"{_capital(found.misfit)}{offered}.", loot=loot, **about)
    if not sure:
        why = f": {found.doubts[0]}" if found.doubts else ""
        offered = f" Offered without one: {many}." if loot is not None else ""
        summary = f"No candidate is certified{why}.{offered}"
        return Finding(Verdict.NONE_FOUND, summary, loot=loot, power=power, **about)
    alone = int(found.certain.sum())
    each = f", {alone} of them each" if alone else ""
    within = f", to within {found.tolerance:g} of the breakpoints' spread" if found.tolerance else ""
    summary = (
        f"{sure} of {many} points on the margin are certified{each}: at least {found.guarantee} of the {sure} are training "
        f"points{within}."
    )
    return Finding(Verdict.LEAK, summary, loot=loot, **about)


def drawn(found: Found, truth: Array | None = None) -> tuple[Figure, ...]:
    """The function with its margins, and with breakpoints, candidates and, where they are known, the training points."""
    function, shift, margin = found.function, found.shift, found.reading.margin
    seen = found.x if truth is None else np.concatenate([found.x, truth])
    seen = seen if len(seen) else function.knots + shift
    if not len(seen):
        return ()
    low, high = (_beside(found, end, side * BESIDE * (float(np.ptp(seen)) or 1.0)) for end, side in _ends(seen))
    knots = function.knots + shift
    knots = knots[(knots >= low) & (knots <= high)]
    ends = np.array([low, high])
    exact = np.unique(np.concatenate([ends, knots]))
    groups = {
        "breakpoints": knots,
        **({} if truth is None else {"training points": truth}),
        "certified": found.reading.points[found.certified] + shift,
        "not certified": np.concatenate([found.reading.points[~found.certified], found.more]) + shift,
    }
    return (
        Scatter(
            "Where the network meets its margin",
            "input",
            "output of the network",
            {name: (x, function(x - shift)) for name, x in groups.items() if len(x)},
            lines={
                "network": (exact, function(exact - shift)),
                "margin": (ends, np.full(2, margin)),
                "margin, other side": (ends, np.full(2, -margin)),
            },
        ),
    )


def _ends(x: Array) -> tuple[tuple[float, int], tuple[float, int]]:
    return (float(x.min()), -1), (float(x.max()), 1)


def _beside(found: Found, end: float, by: float) -> float:
    """A place beside the last candidate at which the function does not dwarf its margin."""
    while abs(found.function(np.array(end + by - found.shift))) > TALL * found.reading.margin and abs(by) > 1e-3:
        by /= 2
    return end + by


def whole(function: Piecewise) -> Curve:
    """All that is known of a function, with a stretch beyond its breakpoints: enough to have it back."""
    knots = function.knots
    beyond = max(float(np.ptp(knots)), 1.0) if len(knots) else 1.0
    ends = (knots[0] - beyond, knots[-1] + beyond) if len(knots) else (-1.0, 1.0)
    x = np.concatenate([ends[:1], knots, ends[1:]])
    return Curve(WHOLE, "input", "output of the network", {"network": (x, function(x))})


def again(figure: Curve) -> Piecewise:
    """The function that `whole` drew."""
    x, values = figure.series["network"]
    slopes = np.diff(values) / np.diff(x)
    return Piecewise(x[1:-1], values[1:-1], slopes, float(values[0] - slopes[0] * x[0]))


def _listed(found: Found) -> list[str]:
    """One sentence a kind of certificate, and what is not certified and why."""
    reading, shift, notes = found.reading, found.shift, []
    if found.certain.any():
        each = _places(reading.points[found.certain] + shift)
        notes.append(f"Certain each, as the weights cannot be explained without it: {each}.")
    for theorem in ("3.1", "3.2", "3.3"):
        windows = [one for one in found.windows if one.theorem == theorem]
        if windows:
            members = "; ".join(_places(reading.points[one.members] + shift) for one in windows[:LISTED])
            notes.append(f"Theorem {theorem}: of each group at least one is a training point: {members}.")
    ends = [one for one in found.all_windows if one.theorem == "A.1"]
    if ends:
        members = "; ".join(_places(reading.points[one.members] + shift) for one in ends)
        notes.append(f"Lemma A.1 at an end: of each group at least one is a training point: {members}.")
    if found.certified.any():
        notes.append(
            f"At least {found.guarantee} of the {int(found.certified.sum())} certified candidates are training points, as "
            "groups may share some; the paper, which counts shared ones twice, guarantees a quarter. All of it rests on the "
            "weights being a KKT point of the margin, which the checks support and cannot prove."
        )
    rest = len(found.x) - int(found.certified.sum())
    if rest:
        why = "; ".join(found.doubts) or "they lie on plateaus or outside every window"
        notes.append(f"Without a certificate, {rest} of {len(found.x)}: {why}.")
    return notes


def _places(x: Array) -> str:
    shown = ", ".join(f"{one:.6g}" for one in x[:LISTED])
    return shown + (f" and {len(x) - LISTED} more" if len(x) > LISTED else "")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
