"""Defences that change the answer to a query: fewer digits, noise, no signs, one class only, the class alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, cast

import numpy as np
from pydantic import Field

from divulge.contract import Access, Array, Gradients, Predictions, option_class
from divulge.defences.draws import generator
from divulge.defences.released import released
from divulge.errors import BadInput
from divulge.solvers.shared.rounding import significant

A = TypeVar("A", bound=Access)
P = TypeVar("P", bound=Predictions)
Ask = Callable[[Array], Array]
Part = Literal["all", "values", "gradients"]

TYPICAL = 64
"Standard normal points at which the owner looks how large answers usually are: one output to a tenth."


@option_class
class Rounding:
    """Fewer digits."""

    decimals: Annotated[int, Field(ge=0, le=300)] | None = None
    "Digits after the point."
    digits: Annotated[int, Field(ge=1, le=17)] | None = None
    "Significant digits."
    of: Part = "all"
    "What is rounded."

    def check(self) -> None:
        if (self.decimals is None) == (self.digits is None):
            given = "neither" if self.digits is None else "both"
            raise BadInput(
                f"expected one of decimals and digits for rounding, got {given}; write rounding=3 for three digits"
            )

    def guard(self, access: P, seed: int) -> P:
        return changed(access, self.of, lambda ask, _: lambda X: self.rounded(ask(X)))

    def release(self, access: A, seed: int) -> A:
        return released(access, self.rounded)

    def rounded(self, answer: Array) -> Array:
        if self.decimals is not None:
            return np.asarray(np.round(answer, self.decimals))
        return significant(answer, cast(int, self.digits))


@option_class
class Noise:
    """Gaussian noise on every number."""

    sigma: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    "Its standard deviation, in units of what the answers usually are; of released numbers, of the largest."
    fresh: bool = False
    "True draws it anew for every query, which an attacker averages away; else a point gets the same noise each time."
    of: Part = "all"
    "What gets noise."

    def guard(self, access: P, seed: int) -> P:
        stream = np.random.default_rng(seed)

        def noisy(ask: Ask, what: str) -> Ask:
            @cache
            def size() -> float:
                answers = ask(np.random.default_rng(0).standard_normal((TYPICAL, access.dimension)))
                return float(np.sqrt(np.mean((answers - (answers.mean(0) if what == "values" else 0)) ** 2)))

            def answer(X: Array) -> Array:
                said = np.asarray(ask(X), float)
                if self.fresh:
                    drawn = stream.standard_normal(said.shape)
                else:
                    drawn = np.stack([generator(seed, what, x).standard_normal(said.shape[1:]) for x in X])
                return said + self.sigma * size() * drawn

            return answer

        return changed(access, self.of, noisy)

    def release(self, access: A, seed: int) -> A:
        """Drawn once, in units of the largest number of each array."""
        rng = np.random.default_rng(seed)

        def noisy(values: Array) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):
                changed = values + self.sigma * np.abs(values).max(initial=0) * rng.standard_normal(values.shape)
            if not np.isfinite(changed).all():
                raise BadInput(f"expected noise that leaves numbers finite, got sigma = {self.sigma:g}; give less")
            return np.asarray(changed)

        return released(access, noisy)


@option_class
class Absolute:
    """Gradients without their signs, as saliency maps show them."""

    def guard(self, access: P, seed: int) -> P:
        return changed(access, "gradients", lambda ask, _: lambda X: np.abs(ask(X)))


@option_class
class TopClass:
    """The gradient of the largest output only, instead of every output's."""

    def guard(self, access: P, seed: int) -> P:
        def largest(ask: Ask, _: str) -> Ask:
            def answer(X: Array) -> Array:
                top = np.asarray(access.value(X)).reshape(len(X), -1).argmax(axis=1)
                return np.asarray(np.asarray(ask(X))[np.arange(len(X)), top])

            return answer

        guarded = changed(access, "gradients", largest)
        if np.ndim(cast(Gradients, access).gradient(np.zeros((1, access.dimension)))) != 3:
            raise BadInput(
                "expected gradients of several outputs to keep one of, got those of one; defend a scalar otherwise"
            )
        return guarded


@option_class
class LabelOnly:
    """The class instead of any numbers: −1 or 1 for one output, 1 for the largest of several and 0 for the rest."""

    threshold: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    "Of one output, above which it is the second class; 0.5 where it is a probability."

    def guard(self, access: P, seed: int) -> P:
        if isinstance(access, Gradients):
            raise BadInput("expected an API of values to answer with classes alone, got gradients; hold predictions of it")

        def named(ask: Ask, _: str) -> Ask:
            def answer(X: Array) -> Array:
                said = np.asarray(ask(X), float)
                if said.ndim == 1 or said.shape[1] == 1:
                    return np.where(said > self.threshold, 1.0, -1.0)
                return np.asarray(np.eye(said.shape[1])[said.argmax(axis=1)])

            return answer

        return changed(access, "values", named)


def changed(access: P, part: Part, change: Callable[[Ask, str], Ask]) -> P:
    """The same access with what it answers changed, by a function of (how it was asked, what it answers)."""
    if part == "gradients" and not isinstance(access, Gradients):
        raise BadInput("this defence changes gradients, got an API of values only; hold gradients of it")
    others: dict[str, Any] = {}
    if part != "gradients":
        others["value"] = change(access.value, "values")
    if isinstance(access, Gradients) and part != "values":
        others["gradient"] = change(access.gradient, "gradients")
        others["explanation"] = None  # what was known of the kind is so no more
    return replace(access, **others)
