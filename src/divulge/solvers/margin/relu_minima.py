"""Minima of a ReLU network's training objective, loss + decay/2 ‖θ‖², found to rounding although most lie on kinks.

A kink is a pair of a point and a unit whose input there is 0. A minimum holds such inputs at 0, where the slope of the
ReLU may be any share from 0 to 1, and with the right shares the gradient vanishes. It does not with the slope 0 or 1
that automatic differentiation takes, except in directions that leave every kink's input at 0; the last layer is such.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.linalg import lstsq
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.func import grad, jacrev

WIDTHS = (0.0, 1e-2, 1e-3, 1e-4)
"Half the widths over which kinks are rounded off, one after the other; at first none is."
MEMORY = 30
"Steps that L-BFGS remembers: three times scipy's own. A matter of speed."
CLOSE = 1e-6
"A partial derivative so small beside decay ‖θ‖ needs no further descent: Newton's method does the rest."
READY = 0.1
"A gradient so large beside decay (1 + ‖θ‖) leaves open which kinks a minimum has."
NOISE = ZERO = 1e-12
"Of an objective, as a share, and an input of a unit: so small they are rounding."
STEPS = 20
"A cap: Newton's method takes three; more where a minimum is flat."
STILL = 1e-13
"A gradient so small beside decay ‖θ‖ is rounding."
ENOUGH = 1e-9
"A gradient so small is small enough once it no longer shrinks: what the recipes promise."
IDLE = 10
"Widths of a kink that a unit's input must exceed somewhere, else decay is about to make the unit 0."
SINGULAR = 1e-8
"A share of the largest singular value that counts as none: units that do the same work may share it in any way."
LARGEST = 1500
"Parameters for which Newton's method is worth the time: a step takes some seconds."


@dataclass(frozen=True, eq=False)
class DecayedObjective:
    """loss(f_θ(X)) + decay/2 ‖θ‖², where θ holds the weights (units, inputs) and biases of the layers in a row."""

    shapes: tuple[tuple[int, int], ...]
    X: Tensor
    "(n, features)"
    loss: Callable[[Tensor], Tensor]
    "Outputs (n, outputs) -> their loss."
    decay: float

    def layers(self, theta: Tensor) -> list[tuple[Tensor, Tensor]]:
        parts = torch.split(theta, [size for units, inputs in self.shapes for size in (units * inputs, units)])
        return [(W.reshape(shape), b) for W, b, shape in zip(parts[::2], parts[1::2], self.shapes, strict=True)]

    def by_layer(self, pairs: Tensor) -> list[Tensor]:
        """One number for each point and hidden unit, as a matrix (n, units) for each hidden layer."""
        widths = [units for units, _ in self.shapes[:-1]]
        parts = torch.split(pairs, [len(self.X) * units for units in widths])
        return [part.reshape(len(self.X), units) for part, units in zip(parts, widths, strict=True)]

    def value(self, theta: Tensor, width: float = 0.0, slopes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The objective and the inputs of all hidden units, with ReLUs rounded off, or with given slopes through 0."""
        signal, inputs = self.X, []
        fixed = None if slopes is None else self.by_layer(slopes)
        for number, (W, b) in enumerate(self.layers(theta)):
            if number:
                inputs.append(signal.reshape(-1))
                signal = _rounded(signal, width) if fixed is None else fixed[number - 1] * signal
            signal = signal @ W.T + b
        return self.loss(signal) + self.decay / 2 * (theta @ theta), torch.cat(inputs)


def minimise(objective: DecayedObjective, theta: Tensor, iterations: int = 10_000) -> Tensor:
    """A local minimum near where L-BFGS comes from θ; it takes at most so many iterations for each width."""
    with threadpool_limits(1):  # threads cost more than they bring to small products
        for width in WIDTHS:
            theta = _descend(objective, theta, width, iterations)
        gradient = grad(lambda at: objective.value(at, width)[0])(theta)
        if len(theta) > LARGEST or gradient.norm() > READY * objective.decay * (1 + theta.norm()):
            return theta
        settled = _settle(objective, theta, width)
    return settled if objective.value(settled)[0] <= objective.value(theta)[0] * (1 + NOISE) else theta


def relative_residual(objective: DecayedObjective, theta: Tensor, near: float = 1e-9) -> tuple[float, float]:
    """‖gradient‖ / (decay ‖θ‖) as automatic differentiation has it, and without the directions that leave a kink."""
    gradient = grad(lambda at: objective.value(at)[0])(theta).numpy()
    inputs = objective.value(theta)[1]
    idle = [(part.abs() <= near).all(dim=0).expand_as(part).reshape(-1) for part in objective.by_layer(inputs)]
    kinks = torch.nonzero((inputs.abs() <= near) & ~torch.cat(idle))[:, 0]
    across = jacrev(lambda at: objective.value(at)[1][kinks])(theta).numpy()
    along = gradient - across.T @ lstsq(across.T, gradient, cond=SINGULAR)[0] if len(kinks) else gradient
    whole = objective.decay * float(theta.norm()) or 1.0
    return float(np.linalg.norm(gradient)) / whole, float(np.linalg.norm(along)) / whole


