"""What a record of a learner holds: its objective, the classes that fit it, and how those are trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

Form = Literal["linear", "kernel", "support vectors", "network"]
Targets = Literal["numbers", "classes", "either"]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Estimator:
    """A class that fits a learner, and how it is read."""

    path: str
    "Where it is imported from, once it is used."
    secrets: Mapping[str, str]
    "Hyperparameter -> the attribute it is kept in."
    settings: tuple[str, ...] = ()
    "Arguments that are commonly known. A hyperparameter must never be listed here: an attack reads these."
    learns: tuple[str, ...] = ()
    "What it learns besides coefficients, without the underscore at the end."
    replayed: bool = True
    "Whether fitting the plain estimator again, with the hyperparameter found, does what this class did last."
    fixed: Settings = field(default_factory=dict)
    "Settings that the class itself decides."

    @property
    def title(self) -> str:
        return self.path.rpartition(".")[2]

    def load(self) -> Any:
        """The class itself."""
        module, _, name = self.path.rpartition(".")
        return getattr(import_module(module), name)


@dataclass(frozen=True)
class Setup:
    """A learner as scikit-learn sets it up by default."""

    title: str
    settings: Settings = field(default_factory=dict)
    contains: tuple[str, ...] = ()
    "Titles of plainer set-ups that this one contains: it is only named where they do not do."
    dual: bool = False
    "Whether what is known of it are its dual coefficients."


@dataclass(frozen=True)
class Learner:
    """An objective Σ loss(f(x), y) + penalty, and what fits it."""

    name: str
    estimator: Estimator | None
    "None where no class of scikit-learn's, nor of ours, trains it."
    form: Form = "linear"
    "What the parameters are: f = Xw + c, f = Kα for all points, the same for support vectors, or layers."
    targets: Targets = "numbers"
    variants: tuple[Estimator, ...] = ()
    "Other classes that end in the same objective, as those that choose its penalty by cross-validation."

    loss: str = ""
    "By the solvers' names; empty where the settings or the outputs decide."
    losses: Mapping[str, str] = field(default_factory=dict)
    "What its setting `loss` may be -> the solvers' name."
    multiclass: str = ""
    "The loss with more than two classes, where they share one; else each class has a model against the rest."
    penalty: Literal["l1", "l2", "elasticnet"] = "l2"
    "Unless its settings say otherwise."
    penalty_is_ratio: bool = False
    "Whether l1_ratio alone says which penalty it is: 0 for L2, 1 for L1."
    unit: str = "alpha"
    "What it calls the size of its penalty; C is the inverse."
    averaged: bool = False
    "Whether the loss is divided by the total weight of the points."
    decays_biases: bool = False
    "Whether the penalty of a network counts its biases."
    one_vs_rest: bool = False
    "Whether it weighs classes output by output where there are more than two."
    wrapped: bool = False
    "Whether a OneVsRestClassifier around it is read."

    solver: str = ""
    "The solver, where its settings name none."
    stops_by_gradient: tuple[str, ...] = ()
    "Solvers that end where no entry of the mean gradient exceeds `tol`."
    stochastic: bool = False
    "Whether its training draws random numbers, whatever its solver."
    tight: tuple[tuple[Settings, Settings], ...] = ()
    "(where the settings are these, those that go on to the minimum); the first that fits counts."
    no_path: str = ""
    "Why its minima are no path that the penalty alone decides; empty where they are."

    setups: tuple[Setup, ...] = ()
    "What parameters of unknown origin are compared with."
    tuning: Settings | None = None
    "Arguments with which it is tuned by cross-validation; None where it is not."
    differentiated: bool = False
    "Whether `solvers.bilevel` differentiates its training."

    @property
    def classifier(self) -> bool:
        return self.targets == "classes"

    @property
    def regression(self) -> bool:
        return self.targets == "numbers"

    @property
    def title(self) -> str:
        """Its name in a sentence."""
        return self.name.replace("_", " ")

    @property
    def path(self) -> str:
        """Where its estimator is imported from; empty where there is none."""
        return self.estimator.path if self.estimator else ""

    @property
    def settled(self) -> bool:
        """Whether there is only one way to train it: its estimator has no setting that matters."""
        return self.estimator is not None and not self.estimator.settings

    def solver_in(self, settings: Settings) -> str | None:
        """The solver that its settings name, or the only one."""
        solver: str | None = settings.get("solver", self.solver or None)
        return solver
