"""Explanations of another kind as the gradients that an extraction needs, where that can be undone, or why it cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from divulge.contract import Array, Explanation, Gradients, Weights
from divulge.errors import NotApplicable
from divulge.solvers.piecewise import links

TINY = 1e-30  # of the scale of inputs: a coordinate that is 0 becomes that, which changes no value, and is divided by

_HIDDEN = {
    "absolute gradient": "signs are missing, so kinks of both directions look alike",
    "smoothed gradient": "a mean over neighbours has no kinks",
    "integrated gradients": "sums along a path have no kinks at the point",
    "SHAP-like": "sums over many other points have no kinks at the point",
    "unknown": "nothing can be concluded from them",
}


def readable(held: Gradients, said: Explanation, scale: float = 1.0, high: float = np.inf) -> Gradients:
    """The same service with plain gradients of one output, or of each; not applicable where these do not follow."""
    refuse(said)
    if said.kind == "gradient times input":
        held = _divided(held, scale if high > 0 else -scale)
    if said.output is not None or said.of == "sum of outputs":
        held = _of_one(held, said)
    return held


def refuse(said: Explanation) -> None:
    why = _HIDDEN.get(said.kind, "")
    if said.absolute:
        why = _HIDDEN["absolute gradient"]
    elif said.normalised:
        why = "lengths are missing, so slopes at two points cannot be compared"
    elif said.of == "top output" and not why:
        why = "where another output is on top they are another function's, so kinks cannot be told"
    if why:
        raise NotApplicable(
            f"raw gradients are needed, and the service gives this instead: {said}; {why}; "
            "value-extraction needs no explanations"
        )


def explained_part(network: Weights, said: Explanation | None) -> Weights:
    """What of a network the explanations were of: one of its outputs, their sum, or all."""
    *hidden, (W, b) = network.layers
    if said is not None and said.output is not None and len(b) > 1:
        return replace(network, layers=(*hidden, (W[[said.output]], b[[said.output]])))
    if said is not None and said.of == "sum of outputs":
        return replace(network, layers=(*hidden, (W.sum(0, keepdims=True), b.sum(keepdims=True))))
    return network


def note(said: Explanation) -> str:
    """What was done about explanations of a kind."""
    undone = "divided by the input they are gradients, and the network follows from those as well" * (
        said.kind == "gradient times input"
    )
    part = "the copy is of what is explained" * (said.output is not None or said.of == "sum of outputs")
    return f"Explanations are {said}: {'; '.join(filter(None, (undone, part))) or 'as they are needed'}."


def _divided(held: Gradients, scale: float) -> Gradients:
    """x ∘ ∇f(x) over x; value and explanation are asked for at the same point, so that they are one query."""

    def moved(X: Array) -> Array:
        return np.where(X == 0, TINY * scale, X)

    def gradient(X: Array) -> Array:
        X = moved(X)
        answer = np.asarray(held.gradient(X), dtype=float)
        single = links.single(answer, answer)
        by = X.astype(np.float32).astype(float) if single else X
        found = answer / (by if answer.ndim == 2 else by[:, None, :])
        return np.asarray(found.astype(np.float32).astype(float) if single else found)

    return replace(held, value=lambda X: held.value(moved(X)), gradient=gradient)


def _of_one(held: Gradients, said: Explanation) -> Gradients:
    """Values of the output that is explained."""

    def value(X: Array) -> Array:
        answer = np.asarray(held.value(X), dtype=float).reshape(len(X), -1)
        if said.output is None:
            return np.asarray(answer.sum(1, keepdims=True))
        if answer.shape[1] > 2 and links.SOFTMAX.suits(answer):
            raise NotApplicable(
                f"gradients of all {answer.shape[1]} probabilities are needed, and the service gives this instead: {said}; "
                "one alone does not tell the logits behind them; value-extraction needs no explanations"
            )
        return answer[:, [said.output]]

    return replace(held, value=value)
