"""What explanations are, by as few questions as tell it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from divulge.contract import Array, Explanation, Gradients
from divulge.errors import NotApplicable
from divulge.explanations import Kind, Normalised
from divulge.solvers.directions.explanations import FLOOR, NODES, Reading, kind_of_values, weights_of
from divulge.solvers.piecewise import explanation_kind, links

NEAR = (1e-5, 1e-2, 0.1)
"Of a point's size: how far a neighbour is whose value tells the slope; further where numbers are rounded."
RISES = 0.2
"Of the rise of values, by which a slope may be off: kinks between neighbours; other kinds of explanations are off by more."
CLOSELY = 0.02
"The same for gradient × input, which attributions along a path with few kinks are like."
ROUGHLY = 0.75
"The same for means of gradients over neighbours, which are read like gradients."
ADDS_UP = 0.1
"Of the rise from a baseline, by which attributions may be off: servers sum a few dozen terms."
EVEN = 1e-6  # of 1, by which largest entries, lengths or sums of normalised explanations differ
TRIED = 4
"Points that are looked at where one output is explained: which it is, and whether a number from 0 to 1 is a probability."

READ: tuple[Kind, ...] = ("gradient", "gradient times input")
"Kinds that say how values rise to a neighbour."

_HIDDEN = {
    "absolute gradient": "without signs they are no combinations of the first layer's rows",
    "SHAP-like": "sums over many baselines cannot be divided by the distance from one",
    "unknown": "nothing can be concluded from them",
}


@dataclass(eq=False)
class Service:
    """A service that explains, as rows; it is asked for value and explanation of a point at once."""

    held: Gradients
    more: Callable[[int], Array]
    "Makes so many more points."
    rng: np.random.Generator
    reading: Reading | None = None
    single: bool = False
    probing: bool = True
    "Whether hundreds of questions may be asked where few do not tell what explanations are."
    asked: int = 0
    "Points that were explained."
    outputs: int = 0
    "Of the model, as its values have them."

    def rows(self, count: int) -> Array:
        """Rows (k, d + 1) of so many more answers."""
        X = self._sent(self.more(count))
        A, E = self._ask(X)
        if self.reading is None:
            self.single = links.single(A, E)
            if E.shape[1] == 1 and len(X) < TRIED:
                others = self.more(TRIED - len(X))
                X, (A, E) = np.concatenate([X, others]), map(np.concatenate, zip((A, E), self._ask(others), strict=True))
            self.reading = self._read(X, A, E)
        self.asked += len(X)
        if self.reading.answers == "probability" and kind_of_values(A) != "probability":
            self.reading = replace(self.reading, answers="scores", scores_explained=True)
        if self.reading.said.normalised:
            E = E * self._lengths(X, A, E)
        along = None
        if self.reading.path:
            along = self._values(self._sent(self.reading.nodes(X))).reshape(len(X), NODES, -1)
        mean = 0.0 if self.held.mean is None else self.held.mean
        return self.reading.rows(X, A, E, mean, along)

    def _sent(self, X: Array) -> Array:
        """As a server of single precision will see them."""
        return X.astype(np.float32).astype(float) if self.single else X

    def _values(self, X: Array) -> Array:
        return np.asarray(self.held.value(X), dtype=float).reshape(len(X), -1)

    def _ask(self, X: Array) -> tuple[Array, Array]:
        A, E = self._values(X), np.asarray(self.held.gradient(X), dtype=float)
        self.outputs = A.shape[1]
        return A, E[:, None, :] if E.ndim == 2 else E.reshape(len(X), -1, X.shape[1])

    def _read(self, X: Array, A: Array, E: Array) -> Reading:
        if not E.any():
            raise NotApplicable("the gradient is 0 wherever it was asked for: there is nothing to find")
        said = self.held.explanation
        if said is None or (said.of == "only output" and A.shape[1] > 1):
            said = self._recognised(X, A, E, said)
        refuse(said)
        answers = kind_of_values(A)
        of_scores = answers == "scores" or (answers == "probabilities" and E.shape[1] > 1 and not _adds_to_nothing(E))
        if answers != "scores" and E.shape[1] == 1:
            of_scores = False
        return Reading(said, answers, of_scores)

    def _recognised(self, X: Array, A: Array, E: Array, told: Explanation | None) -> Explanation:
        """The kind that agrees with how values rise towards a neighbour; by many questions where none does."""
        normalised = _normalised(E)
        each = "each output" if A.shape[1] > 1 else "only output"
        places = ("top output", *(f"output {number}" for number in range(A.shape[1])), "sum of outputs")
        options = (each,) if E.shape[1] == A.shape[1] else places
        tried: list[tuple[float, Explanation]] = []
        for step in NEAR[self.single :]:
            near = self._neighbours(X, E, step)
            there = self._values(near)
            now = [
                min(
                    ((_mismatch(one, X, A, E, near, there), one) for one in _guesses(kind, options, "", len(X))),
                    key=lambda pair: pair[0],
                )
                for kind in READ
            ]
            tried = now if not tried or min(off for off, _ in now) < min(off for off, _ in tried) else tried
            if tried[0][0] <= RISES or tried[1][0] <= RISES:
                break
        if told is not None:
            return replace(told, of=tried[told.kind == "gradient times input"][1].of)
        (slope, gradient), (scaled, multiplied) = tried
        if slope <= RISES:
            return gradient
        if normalised:
            scaled_alike = _guesses("gradient", options, normalised, len(X))
            return min(scaled_alike, key=lambda one: _mismatch(one, X, A, E, near, there))
        if scaled <= CLOSELY:
            return multiplied
        if (E >= 0).all():
            return Explanation("absolute gradient", absolute=True, points=len(X))
        base = self._values(0 * X[:1])
        for of in options:
            said = Explanation("integrated gradients", of=of, baseline=0.0, points=len(X))
            if _complete(said, A, base, E):
                return said
        if scaled <= RISES:
            return multiplied
        if slope <= ROUGHLY:
            return replace(gradient, kind="smoothed gradient")
        if not self.probing:
            return Explanation("unknown", agreement=0.0)
        return explanation_kind.probe(self.held.value, self.held.gradient, self.held.dimension, self.rng)

    def _neighbours(self, X: Array, E: Array, share: float) -> Array:
        """Points a little along the explanation of one output, so much of their own size."""
        step = share * np.linalg.norm(X, axis=1, keepdims=True)
        along = E[:, 0] if E.shape[1] == 1 else E[np.arange(len(E)), np.linalg.norm(E, axis=2).argmax(axis=1)]
        return self._sent(X + step * along / np.linalg.norm(along, axis=1, keepdims=True))

    def _lengths(self, X: Array, A: Array, E: Array) -> Array:
        """(n, explained, 1): what normalised explanations have to be multiplied by, from how values rise."""
        near = self._neighbours(X, E, NEAR[self.single])
        seen = self._values(near) - A
        weights = weights_of(self.reading.said, A) if self.reading is not None else None
        seen = seen if weights is None else (seen * weights).sum(1, keepdims=True)
        along = np.einsum("nod,nd->no", E, near - X)
        return np.asarray(seen / np.where(along == 0, np.inf, along))[:, :, None]


def _guesses(kind: Kind, outputs: Sequence[str], normalised: Normalised, points: int) -> list[Explanation]:
    return [Explanation(kind, of=of, normalised=normalised, points=points) for of in outputs]


def refuse(said: Explanation) -> None:
    """Not applicable to what is no combination of gradients."""
    why = _HIDDEN["absolute gradient"] if said.absolute else _HIDDEN.get(said.kind, "")
    if said.normalised == "range" and not why:
        why = "stretched from 0 to 1 they have lost what 0 was"
    if why:
        raise NotApplicable(f"gradients, or means of them, are needed, and the service gives this instead: {said}; {why}")


def _adds_to_nothing(E: Array) -> bool:
    """Whether explanations of all outputs cancel, as gradients of probabilities do."""
    return bool(np.abs(E.sum(axis=1)).max() <= 1e-4 * np.abs(E).max())


def _mismatch(said: Explanation, X: Array, A: Array, E: Array, near: Array, there: Array) -> float:
    """By how much values rise otherwise to neighbours than explanations say, of what they rise by, at most points.

    Where lengths are missing, they are what fits best.
    """
    G = E / X[:, None, :] if said.kind == "gradient times input" else E
    expected, seen = np.einsum("nod,nd->no", G, near - X), there - A
    weights = weights_of(said, A)
    seen = seen if weights is None else (seen * weights).sum(1, keepdims=True)
    if kind_of_values(A) == "probabilities" and weights is None and not _adds_to_nothing(E):
        logs = np.log(np.maximum(there, FLOOR)) - np.log(np.maximum(A, FLOOR))
        seen, expected = logs - logs.mean(1, keepdims=True), expected - expected.mean(1, keepdims=True)
    if said.normalised:
        return 0.0 if (seen * expected > 0).mean() > RISES else 1.0
    off = np.abs(seen - expected).max(axis=1) / np.maximum(np.abs(seen).max(axis=1), 1e-300)
    return float(np.median(off))


def _complete(said: Explanation, A: Array, base: Array, E: Array) -> bool:
    weights = weights_of(said, A)
    rise = A - base if weights is None else ((A - base) * weights).sum(1, keepdims=True)
    return bool(np.abs(E.sum(axis=2) - rise).max() <= ADDS_UP * np.abs(rise).max())


def _normalised(E: Array) -> Normalised:
    sizes: tuple[tuple[Normalised, Array], ...] = (
        ("maximum", np.abs(E).max(axis=2)),
        ("length", np.linalg.norm(E, axis=2)),
        ("sum", np.abs(E).sum(axis=2)),
    )
    for name, size in sizes:
        if np.abs(size - 1).max() < EVEN:
            return name
    return ""
