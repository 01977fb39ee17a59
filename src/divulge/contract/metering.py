"""Counts what is asked of a target, and checks what it answers, before an attack sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from divulge.arrays import Array
from divulge.contract.access import Access, Gradients, Predictions
from divulge.contract.context import Budget
from divulge.errors import BadInput, NotApplicable


def metered(access: Access, budget: Budget) -> Access:
    """Count every point asked of a target, and check every answer, before the attack sees it."""
    if isinstance(access, Gradients):
        meter = _Meter(access, budget)
        return replace(access, value=meter.of("value", access.value), gradient=meter.of("gradient", access.gradient))
    if isinstance(access, Predictions):
        return replace(access, value=_Meter(access, budget).of("value", access.value))
    return access


class _Meter:
    """Counts points. One asked for its value and then for its gradient, or the other way round, is one query."""

    def __init__(self, access: Predictions, budget: Budget) -> None:
        self.access, self.budget = access, budget
        self.paid: tuple[str, Array] | None = None
        "What was asked last, and where."
        self.shapes: dict[str, tuple[int, ...]] = {}

    def _count(self, points: int) -> None:
        if self.access.service is None:
            self.budget.spend(points)
        else:  # its rows are charged when they are sent
            self.budget.check()
            self.budget.points += points

    def of(self, what: str, ask: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def asked(X: Array) -> Array:
            X = np.atleast_2d(X)
            if X.shape[1] != self.access.dimension:
                raise BadInput(
                    f"expected query points of width {self.access.dimension}, got {X.shape[1]}; check the target's dimension"
                )
            if self.paid is not None and self.paid[0] != what and np.array_equal(self.paid[1], X):
                self.budget.check()
                self.paid = None
            else:
                self._count(len(X))
                self.paid = what, X.copy()
            answer = np.asarray(ask(X))
            if answer.shape[:1] != (len(X),):
                raise NotApplicable(
                    f"the target answered shape {answer.shape} to {len(X)} points; one row for each was expected"
                )
            before = self.shapes.setdefault(what, answer.shape[1:])
            if answer.shape[1:] != before:
                raise NotApplicable(
                    f"the target answered rows of shape {answer.shape[1:]}, and of shape {before} before; "
                    "one shape was expected"
                )
            if not np.isfinite(answer).all():
                raise NotApplicable("the target answered NaN or infinite values; nothing can be concluded from those")
            return answer

        return asked
