"""A learner's objective at its learned parameters, and what an estimator says of its penalty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from divulge.contract import Array, Fitted, Kernel, Score, Verdict
from divulge.errors import BadInput
from divulge.learners.catalogue import learner_named
from divulge.learners.records import Learner
from divulge.solvers.stationarity import system as stationarity
from divulge.solvers.stationarity.precision import HeldTable
from divulge.solvers.stationarity.refit import Trainer
from divulge.solvers.stationarity.svm import Hinge
from divulge.solvers.stationarity.system import Estimate, System

ROUNDING = 100.0  # times machine precision: of 838 intercepts the worst balanced to 20, of 920 direct fits 99 % left 40
SHARP = 1e-9  # relative half-width of an interval that needs no second opinion: nine digits

Intervals = dict[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class StationarityProblem:
    """A learner's objective at its learned parameters."""

    fitted: Fitted
    penalties: tuple[str, ...]
    systems: list[System]
    "One an output; they should share their penalties. None for support vector machines."
    trainer: Trainer
    observed: Array
    "The learned parameters in one row, as the trainer would return them."
    weight: Array
    "Sample weights times class weights."
    total: float = 1.0
    "What the loss is divided by."
    start_size: float = 0.0
    "Size of the loss gradient at w = 0, on the same scale."
    direct: bool = False
    "Whether the solver leaves nothing but rounding errors."
    centred: bool = False
    "Whether the intercept was worked out at the end, so that it balances however early the solver stopped."
    stopped: float = 0.0
    "The largest entry of the gradient with which the solver was content; 0 where that is not known."
    hinges: list[Hinge] = field(default_factory=list)
    auxiliary: dict[str, tuple[float, float]] = field(default_factory=dict)
    "Other hyperparameters, found on the way: value and half its interval."
    decimals: int | None = None
    "After how many digits the parameters were cut off."
    table: HeldTable | None = None
    "The data of a squared loss, for which weaker premises than full precision can be written down."
    premise: str = ""
    "What is taken for granted beyond the equations, where those in full precision do not hold."
    off: float = 0.0
    "How far an equation may be off under that premise, in its units."

    @cached_property
    def system(self) -> System:
        return stationarity.stacked(self.systems)

    @property
    def learner(self) -> Learner:
        return learner_named(self.fitted.learner)

    @property
    def unit(self) -> str:
        """The learner's own name for the size of the penalty: alpha, C or weight_decay."""
        return self.learner.unit

    @property
    def title(self) -> str:
        return self.learner.title

    @property
    def names(self) -> tuple[str, ...]:
        """Every hyperparameter asked for."""
        ratio = ("l1_ratio",) if len(self.penalties) == 2 else ()
        return (self.unit, *ratio, *self.auxiliary)

    @property
    def intercepts(self) -> int:
        """Parameters that follow from the others, and confirm nothing."""
        return 0 if self.fitted.intercept is None else self.fitted.intercept.size

    @property
    def unbalanced(self) -> bool:
        """Whether an intercept was worked out, but on other data than this."""
        if not self.centred:
            return False
        if self.premise:
            return bool((np.abs(self.system.check) > self.off).any())
        rounding = ROUNDING * self.system.epsilon * float(self.system.magnitude.max()) + self.system.noise
        return bool((np.abs(self.system.check) > rounding).any())

    @property
    def in_full(self) -> bool:
        """Whether the parameters are those that were learned, to the last digit."""
        return self.decimals is None and not self.fitted.precision

    @property
    def cut(self) -> Array | None:
        """Half a unit of the last digit that was kept, for every parameter."""
        return None if self.decimals is None else np.full(len(self.observed), 0.5 * 10.0**-self.decimals)

    def in_own_units(self, estimate: Estimate) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
        """Values and intervals as the estimator's own constructor would take them."""
        parts = estimate.values / self.total
        covariance = estimate.covariance / self.total**2
        size = float(parts.sum()) or np.finfo(float).tiny
        spread = float(np.sqrt(covariance.sum())) if len(parts) > 1 else float(np.sqrt(covariance[0, 0]))
        values, intervals = {self.unit: size}, {self.unit: (size - spread, size + spread)}
        if self.unit == "C":
            low, high = intervals["C"]
            values, intervals = {"C": 1 / size}, {"C": (1 / high if high > 0 else np.inf, 1 / low if low > 0 else np.inf)}
        if len(parts) == 2:
            gradient = np.array([parts[1], -parts[0]]) / size**2
            ratio, half = float(parts[0]) / size, float(np.sqrt(gradient @ covariance @ gradient))
            low, high = np.clip([ratio - half, ratio + half], 0, 1).tolist()
            values["l1_ratio"], intervals["l1_ratio"] = float(np.clip(ratio, 0, 1)), (low, high)
        for name, (value, half) in self.auxiliary.items():
            values[name], intervals[name] = value, (value - half, value + half)
        return values, intervals


@dataclass(frozen=True, eq=False)
class Answer:
    """What one estimator says."""

    estimator: str
    verdict: Verdict
    why: str
    "Why it is believed, or not: the rest of a sentence about the model."
    values: dict[str, float] = field(default_factory=dict)
    intervals: Intervals = field(default_factory=dict)
    power: str = ""
    scores: Mapping[str, Score] = field(default_factory=dict)
    exact: bool = False
    "Whether training again gave the same parameters."
    unidentifiable: bool = False
    "Whether it is certain that no training on this data gave these parameters."

    @property
    def width(self) -> float:
        """Half the interval of the least certain value, relative to it."""
        widths = [(high - low) / 2 / (abs(self.values[name]) or 1) for name, (low, high) in self.intervals.items()]
        return max(widths, default=np.inf)

    def settled(self, name: str) -> bool:
        """Whether one value is as good as known."""
        low, high = self.intervals.get(name, (-np.inf, np.inf))
        return (high - low) / 2 <= SHARP * abs(self.values.get(name, 0))

    @property
    def line(self) -> str:
        """The answer in one line of a list."""
        if not self.values:
            return f"{self.estimator}: {self.why}"
        ends = ", ".join(
            f"{name} = {value:.6g} ({self.intervals[name][0]:.6g} to {self.intervals[name][1]:.6g})"
            for name, value in self.values.items()
        )
        return f"{self.estimator}: {ends}; {self.why}"


def named_kernel(fitted: Fitted) -> Kernel:
    """The kernel of a model, or what to pass instead."""
    kernel = fitted.kernel
    if kernel is None or kernel.name not in stationarity.KERNELS:
        got = "none" if kernel is None else repr(kernel.name)
        raise BadInput(f"expected a kernel out of {', '.join(stationarity.KERNELS)}, got {got}; pass kernel=Kernel(name)")
    return kernel


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