def _rounded(signal: Tensor, width: float) -> Tensor:
    """A ReLU whose slope grows from 0 to 1 between −width and width."""
    if not width:
        return torch.relu(signal)
    return width * ((signal + width) / (2 * width)).clamp(0, 1) ** 2 + (signal - width).clamp(min=0)


def _descend(objective: DecayedObjective, theta: Tensor, width: float, iterations: int) -> Tensor:
    def value(numbers: Any) -> tuple[float, Any]:
        at = torch.from_numpy(numbers).requires_grad_()
        found = objective.value(at, width)[0]
        return found.item(), torch.autograd.grad(found, at)[0].numpy()

    options: Any = {"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": MEMORY, "ftol": 0}
    options["gtol"] = CLOSE * objective.decay * float(theta.norm())
    found = minimize(value, theta.numpy(), jac=True, method="L-BFGS-B", options=options)
    return torch.from_numpy(found.x.copy())


def _settle(objective: DecayedObjective, theta: Tensor, width: float) -> Tensor:
    """Newton's method on θ and the slopes at kinks; a slope that leaves 0 to 1 ends a kink, a changed sign begins one."""
    inputs = objective.value(theta, width)[1]
    slopes = ((inputs + width) / (2 * width)).clamp(0, 1)
    kink = (slopes > 0) & (slopes < 1)
    idle = [(part <= IDLE * width).all(dim=0) for part in objective.by_layer(inputs)]
    best, least, sound = theta, np.inf, False
    for _ in range(STEPS):
        theta, still = _silenced(objective, theta, idle)
        slopes, kink = torch.where(still, 0, slopes), kink & ~still
        step, turn, left = _newton(objective, theta, slopes, kink)
        if sound and left < least:
            best, least = theta, left
        elif least < ENOUGH:
            break
        if least <= STILL:
            break
        theta, slopes = theta + step, slopes.masked_scatter(kink, slopes[kink] + turn)
        inputs = objective.value(theta, slopes=slopes)[1]
        ends = kink & ((slopes < 0) | (slopes > 1))
        begins = ~kink & (inputs.abs() > ZERO) & ((inputs > 0) != (slopes > 0.5))
        sound = not (ends | begins).any()
        slopes = torch.where(begins, 0.5, slopes.clamp(0, 1))
        kink = (kink & ~ends) | begins
        # A unit turned round was to become 0 and went too far.
        idle = [part.double().mean(dim=0) > 0.5 for part in objective.by_layer(begins)]
    return best


def _silenced(objective: DecayedObjective, theta: Tensor, idle: list[Tensor]) -> tuple[Tensor, Tensor]:
    """θ without the units that are idle, as decay makes them; and which pairs of points and units this concerns."""
    theta = theta.clone()
    layers = objective.layers(theta)
    for units, (W, b), (after, _) in zip(idle, layers, layers[1:], strict=False):
        W[units], b[units], after[:, units] = 0, 0, 0
    return theta, torch.cat([units.expand(len(objective.X), -1).reshape(-1) for units in idle])


def _newton(objective: DecayedObjective, theta: Tensor, slopes: Tensor, kink: Tensor) -> tuple[Tensor, Tensor, float]:
    """Steps of θ and of the slopes at kinks towards no gradient and no input at a kink, and how far off these are."""
    kinks, size = torch.nonzero(kink)[:, 0], len(theta)

    def value(both: Tensor) -> tuple[Tensor, Tensor]:
        return objective.value(both[:size], slopes=slopes.index_put((kinks,), both[size:]))

    def total(both: Tensor) -> Tensor:
        return value(both)[0]

    def held(both: Tensor) -> Tensor:
        return value(both)[1][kinks]

    both = torch.cat([theta, slopes[kinks]])
    gradient = grad(total)(both)[:size]
    inputs = held(both)
    left = max(float(gradient.norm() / (objective.decay * theta.norm())), float(inputs.abs().max()) if len(kinks) else 0.0)
    matrix = jacrev(grad(total))(both)
    if len(kinks):
        matrix[size:] = jacrev(held)(both)
        matrix[size:, size:] = 0
    used = (both != 0).numpy()  # idle units stay idle
    used[size:] = True
    wanted = -torch.cat([gradient, inputs]).numpy()
    step = np.zeros(len(both))
    step[used] = lstsq(matrix.numpy()[np.ix_(used, used)], wanted[used], cond=SINGULAR, lapack_driver="gelsy")[0]
    return torch.from_numpy(step[:size]), torch.from_numpy(step[size:]), left
