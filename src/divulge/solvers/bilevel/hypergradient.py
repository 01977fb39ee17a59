"""Gradient of what training ends in: through every step of gradient descent, in the points and penalties it was given.

The outer loss is a function of the parameters w_T after T steps w ← w − rate ∇_w inner(w, hyper). `reverse` keeps the states
and goes back through them, at a cost that hardly depends on how many hyperparameters there are; `forward` carries dw/dhyper
along, for a few. Neither writes a Hessian down: products with it are gradients of gradients.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Tensors = tuple[Tensor, ...]
Inner = Callable[[Tensors, Tensors], Tensor]
"Parameters and hyperparameters -> the training loss, a scalar."
Outer = Callable[[Tensors], Tensor]
"Parameters -> a scalar."
Loss = Callable[[Tensor, Tensor], Tensor]
"Outputs (n, ...) and targets (n, ...) -> their mean loss, as those of `torch.nn.functional` are."
Found = TypeVar("Found")

CLIMBED = 10.0
"Training that ends at this many times the loss it began with has diverged: stable descent does not climb at all."
HALVINGS = 6
"How often a learning rate is halved: each costs a training, and one 64 times too high is a mistake to be told about."
FEW = 32
"Numbers among the hyperparameters that `forward` takes: each costs it a product with the Hessian a step, where `reverse` \
needs one for all."

_BY_DEFINITION = ContextVar("attention by its definition", default=False)


@dataclass(frozen=True)
class Hypergradient:
    """The outer loss after training, and how it moves with what training was given."""

    value: float
    gradients: Tensors
    "d value / d each hyperparameter, in its shape."
    end: Tensors
    "The trained parameters."
    rate: float
    "The learning rate that was used, after halvings."


def train(inner: Inner, start: Tensors, hyper: Tensors, *, steps: int, rate: float) -> list[Tensors]:
    """All states w_0 ... w_T of gradient descent at this very rate; a FloatingPointError where it diverges."""
    fixed, states = _detached(hyper), [_detached(start)]

    def objective(weights: Tensors) -> Tensor:
        return inner(weights, fixed)

    first, gradient = _value_and_gradient(objective, states[0])
    if not math.isfinite(first):
        raise ArithmeticError(f"expected a finite training loss at the start, got {first}; check data, start and penalties")
    last = first
    for _ in range(steps):
        states.append(_stepped(states[-1], gradient, rate))
        last, gradient = _value_and_gradient(objective, states[-1])
        if not math.isfinite(last):
            break
    rounding = math.sqrt(torch.finfo(start[0].dtype).eps)
    if not _finite(states[-1]) or not last <= CLIMBED * abs(first) + rounding:
        raise FloatingPointError(f"the training loss went from {first:.3g} to {last:.3g} at a learning rate of {rate:.3g}")
    return states


def settled(inner: Inner, start: Tensors, hyper: Tensors, *, steps: int, rate: float) -> tuple[list[Tensors], float]:
    """`train` at this rate, or at the first of its halves at which training does not diverge; and that rate."""
    return _halving(lambda rate: (train(inner, start, hyper, steps=steps, rate=rate), rate), rate)


def reverse(inner: Inner, outer: Outer, start: Tensors, hyper: Tensors, *, steps: int, rate: float) -> Hypergradient:
    """Back from the last state to the first with v = d value / d w_t, one product a step: v ← v − rate ∇²_w inner · v."""

    def attempt(rate: float) -> Hypergradient:
        states = train(inner, start, hyper, steps=steps, rate=rate)
        value, adjoint = _value_and_gradient(outer, states[-1])
        moved, gradients = _leaves(hyper), tuple(torch.zeros_like(part) for part in hyper)
        for state in reversed(states[:-1]):
            weights = _leaves(state)
            first = _gradient(inner, weights, moved, wanted=weights)
            products = _vjp(first, (*weights, *moved), adjoint)
            adjoint = _stepped(adjoint, products[: len(adjoint)], rate)
            gradients = _stepped(gradients, products[len(adjoint) :], rate)
        return _checked(Hypergradient(value, gradients, states[-1], rate))

    return _halving(attempt, rate)


def forward(inner: Inner, outer: Outer, start: Tensors, hyper: Tensors, *, steps: int, rate: float) -> Hypergradient:
    """From the first state to the last with dw = d w_t / d every number of `hyper`: dw ← dw − rate d(∇_w inner).

    The Hessian in (w, hyper) is symmetric, so how ∇_w moves along a direction is a gradient of a gradient too.
    """
    count = sum(part.numel() for part in hyper)
    if count > FEW:
        raise ValueError(f"expected at most {FEW} numbers among the hyperparameters, got {count}; use reverse")
    axes = [_like(hyper, axis) for axis in torch.eye(count)]

    def attempt(rate: float) -> Hypergradient:
        states = train(inner, start, hyper, steps=steps, rate=rate)
        moved = _leaves(hyper)
        tangents = [tuple(torch.zeros_like(weight) for weight in start) for _ in axes]
        for state in states[:-1]:
            weights = _leaves(state)
            first = _gradient(inner, weights, moved, wanted=(*weights, *moved))
            products = [_vjp(first, weights, (*dw, *axis), again=True) for dw, axis in zip(tangents, axes, strict=True)]
            tangents = [_stepped(dw, product, rate) for dw, product in zip(tangents, products, strict=True)]
        value, adjoint = _value_and_gradient(outer, states[-1])
        each = [sum(torch.sum(a * b) for a, b in zip(dw, adjoint, strict=True)) for dw in tangents]
        return _checked(Hypergradient(value, _like(hyper, torch.tensor(each, dtype=adjoint[0].dtype)), states[-1], rate))

    return _halving(attempt, rate)


def as_function(module: nn.Module) -> tuple[Callable[[Tensors, Tensor], Tensor], Tensors]:
    """(parameters, X) -> what the module says at X with these parameters, and the parameters that it has now.

    They are those that want gradients, in the module's order. A copy in evaluation mode is asked: no dropout, running
    statistics as they are, and the module itself stays what it was.
    """
    kept = copy.deepcopy(module).eval()
    own = [parameter for parameter in kept.parameters() if parameter.requires_grad]
    if not own:
        raise ValueError("expected a module with parameters to train, got none that wants gradients; use requires_grad_()")
    start = tuple(parameter.detach().clone() for parameter in own)
    places = [
        (part._parameters, key, number)
        for number, parameter in enumerate(own)
        for part in kept.modules()
        for key, found in part._parameters.items()
        if found is parameter
    ]

    def hold(parameters: Sequence[Tensor]) -> None:
        for held, key, number in places:
            held[key] = cast(nn.Parameter, parameters[number])

    def outputs(parameters: Tensors, X: Tensor) -> Tensor:
        if len(parameters) != len(own):
            raise ValueError(f"expected {len(own)} parameters, got {len(parameters)}")
        hold(parameters)  # as torch.func.functional_call does, which looks for their places every time
        try:
            with attention_by_definition():
                found: Tensor = kept(X)
        finally:
            hold(own)
        return found

    return outputs, start


@contextmanager
def attention_by_definition() -> Iterator[None]:
    """Attention computed as softmax(QKᵀ)V: torch's faster ways have no second derivative.

    Around a whole training it is switched on once, and where it is on already nothing is done.
    """
    if _BY_DEFINITION.get():
        yield
        return
    token = _BY_DEFINITION.set(True)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        _BY_DEFINITION.reset(token)


def penalised(
    module: nn.Module, X: Tensor, y: Tensor, targets_of_points: Tensor, loss: Loss, groups: Sequence[int] | None = None
) -> tuple[Inner, Tensors]:
    """Training on X, y (n − p points) and p points more, and the module's parameters now.

    Hyperparameters are the p points, in the shape of X's, and log penalties λ. The training loss is the mean over all n plus
    Σ e^λ/(2n) ‖W‖² over parameters W of two dimensions or more; biases are free. λ is one number, or one for each W, or,
    with `groups`, W number k has λ[groups[k]].
    """
    outputs, start = as_function(module)
    heavy = [number for number, parameter in enumerate(start) if parameter.ndim > 1]
    if not heavy:
        raise ValueError("expected weights of two dimensions or more to penalise, got none; give a vector the shape (1, d)")
    if groups is not None and len(groups) != len(heavy):
        raise ValueError(f"expected a group for each of {len(heavy)} weights of two dimensions or more, got {len(groups)}")
    targets = torch.cat([y, targets_of_points])
    which = None if groups is None else torch.tensor(groups)

    def inner(parameters: Tensors, hyper: Tensors) -> Tensor:
        points, logs = hyper
        if len(points) != len(targets_of_points):
            raise ValueError(f"expected a point for each of {len(targets_of_points)} targets, got {len(points)}")
        said = outputs(parameters, X)
        if len(points):  # apart from X, which needs no derivatives
            said = torch.cat([said, outputs(parameters, points)])
        each = logs.expand(len(heavy)) if which is None else logs[which]
        squares = torch.stack([parameters[number].square().sum() for number in heavy])
        return loss(said, targets) + (each.exp() * squares).sum() / (2 * len(targets))

    return inner, start


def validation(module: nn.Module, X: Tensor, y: Tensor, loss: Loss) -> Outer:
    """Mean loss on points that are not trained on, without the penalty."""
    outputs = as_function(module)[0]
    return lambda parameters: loss(outputs(parameters, X), y)


def logistic(outputs: Tensor, y: Tensor) -> Tensor:
    """Mean logistic loss of one output, (n,) or (n, 1), at labels 0 and 1."""
    return functional.binary_cross_entropy_with_logits(outputs.reshape(y.shape), y.to(outputs.dtype))


def _halving(attempt: Callable[[float], Found], rate: float) -> Found:
    reason = ""
    for halvings in range(HALVINGS + 1):
        try:
            with attention_by_definition():
                return attempt(rate / 2**halvings)
        except FloatingPointError as error:
            reason = str(error)
    raise FloatingPointError(
        f"training did not settle at any learning rate from {rate:.3g} down to {rate / 2**HALVINGS:.3g}: {reason}; "
        "start from a smaller one"
    )


def _checked(found: Hypergradient) -> Hypergradient:
    """States can stay within bounds where their derivatives do not."""
    if not (math.isfinite(found.value) and _finite(found.gradients)):
        raise FloatingPointError(f"the gradient through training is not finite at a learning rate of {found.rate:.3g}")
    return found


def _value_and_gradient(function: Outer, at: Tensors) -> tuple[float, Tensors]:
    leaves = _leaves(at)
    with torch.enable_grad():
        value = function(leaves)
    return value.item(), _vjp((value,), leaves, (torch.ones_like(value),))


def _gradient(inner: Inner, weights: Tensors, hyper: Tensors, *, wanted: Tensors) -> Tensors:
    """First derivatives that can be differentiated again."""
    with torch.enable_grad():
        return torch.autograd.grad(inner(weights, hyper), wanted, create_graph=True, materialize_grads=True)


def _vjp(outputs: Tensors, inputs: Tensors, along: Tensors, *, again: bool = False) -> Tensors:
    """Vector-Jacobian product: the gradient of Σ outputs · along in `inputs`, 0 where nothing depends on them.

    `again` keeps the graph for a further one.
    """
    pairs = [(output, by) for output, by in zip(outputs, along, strict=True) if output.requires_grad]
    if not pairs:
        return tuple(torch.zeros_like(part) for part in inputs)
    ends, by = zip(*pairs, strict=True)
    return torch.autograd.grad(ends, inputs, by, retain_graph=again, materialize_grads=True)


def _stepped(parts: Tensors, along: Tensors, rate: float) -> Tensors:
    return tuple(part - rate * by for part, by in zip(parts, along, strict=True))


def _like(parts: Tensors, flat: Tensor) -> Tensors:
    """A vector cut into tensors of these shapes and types."""
    cut = torch.split(flat, [part.numel() for part in parts])
    return tuple(piece.reshape(part.shape).to(part) for piece, part in zip(cut, parts, strict=True))


def _detached(parts: Tensors) -> Tensors:
    return tuple(part.detach() for part in parts)


def _leaves(parts: Tensors) -> Tensors:
    return tuple(part.detach().requires_grad_() for part in parts)


def _finite(parts: Tensors) -> bool:
    return all(bool(part.isfinite().all()) for part in parts)
