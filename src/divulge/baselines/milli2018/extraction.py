"""A two-layer ReLU network from its gradients, as published: the baseline (Milli et al. 2018, arXiv:1807.05185)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from divulge.baselines.milli2018 import bisection
from divulge.contract import (
    Array,
    Baseline,
    Context,
    Finding,
    Gradients,
    Score,
    Truth,
    Verdict,
    Weights,
    option_class,
    taxonomies,
)
from divulge.errors import AttackFailed, NotApplicable
from divulge.solvers.piecewise import explanation_kind
from divulge.solvers.shared import affine

AGREES = 1e-2  # relative error up to which a copy counts as one, beyond what rounded answers hide
EXACT = 1e-6  # what answers in single precision allow
HOMOGENEOUS = 1e-5  # of their size: so far may f(2x) be from 2f(x) in single precision
DOUBLED = 4  # points at which that is asked
FRESH = 1000  # points at which the truth is compared with the copy; they cost no query
ERROR = "relative error at fresh points"
MEAN = "answering the mean"
ONE_A_QUERY = "values alone, where each of a unit's d + 1 numbers takes a query"


@option_class
class PublishedExtraction(Baseline[Gradients, Weights]):
    """Bisect one random line for the kinks of a network without biases, as Algorithm 1 of the paper does."""

    name: ClassVar[str] = "published-extraction"
    paper: ClassVar[str] = "Milli et al. 2018, Model Reconstruction from Model Explanations, arXiv:1807.05185"
    taxonomy = taxonomies.EXTRACTION
    remedy: ClassVar[tuple[str, ...]] = (
        "Count the weights of a small network as public once it answers raw gradients.",
        "Do not take this attack's failure for safety: it is a baseline, and stronger attacks need neither the number of "
        "units nor the absence of biases.",
    )

    units: PositiveInt = 10
    "How many hidden units there are (h): the algorithm has to be told."
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.1
    "The probability of failure that the resolution of the search is set for (δ)."
    collinearity: Annotated[float, Field(gt=0, le=1)] = 0.5
    "No two units' directions have a cosine above 1 less this (c)."
    membership: bool = False
    "Ask for values only, d + 1 of them where the algorithm wants a gradient (Algorithm 1-MQ)."
    checks: Annotated[int, Field(ge=4)] = 40
    "How many fresh points have to agree with the copy."

    def run(self, held: Gradients, context: Context) -> Finding[Weights]:
        if self.units > held.dimension:
            raise NotApplicable(
                f"{self.units} units in {held.dimension} dimensions cannot be linearly independent, as the algorithm needs"
            )
        X = context.rng.standard_normal((self.checks, held.dimension))
        values = _scalar(held, X)
        if np.ptp(values) == 0:
            raise NotApplicable(f"the model gives the same answer at {len(X)} points: there is nothing to find")
        before = context.budget.points
        try:
            copy = context.once("copy", lambda rng: self._copy(held, rng))
        except bisection.Failure as reason:
            raise self._explained(held, X, values, str(reason), context) from None
        queries = context.budget.points - before
        loot = Weights(((copy["hidden"], np.zeros(len(copy["hidden"]))), (copy["out"][None], np.zeros(1))))
        apart = np.abs(loot.predict(X)[:, 0] - values)
        error = _size(apart) / float(np.std(values))
        beyond = np.maximum(apart - _hidden(values), 0) / np.std(values)
        if _size(beyond) > AGREES:
            why = f"the copy is {error:.2g} off at {len(X)} fresh points, where a constant is 1 off"
            raise self._explained(held, X, values, why, context)
        loot = replace(loot, exact=error <= EXACT, agreement=float(np.mean(beyond <= AGREES)))
        law = self.units * max(1.0, float(np.log2(self.units)))
        kind = "values" if self.membership else "gradients and values"
        return Finding.leak(
            loot,
            f"The {self.units} hidden units follow from {queries} {kind}, {queries / self.units:.1f} a unit; "
            f"the copy agrees with {len(X)} fresh answers to {error:.0e}.",
            scores={
                "queries per unit": Score(
                    queries / self.units, held.dimension + 1.0, ONE_A_QUERY, better="lower", speaks=False
                ),
                "queries over h log2 h": Score(
                    queries / law, (held.dimension + 1) * self.units / law, ONE_A_QUERY, better="lower", speaks=False
                ),
                ERROR: Score(error, 1.0, MEAN, better="lower"),
            },
            notes=(
                f"The {len(X)} check points come on top of these queries.",
                "A unit is known up to a positive factor, which moves between its layers: outputs are -1 and 1 here.",
            ),
        )

    def score(self, finding: Finding[Weights], held: Gradients, truth: Truth) -> Finding[Weights]:
        known, loot = truth.get(Weights), finding.loot
        if known is None or loot is None:
            return finding
        if known.dimension != loot.dimension or len(known.layers[-1][0]) != 1:
            note = f"The true network has layers {_widths(known)}, this one {_widths(loot)}: they cannot be compared."
            return replace(finding, notes=(*finding.notes, note))
        X = np.random.default_rng(0).standard_normal((FRESH, loot.dimension))
        true = known.predict(X)[:, 0]
        error = _size(loot.predict(X)[:, 0] - true) / (float(np.std(true)) or 1.0)
        finding = replace(finding, scores={**finding.scores, ERROR: Score(error, 1.0, MEAN, better="lower")})
        if error > AGREES:
            summary = f"{finding.summary} The true network is {error:.2g} off: this is wrong, or the truth is another's."
            finding = replace(finding, verdict=Verdict.FAILED, summary=summary)
        return finding

    def _copy(self, held: Gradients, rng: np.random.Generator) -> dict[str, Any]:
        plan = bisection.planned(self.units, self.delta, self.collinearity)

        def value(X: Array) -> Array:
            return _scalar(held, X)

        def gradient(X: Array) -> Array:
            return _single(held.gradient(X), "gradients")

        oracle = bisection.from_values(value, plan.step) if self.membership else bisection.from_gradients(gradient)
        hidden, out = bisection.learn(value, oracle, held.dimension, self.units, plan, rng)
        return {"hidden": hidden, "out": out}

    def _explained(
        self, held: Gradients, X: Array, values: Array, reason: str, context: Context
    ) -> NotApplicable | AttackFailed:
        """Why the algorithm did not get there: an assumption that does not hold, or its own limits."""
        doubled = _scalar(held, 2 * X[:DOUBLED])
        hidden = _hidden(doubled) + 2 * _hidden(values[:DOUBLED])
        if (np.abs(doubled - 2 * values[:DOUBLED]) - hidden).max() > HOMOGENEOUS * np.abs(doubled).max():
            return NotApplicable(
                "the answers do not double with the point: the network has biases, or its answers are altered, and the "
                f"algorithm is for neither ({reason})"
            )
        if self.membership:
            return AttackFailed(reason)
        found = held.explanation or explanation_kind.probe(held.value, held.gradient, held.dimension, context.rng)
        if found.kind == "unknown":
            return AttackFailed(
                f"{reason}; values and explanations do not fit each other, so one is rounded, noisy or another's"
            )
        if not found.raw:
            return NotApplicable(f"the explanations are {found}, and the algorithm needs raw gradients ({reason})")
        return AttackFailed(reason)


def _scalar(held: Gradients, X: Array) -> Array:
    return _single(held.value(X), "values").reshape(len(X))


def _single(answer: Array, what: str) -> Array:
    """Answers of a model with one output, without the axis of outputs."""
    answer = np.asarray(answer, float)
    axis = answer.ndim - (2 if what == "gradients" else 1)
    if axis == 1 and answer.shape[1] != 1:
        raise NotApplicable(f"the {what} are of {answer.shape[1]} outputs, and the algorithm is for a network with one")
    return answer.reshape(len(answer), -1)


def _hidden(values: Array) -> Array:
    """How far each value may be from what it was before it was rounded, read off the values themselves."""
    return affine.resolution(values).of(values, np.abs(values))


def _size(errors: Array) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _widths(network: Weights) -> str:
    return "-".join(str(width) for width in (network.dimension, *(len(W) for W, _ in network.layers)))
