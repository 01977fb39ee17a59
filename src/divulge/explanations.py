"""What kind of explanations a service gives, as data: what is explained, and how a number comes about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from divulge.arrays import Array

Kind = Literal[
    "gradient",
    "gradient times input",
    "absolute gradient",
    "smoothed gradient",
    "integrated gradients",
    "SHAP-like",
    "unknown",
]

Normalised = Literal["", "maximum", "length", "sum", "range"]

KINDS: tuple[Kind, ...] = get_args(Kind)

_SCALED = {
    "maximum": "each divided by its largest entry",
    "length": "each scaled to length 1",
    "sum": "each scaled to sum 1",
    "range": "each stretched from 0 to 1",
}


@dataclass(frozen=True, eq=False)
class Explanation:
    """What one row of explanations is, as it was told or found by probes (`solvers.piecewise.explanation_kind`)."""

    kind: Kind
    "SHAP-like: parts that add up to the value less a base value, but are no path integral of gradients."
    of: str = "only output"
    'What is explained: "each output" (a full Jacobian), "output J", "sum of outputs", "top output" or "only output".'
    baseline: Array | float | None = None
    "Where integrated gradients begin (dimension,); of SHAP-like ones the base value. None where it was not found."
    absolute: bool = False
    "Whether signs are left out, as saliency maps do."
    normalised: Normalised = ""
    "How every answer is scaled by a number of its own: its largest entry, length, sum or range is always the same."
    agreement: float = 1.0
    "Share of the measurements that agree with this description."
    points: int = 0
    "Points at which explanations were looked at; 0 where the kind was told."

    @property
    def raw(self) -> bool:
        """Whether these are plain gradients, as theorems about explanations suppose."""
        return self.kind == "gradient" and not self.absolute and not self.normalised

    @property
    def output(self) -> int | None:
        """Which one of several outputs is explained, where it is always the same."""
        return int(self.of.removeprefix("output ")) if self.of.startswith("output ") else None

    def __str__(self) -> str:
        name = {
            "gradient times input": "gradient × input",
            "SHAP-like": "SHAP-like attributions",
            "unknown": "explanations of an unknown kind",
        }.get(self.kind, self.kind)
        if self.absolute and self.kind != "absolute gradient":
            name = f"absolute {name}"
        if self.kind == "unknown":
            return name
        of = self.of if self.of.startswith("output ") or self.of == "each output" else f"the {self.of}"
        return f"{name} of {of}{self._from()}" + (f", {_SCALED[self.normalised]}" if self.normalised else "")

    def _from(self) -> str:
        if self.baseline is None:
            return ""
        if self.kind == "SHAP-like":
            return f" with base value {float(self.baseline):.4g}"
        first = float(np.ravel(self.baseline)[0])
        constant = np.allclose(self.baseline, first, atol=1e-6)
        return f" from the baseline {round(first, 6):g}" if constant else " from a baseline that was found"
