"""A network trained the way another one seems to have been, on points that are known: what an attack can be tuned on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from divulge.arrays import Array, Layer, Layers
from divulge.solvers.images.span import Span, span
from divulge.solvers.margin import max_margin, weight_decay
from divulge.solvers.shared import synthetic_images

IDLE = 0.2
"Share of pixels that training never moved from which pictures are strokes: 0.27 with 500 digits, none with clothes."
MOVED = 2.0
"Times the noise: a pixel whose weights are larger, in root mean square, was moved."
ABSENT = 1e-9
"Share of the largest singular value below which there is no noise, but rounding: the start has decayed."
DECAYS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"Tried until the first layer is as large as that of the network; the weaker, the larger."
ITERATIONS = 400  # of L-BFGS, at most
NEARLY = 0.95
"Share of the directions that counts as all of them: two draws of pictures differ by so much."
LOSS = 1e-8
"At which a shadow stops that never grows as large as the network it is for."


@dataclass(frozen=True, eq=False)
class Shadow:
    """The network and what it was trained on."""

    layers: list[Layer]
    X: Array
    "(n, d), the mean already subtracted."
    y: Array
    "−1 and 1, or 0, 1, ... for several outputs."
    mean: Array
    seen: Span
    decay: float | None = None
    "Its weight decay, where it has some."

    @property
    def margins(self) -> Array:
        return max_margin.margins(max_margin.forward(self.layers, self.X)[-1], self.y)


def train_shadow(
    layers: Layers,
    seen: Span,
    count: int,
    shape: tuple[int, ...] | None,
    rng: np.random.Generator,
    report: Callable[[int, float], None] | None = None,
    points: tuple[Array, Array] | None = None,
    passes: int = 20_000,
    decay: float | None = None,
) -> Shadow:
    """Train a network of the same widths on `count` pictures, or normal points, until its first layer has moved as far.

    `points` are others to train on, with their labels; `passes` are the most over them. A network without noise had weight
    decay: several are tried, or `decay` alone where it is given.
    """
    outputs = len(layers[-1][1])
    if points is None:
        X = likely_points(layers[0][0], seen, count, shape, rng)
        y = np.where(np.arange(count) % 2, 1, -1) if outputs == 1 else np.arange(count) % outputs
    else:
        X, y = points
    mean = X.mean(axis=0)
    biases = any(np.any(b) for _, b in layers[1:])
    sizes = [layers[0][0].shape[1], *(len(b) for _, b in layers)]
    far = float(np.linalg.norm(seen.sizes[: seen.rank]))
    if seen.noise <= ABSENT * seen.sizes[0]:
        start = max_margin.initial(rng, sizes, first=None, biases=biases)
        tried = DECAYS if decay is None else (decay,)
        decay, found = _train_decayed(start, X - mean, y, far, biases, tried)
        return Shadow(found, X - mean, y, mean, span(*found[0]), decay)
    run = max_margin.train(
        max_margin.initial(rng, sizes, first=seen.noise, biases=biases),
        X - mean,
        y,
        target=LOSS,
        passes=passes,
        biases=biases,
        dtype=np.float32,
        enough=lambda now: bool(np.linalg.norm(now[0][0]) >= far),
        report=report,
    )
    return Shadow(run.layers, X - mean, y, mean, span(*run.layers[0]))


def _train_decayed(
    start: list[Layer], X: Array, y: Array, far: float, biases: bool, decays: Sequence[float]
) -> tuple[float, list[Layer]]:
    """The weight decay, of those to try, that leaves a first layer as near as can be to size `far`, and what it leaves."""
    loss = "logistic" if len(start[-1][1]) == 1 else "cross-entropy"
    tried: list[tuple[float, float, list[Layer]]] = []
    for decay in decays:
        layers = weight_decay.minimise(
            start, X, y, weight_decay=decay, loss=loss, biases=biases, iterations=ITERATIONS
        ).layers
        tried.append((abs(np.log(max(float(np.linalg.norm(layers[0][0])), 1e-12) / far)), decay, layers))
        if len(tried) > 1 and tried[-1][0] > tried[-2][0]:
            break
    _, decay, layers = min(tried, key=lambda one: one[0])
    return decay, layers


def likely_points(W: Array, seen: Span, count: int, shape: tuple[int, ...] | None, rng: np.random.Generator) -> Array:
    """Points as the network may have seen: strokes where many pixels were never moved, else photographs; (count, d)."""
    if shape is None:
        scale = np.sqrt((seen.axes[:, :-1] ** 2).mean(axis=0))
        return np.asarray(rng.standard_normal((count, W.shape[1])) * scale / max(float(scale.mean()), 1e-300))
    make = synthetic_images.strokes if are_strokes(W, seen, shape) else synthetic_images.leaves
    return make(rng, count, shape)


def are_strokes(W: Array, seen: Span, shape: tuple[int, ...]) -> bool:
    """Whether pictures are strokes on nothing, by the pixels that training never moved; photographs otherwise."""
    moved = np.sqrt((W**2).mean(axis=0)) > MOVED * max(seen.noise, 1e-12 * float(np.abs(W).max()))
    return len(shape) == 2 and bool(np.mean(~moved) > IDLE)


def train_shadow_to_rank(
    layers: Layers,
    seen: Span,
    shape: tuple[int, ...] | None,
    rng: np.random.Generator,
    most: int,
    rounds: int = 3,
    draw: Callable[[int], tuple[Array, Array]] | None = None,
    passes: int = 20_000,
) -> Shadow:
    """A shadow trained on so many points that it shows as many directions as the network, or on `most`.

    `draw` gives so many points and their labels; without it pictures or normal points are made.
    """
    count = min(max(seen.rank, 2), most)
    decay = None
    for _ in range(rounds):
        points = None if draw is None else draw(count)
        trained = train_shadow(layers, seen, count, shape, rng, points=points, passes=passes, decay=decay)
        decay = trained.decay
        before, count = count, _needed(trained, seen, most)
        if count == before:
            break
    return trained


def likely_count(
    layers: Layers, seen: Span, shape: tuple[int, ...] | None, rng: np.random.Generator, most: int, rounds: int = 3
) -> int:
    """How many points a network may have been trained on: so many that a shadow shows as many directions."""
    return _needed(train_shadow_to_rank(layers, seen, shape, rng, most, rounds), seen, most)


def _needed(trained: Shadow, seen: Span, most: int) -> int:
    """On how many points a shadow would show all directions; as many as it had where it does."""
    count, rank = len(trained.X), trained.seen.rank
    if count >= most or (rank >= NEARLY * min(count, seen.rank) and rank >= NEARLY * seen.rank):
        return count
    return min(most, max(count + 1, round(count * seen.rank / max(rank, 1))))
