"""Defences that change how the model is asked: around the point instead of at it, or not any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from divulge.contract import Array, Gradients, Predictions, option_class
from divulge.defences.answers import Ask, changed
from divulge.defences.draws import generator
from divulge.errors import TargetFailed

P = TypeVar("P", bound=Predictions)


@option_class
class SmoothGrad:
    """The mean of gradients around the point (Smilkov et al. 2017, arXiv:1706.03825)."""

    sigma: PositiveFloat
    "How far around, in the units of the inputs."
    samples: PositiveInt = 10
    "Gradients a mean."
    fresh: bool = False
    "True draws the points around anew for every query; else a point gets the same answer each time."

    def guard(self, access: P, seed: int) -> P:
        stream = np.random.default_rng(seed)

        def smoothed(ask: Ask, what: str) -> Ask:
            def around(x: Array) -> Array:
                rng = stream if self.fresh else generator(seed, what, x)
                return np.asarray(x + self.sigma * rng.standard_normal((self.samples, len(x))))

            return lambda X: np.stack([np.mean(ask(around(x)), axis=0) for x in X])

        return changed(access, "gradients", smoothed)


@option_class
class QueryLimit:
    """No answer after so many points.

    The limit holds for all attacks of an audit together, as for one customer of a service. It is counted in memory, so a run
    that is resumed begins a new count. A request that does not fit any more is refused as a whole.
    """

    points: PositiveInt
    "How many points are answered; the value and the gradient of one count once."

    def guard(self, access: P, seed: int) -> P:
        return self.counted(access)[0]

    def counted(self, access: P) -> tuple[P, Count]:
        """The API behind a limit, and what counts how far it is."""
        count = Count(self.points)
        parts: dict[str, Any] = {"value": count.of("value", access.value)}
        if isinstance(access, Gradients):
            parts["gradient"] = count.of("gradient", access.gradient)
        return replace(access, **parts), count


class Count:
    """Points that were answered, until no more are."""

    def __init__(self, limit: int) -> None:
        self.limit, self.answered = limit, 0
        self.reached = self.lifted = False
        self.last: tuple[str, bytes] | None = None

    def of(self, what: str, ask: Callable[[Array], Array]) -> Ask:
        def limited(X: Array) -> Array:
            where = np.ascontiguousarray(X).tobytes()
            both = self.last is not None and self.last[0] != what and self.last[1] == where
            if not both and not self.lifted and self.answered + len(X) > self.limit:
                self.reached = True
                raise TargetFailed(
                    f"the API answers {self.limit} points, {self.answered} were answered and {len(X)} more were asked; "
                    "an attack has to do with fewer queries"
                )
            self.answered += 0 if both else len(X)
            self.last = None if both else (what, where)
            return ask(X)

        return limited
