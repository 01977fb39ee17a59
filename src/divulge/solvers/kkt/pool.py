"""Several different searches for inputs that explain a network's weights, pooled.

Which of them are worth their time is learned where the truth is known: on a shadow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from divulge.arrays import Array, Layers
from divulge.solvers.images.span import Span
from divulge.solvers.kkt import descent as kkt_descent, rounds
from divulge.solvers.kkt.descent import Coordinates, Setup, State, Stationarity
from divulge.solvers.margin import kkt_residual
from divulge.solvers.shadow.shadow import Shadow
from divulge.solvers.shared import similarity

ALIKE = 0.7
"NCC with a point of the shadow from which a candidate finds it, or more where random points of the span reach that."
PHOTOGRAPH = "photograph"
"The search in coordinates in which photographs of all kinds are equally likely."
IN_ROUNDS = "in rounds"
"The search in coordinates in which the first layer counts as much in all directions, as photographs have them."
BESIDE_START = "beside the start"
"The search that takes what the start has left in the weights for noise of known size."
RARE = 0.999
"Share of random points of the span that are less like any of its points than a candidate has to be."
ROUNDS = 6  # of that search, of 200 steps each; five more images of 150 came in the third and fourth, none in the sixth
RANDOM = 2000  # of them: the two that are most alike tell that share
WAVES = 100
"For each colour: the slowest, in which 10 photographs of 32 x 32 pixels have 93 % of their energy."
COLOURS = 1.0, 0.3, 0.15
"Deviation of a photograph's grey, of red less blue, and of green less both."
SHADE = 0.22
"Deviation of a pixel of a photograph from the mean image."
AS_TORCH = 0.1
"Of a deviation 1/√(3 inputs), which torch gives a start: nearer to it than this a layer is noise of torch's start."
LOWEST = 0.5
"Of a photograph's spectrum, in periods a picture: everything slower has the same power."


def setups(steps: int, margin: float, depth: int, pictured: bool) -> dict[str, Setup]:
    """The searches that can be made, by name."""
    counts = (1.0, *(0.0,) * (depth - 2), 0.1)  # layers between the first and the last hardly leave their start
    wish: dict[str, Any] = {"margin": margin, "pull": 0.1}
    if not pictured:
        return {
            "soft": Setup(steps, softness=(30, 30), layers=counts),
            "on the margin": Setup(steps, softness=(30, 30), layers=counts, **wish),
            "hard": Setup(steps, softness=(100, 100), layers=counts),
            "hardening": Setup(steps, softness=(3, 100), layers=counts),
        }
    return {
        "smooth": Setup(steps, softness=(30, 30), layers=counts, sparse=0.3),
        "smoother": Setup(steps, softness=(30, 30), layers=counts, sparse=1.0),
        "smooth and hard": Setup(steps, softness=(100, 100), layers=counts, sparse=1.0),
        "smooth on the margin": Setup(steps, softness=(30, 30), layers=counts, sparse=1.0, **wish),
        PHOTOGRAPH: Setup(steps, rate=0.3, softness=(10, 100), layers=counts, sparse=1.0),
        IN_ROUNDS: Setup(2 * steps, softness=(30, 30), layers=counts, sparse=1.0, rounds=ROUNDS, **wish),
    }


def sides(candidates: int, outputs: int) -> Array:
    """(candidates, outputs): the sign of each multiplier, all classes in turn."""
    if outputs == 1:
        return np.where(np.arange(candidates) % 2, 1.0, -1.0)[:, None]
    return 2.0 * np.eye(outputs)[np.arange(candidates) % outputs] - 1


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """Where a network's inputs are looked for: the directions that stand out of its first layer."""

    layers: Layers
    plain: Coordinates
    photographs: Coordinates | None
    whitened: Coordinates | None
    edges: Array | None
    "(k, differences) between neighbouring pixels of the plain axes, in random order."
    beside_start: bool = False
    "Whether the start is in the weights still, as large as torch makes it: then points are looked for in slow waves."

    @classmethod
    def beside(cls, layers: Layers, shape: tuple[int, ...]) -> SearchSpace:
        """Slow waves instead of directions that stand out: of those the start hides nearly all."""
        frame, deviations = waves(shape)
        flat = np.ones(len(frame))
        likely = Coordinates(deviations[:, None] * frame, flat, frame)
        return cls(layers, Coordinates(frame, flat, frame), None, likely, None, True)

    @classmethod
    def of(cls, layers: Layers, seen: Span, shape: tuple[int, ...] | None) -> SearchSpace:
        frame = np.linalg.qr((seen.sizes[: seen.rank, None] * seen.axes)[:, :-1].T)[0].T
        rotated = np.linalg.svd(layers[0][0] @ frame.T, full_matrices=False)
        frame, sizes = rotated[2] @ frame, rotated[1]
        plain = Coordinates(frame, np.ones(len(frame)), frame)
        if shape is None:
            return cls(layers, plain, None, None, None)
        values, vectors = np.linalg.eigh(spectrum(frame, shape))
        root = (vectors * np.sqrt(np.maximum(values, 1e-6 * values[-1]))) @ vectors.T
        weights = np.sqrt(sizes[0] / np.maximum(sizes, 1e-6 * sizes[0]))
        photographs = Coordinates(root @ frame, weights, frame)
        return cls(layers, plain, photographs, whitened(frame, values, vectors), differences(frame, shape))

    def menu(self, steps: int, margin: float) -> dict[str, Setup]:
        """The searches that can be made of this network, by name."""
        if self.beside_start:
            return {BESIDE_START: self._beside_start(steps, margin)}
        return setups(steps, margin, len(self.layers), self.edges is not None)

    def _beside_start(self, steps: int, margin: float) -> Setup:
        """Each layer by the variance of its start, and points by that of photographs: the most likely ones."""
        rows = [self.layers[0][0] @ self.plain.frame.T, *(W for W, _ in self.layers[1:])]
        precise = [float((W**2).sum()) * 3 * layer[0].shape[1] for W, layer in zip(rows, self.layers, strict=True)]
        return Setup(
            steps,
            rate=0.05,
            softness=(100, 100),
            spread=0.3,
            layers=tuple(precise),
            margin=margin,
            pull=0.01,
            prior=1 / sum(precise),
        )

    @staticmethod
    def repeated(name: str) -> bool:
        """Whether a search is pooled with others of its kind from other starts."""
        return name in (IN_ROUNDS, BESIDE_START)

    def signs(self, candidates: int) -> Array:
        return sides(candidates, len(self.layers[-1][1]))

    def axes(self, name: str) -> Coordinates:
        return {PHOTOGRAPH: self.photographs, IN_ROUNDS: self.whitened, BESIDE_START: self.whitened}.get(name) or self.plain

    def objective(self, name: str) -> Stationarity:
        return Stationarity(self.layers, self.axes(name), self.menu(1, 1.0)[name].layers)

    def begin(self, name: str, setup: Setup, signs: Array, rng: np.random.Generator) -> State:
        return rounds.begin(setup, signs, len(self.plain.axes), rng) | {"name": name}

    def advance(
        self, name: str, objective: Stationarity, setup: Setup, state: State, steps: int, check: Callable[[], None]
    ) -> State:
        edges = self.edges
        if edges is not None and self.axes(name) is not self.plain:
            edges = self.axes(name).axes @ self.plain.frame.T @ edges
        advance = rounds.advance if setup.rounds > 1 else kkt_descent.advance
        return state | advance(objective, setup, state, steps, edges, check) | {"name": name}

    def tune(self, states: dict[str, State], trained: Shadow, many: int, margin: float) -> dict[str, Any]:
        return tune(self, states, trained, many, margin)

    def pool(self, states: Sequence[State]) -> Pool:
        return Pool.of(self, states)

    def inputs(self, state: State) -> Array:
        """(m, k): what a search has come to, in plain coordinates."""
        found: Array = state["points"] @ (self.axes(state["name"]).axes @ self.plain.frame.T).astype(np.float32)
        return found


