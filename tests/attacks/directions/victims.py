"""A network as people train them, on known pictures, and what its services answer."""

from __future__ import annotations

from functools import cache

import numpy as np

from divulge import Explanation, Gradients, TrainingData, Weights
from divulge.arrays import Array
from divulge.solvers.shared import synthetic_images
from divulge.victims import ordinary

SHAPE, COUNT, CLASSES = (20, 20), 20, 5


@cache
def victim(outputs: int = CLASSES, centred: bool = True) -> tuple[Weights, TrainingData]:
    """A network that was trained with weight decay, and its pictures."""
    rng = np.random.default_rng(0)
    X = synthetic_images.strokes(rng, COUNT, SHAPE)
    mean, y = X.mean(axis=0) * centred, np.arange(COUNT) % max(outputs, 2)
    run = ordinary.train(X - mean, y, rng, hidden=(80, 80), lr=0.1, momentum=0.9, weight_decay=3e-3, epochs=3000)
    return Weights(tuple(run.layers), mean=mean, shape=SHAPE), TrainingData(X, shape=SHAPE)


def softmax(Z: Array) -> Array:
    powers = np.exp(Z - Z.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def explaining(
    model: Weights,
    kind: str = "gradient",
    *,
    of: str = "each",
    probabilities: bool = False,
    single: bool = False,
    knows_mean: bool = True,
    told: Explanation | None = None,
) -> Gradients:
    """A service that explains `model` in one of the ways that services do."""
    plain = Gradients.of(model)
    noise = np.random.default_rng(1)

    def cast(A: Array) -> Array:
        return A.astype(np.float32).astype(float) if single else A

    def both(X: Array) -> tuple[Array, Array]:
        A, J = plain.value(cast(X)), plain.gradient(cast(X)).reshape(len(X), -1, X.shape[1])
        if probabilities:
            A = softmax(A)
            J = A[:, :, None] * (J - np.einsum("nk,nkd->nd", A, J)[:, None])
        return A, J

    def explain(X: Array) -> Array:
        A, J = both(X)
        if kind == "smoothed":
            J = np.array([both(x + 0.2 * noise.standard_normal((100, len(x))))[1].mean(axis=0) for x in X])
        elif kind == "integrated":
            steps = (np.arange(40) + 0.5) / 40
            J = np.array([both(steps[:, None] * x)[1].mean(axis=0) * x for x in X])
        elif kind == "times input":
            J = J * X[:, None]
        elif kind == "absolute":
            J = np.abs(J)
        elif kind == "length 1":
            J = J / np.linalg.norm(J, axis=2, keepdims=True)
        if of == "top":
            return cast(J[np.arange(len(X)), A.argmax(axis=1)])
        return cast(J.sum(axis=1) if of == "sum" else J[:, int(of)] if of.isdigit() else J)

    return Gradients(
        value=lambda X: cast(both(X)[0]),
        gradient=explain,
        dimension=model.dimension,
        mean=model.mean if knows_mean else None,
        shape=model.shape,
        explanation=told,
    )
