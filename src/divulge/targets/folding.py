"""Steps of a network in the order in which they are done, folded into linear layers with ReLUs between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from divulge.contract import Array, Weights
from divulge.errors import BadInput

Layer = tuple[Array, Array]

EPSILON = 1e-5
"What is added to a variance where nobody says so: torch's and ONNX's own default."


@dataclass(frozen=True, eq=False)
class Scale:
    """Each value times a factor, and a shift: what BatchNorm does once its statistics are fixed."""

    factor: Array
    shift: Array

    @classmethod
    def of(cls, mean: Array, variance: Array, weight: Array | None, bias: Array | None, epsilon: float) -> Scale:
        """BatchNorm in eval mode: (x − mean) / sqrt(variance + ε) · weight + bias."""
        factor = (1.0 if weight is None else weight) / np.sqrt(variance + epsilon)
        return cls(factor, (0.0 if bias is None else bias) - mean * factor)


@dataclass(frozen=True)
class Link:
    """What turns the last scores into probabilities, by its name in `LINKS`."""

    name: str


Part = Layer | Scale | Link | None
Step = tuple[str, Part]
"A layer's name, and what it does: weights and bias, a scale, a link; None for a ReLU."


def stack(steps: Iterable[Step]) -> Weights:
    """The network of these steps: linear layers and ReLUs in turn, with scales folded in and a link at the end left off."""
    found: list[Layer] = []
    folded: list[str] = []
    pending: Scale | None = None
    before, link, ended = "", "", ""
    for name, part in steps:
        if ended:
            raise BadInput(f"expected {ended} at the end of the network, got {name} behind it; read the network up to there")
        if isinstance(part, Link):
            link, ended = part.name, name
        elif isinstance(part, Scale):
            _check_width(name, len(part.factor), found, "values")
            folded.append(name)
            if before == "linear":
                W, b = found[-1]
                found[-1] = (W * part.factor[:, None], b * part.factor + part.shift)
            else:
                pending = part if pending is None else _both(name, pending, part)
        elif part is None:
            if not found:
                raise BadInput(f"expected a linear layer first, got {name}; apply the ReLU to the points instead")
            if pending is not None:
                raise BadInput(
                    f"expected a linear layer behind {folded[-1]}, got {name}, which leaves nothing to fold it into; "
                    "hold the model as predictions or gradients instead"
                )
            before = "relu"
        else:
            if before == "linear":
                raise BadInput(f"expected a ReLU before {name}, got another linear layer; merge the two into one")
            W, b = part
            _check_width(name, W.shape[1], found, f"weights of shape {W.shape}")
            if pending is not None:
                if len(pending.factor) != W.shape[1]:
                    raise BadInput(
                        f"expected {name} to take the {len(pending.factor)} values of {folded[-1]}, got weights of shape "
                        f"{W.shape}; check the order of the layers"
                    )
                W, b, pending = W * pending.factor, b + W @ pending.shift, None
            found.append((W, b))
            before = "linear"
    if not found:
        raise BadInput("expected at least one linear layer, got none; check that this is the whole network")
    if pending is not None:
        raise BadInput(f"expected a linear layer behind {folded[-1]}, got none; read the network without it")
    if before == "relu":
        raise BadInput("expected a linear layer last, got a ReLU; read the network without its last ReLU")
    return Weights(tuple(found), link=link, folded=tuple(folded))


def with_relus(steps: Iterable[Step], *, late: bool = False) -> Iterator[Step]:
    """Steps with a ReLU between two linear layers: behind the scales that stand there, or `late`, before them."""
    waiting: list[Step] = []
    begun = False
    for step in steps:
        if isinstance(step[1], tuple):
            relu: list[Step] = [("a ReLU", None)] if begun else []
            yield from (*relu, *waiting) if late else (*waiting, *relu)
            waiting, begun = [], True
            yield step
        else:
            waiting.append(step)
    yield from waiting


def _check_width(name: str, width: int, found: list[Layer], got: str) -> None:
    if found and len(found[-1][0]) != width:
        got = f"{width} {got}" if got == "values" else got
        raise BadInput(
            f"expected {name} to take the {len(found[-1][0])} values of the layer before it, got {got}; "
            "check the order of the layers"
        )


def _both(name: str, first: Scale, then: Scale) -> Scale:
    if len(first.factor) != len(then.factor):
        raise BadInput(
            f"expected {name} to take {len(first.factor)} values, got {len(then.factor)}; check the order of the layers"
        )
    return Scale(first.factor * then.factor, first.shift * then.factor + then.shift)


def _sigmoid(scores: Array) -> Array:
    return np.exp(-np.logaddexp(0, -scores))


def _log_softmax(scores: Array) -> Array:
    least = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(least - np.log(np.exp(least).sum(axis=1, keepdims=True)))


def _softmax(scores: Array) -> Array:
    return np.exp(_log_softmax(scores))


LINKS: Mapping[str, Callable[[Array], Array]] = {
    "": lambda scores: scores,
    "sigmoid": _sigmoid,
    "softmax": _softmax,
    "log-softmax": _log_softmax,
}
"What comes after the last layer, by name: scores (n, outputs) to what the model answers."


def bent(link: str, scores: Array, slopes: Array) -> Array:
    """Slopes (n, outputs, dimension) of the scores as those of what the link makes of them."""
    if link == "sigmoid":
        p = _sigmoid(scores)
        return np.asarray((p * _sigmoid(-scores))[:, :, None] * slopes)
    if link in ("softmax", "log-softmax"):
        p = _softmax(scores)[:, :, None]
        slopes = slopes - (p * slopes).sum(axis=1, keepdims=True)
        return slopes if link == "log-softmax" else p * slopes
    return slopes