def differences(axes: Array, shape: tuple[int, ...]) -> Array:
    """Of neighbouring pixels of pictures (k, d), across and down, in random order: (k, differences)."""
    P = axes.reshape(len(axes), *shape)
    steps = np.concatenate([np.diff(P, axis=axis).reshape(len(P), -1) for axis in (1, 2)], axis=1)
    return steps[:, np.random.default_rng(0).permutation(steps.shape[1])]


def spectrum(frame: Array, shape: tuple[int, ...]) -> Array:
    """(k, k): covariance of photographs, whose power falls as 1/f², in coordinates of orthonormal rows (k, d)."""
    waves = np.fft.fft2(frame.reshape(len(frame), *shape), axes=(1, 2))
    height, width = shape[:2]
    rate = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None])
    power = 1 / np.maximum(rate, LOWEST / max(height, width)) ** 2
    filtered = (waves * np.sqrt(power).reshape(1, height, width, *(1,) * (len(shape) - 2))).reshape(len(frame), -1)
    covariance = (filtered @ filtered.conj().T).real
    return np.asarray(covariance * len(frame) / np.trace(covariance))


def waves(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """(k, d), (k,): the slowest waves (discrete cosines) of pictures, orthonormal, and how large photographs have them."""
    across = [np.cos(np.pi * np.outer(np.arange(many), np.arange(many) + 0.5) / many) for many in shape[:2]]
    across = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in across]
    rates = np.hypot(np.arange(shape[0])[:, None] / shape[0], np.arange(shape[1])[None] / shape[1])
    slowest = np.argsort(rates.ravel(), kind="stable")[:WAVES]
    grey = np.stack([np.outer(across[0][place // shape[1]], across[1][place % shape[1]]) for place in slowest])
    sizes = 1 / np.maximum(rates.ravel()[slowest] * max(shape[:2]) / 2, LOWEST)
    if len(shape) == 2:
        frame, deviations = grey.reshape(len(grey), -1), sizes
    else:
        colours = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])
        frame = np.einsum("khw,qc->kqhwc", grey, colours).reshape(3 * len(grey), -1)
        deviations = np.outer(sizes, COLOURS).ravel()
    return frame, SHADE * np.sqrt(frame.shape[1]) * deviations / np.linalg.norm(deviations)


def starts_as_torch(W: Array, noise: float) -> bool:
    """Whether noise of this deviation in a first layer (units, inputs) is what torch started it with."""
    return bool(abs(noise * np.sqrt(3 * W.shape[1]) - 1) < AS_TORCH)


def whitened(frame: Array, values: Array, vectors: Array) -> Coordinates:
    """Coordinates in which photographs of covariance (values, vectors) in rows `frame` are white, and so are residuals.

    What a search gets wrong of a point's gradient it gets wrong in all directions in proportion to the point: residuals
    have the covariance of photographs as well, and least squares is to weigh them by its inverse.
    """
    rows = vectors.T[::-1] @ frame
    sizes = np.sqrt(np.maximum(values[::-1], 1e-6 * values[-1]))
    return Coordinates(sizes[:, None] * rows, sizes[0] / sizes, rows)


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidates of several searches."""

    X: Array
    "(m, d)"
    agreed: Array
    "(m,): mean over the other searches of the best NCC with one of their candidates."

    @classmethod
    def of(cls, space: SearchSpace, states: Sequence[State]) -> Pool:
        found = [space.inputs(state) @ space.plain.frame.astype(np.float32) for state in states]
        units = [similarity.standard(X) for X in found]
        agreed = []
        for number, unit in enumerate(units):
            others = [(unit @ other.T).max(axis=1) for place, other in enumerate(units) if place != number]
            agreed.append(np.mean(others, axis=0) if others else np.zeros(len(unit)))
        return cls(np.concatenate(found), np.concatenate(agreed))


def alike_by_chance(space: SearchSpace, X: Array, rng: np.random.Generator) -> float:
    """NCC with any of the points X (n, d) that one in a thousand random points of the span reaches."""
    sizes = np.linalg.norm(X @ space.plain.frame.T, axis=0)
    drawn = (rng.standard_normal((RANDOM, len(sizes))) * sizes) @ space.plain.frame
    return float(np.quantile(similarity.ncc(drawn, X).max(axis=1), RARE))


def tune(space: SearchSpace, states: dict[str, State], trained: Shadow, many: int, margin: float) -> dict[str, Any]:
    """The searches that together find the most points of a shadow, as plain values."""
    enough = max(ALIKE, alike_by_chance(space, trained.X, np.random.default_rng(0)))
    alike = {
        name: similarity.ncc(space.inputs(state) @ space.plain.frame.astype(np.float32), trained.X.astype(np.float32))
        for name, state in states.items()
    }
    names: list[str] = []
    best = np.full(len(trained.X), -1.0)
    for _ in range(min(many, len(states))):

        def gain(name: str, best: Array = best) -> tuple[int, float]:
            together = np.maximum(best, alike[name].max(axis=0))
            return int(np.sum(together > enough)), float(together.mean())

        names.append(max((name for name in states if name not in names), key=gain))
        best = np.maximum(best, alike[names[-1]].max(axis=0))
    truly = kkt_residual.residual(space.layers, trained.X, trained.y, only=(0, len(space.layers) - 1))
    return {
        "names": names,
        "margin": margin,
        "points": len(trained.X),
        "right": int(np.sum(best > enough)),
        "enough": enough,
        "loss": min(states[name]["loss"] for name in names),
        "true_loss": truly.total**2,
        "each": ", ".join(f"{name} {int(np.sum(one.max(axis=0) > enough))}" for name, one in alike.items()),
    }
