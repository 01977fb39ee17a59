"""Inputs whose gradients add up to a network's weights: min Σ_l w_l ‖W_l − Σ_i c_i ∇_l f(x_i)‖² over x_i and c_i.

The gradient of a dense layer is an outer product, and its sum over inputs one matrix product, so the objective needs one
forward and one backward pass, and its own gradient, written out below, another of each. Slopes of the ReLU are softened
to sigmoid(αz), in what is differentiated only. The common scale of the c_i has a closed form.

What the c_i are says the loss. Of two classes c_i = λ_i y_i; of several Σ_c λ_ic ∇(f_y − f_c)(x_i), each wrong class against
the right one, of which Buzaglo et al. (2023, arXiv:2307.01827) keep the best wrong one; with weight decay μ any loss has
c_i = −ℓ'_i / (nμ), which for cross-entropy is of that same form, and for a regression has whichever sign (ibid.).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from divulge.arrays import Array, Layers

SHORT = 0.01
"Least correlation of the sum of gradients with the weights for which a scale is computed."
MEANS, SQUARES = 0.9, 0.999  # Adam's own
WARM = 0.05
"Share of the steps in which the rate rises; it falls to 0 over all of them."
SHARES = 3
"Of the differences between pixels, one in so many is looked at in a step, the others in the next ones."
SMALL = 100_000
"Candidates times units below which one thread is quicker than several that wait for each other."
STEEP = 20.0
"Beyond this a sigmoid is flat in single precision (e⁻²⁰ is 2e-9), and its slope would be too small for quick arithmetic."


@dataclass(frozen=True)
class Coordinates:
    """Where inputs are looked for: x = origin + z · axes, and how much each direction of the first layer counts."""

    axes: Array
    "(k, d)"
    weights: Array
    "(k,): residuals of the first layer are taken in orthonormal directions `frame` and weighted by these."
    frame: Array
    "(k, d), orthonormal rows spanning the same as `axes`."


@dataclass(frozen=True)
class Setup:
    """How one descent goes."""

    steps: int = 600
    rate: float = 0.1
    softness: tuple[float, float] = (100.0, 100.0)
    "α at the start and at the end, geometric between them."
    spread: float = 0.1
    "Root mean square of an input's coordinates at the start, over that of a coordinate of size 1."
    layers: tuple[float, ...] = (1.0, 0.0, 0.1)
    "How much each layer's residual counts, relative to its own size."
    margin: float = 0.0
    "Outputs that candidates should reach on their side; 0 for no such wish."
    pull: float = 0.0
    "How much that wish counts."
    sparse: float = 0.0
    "How much it counts that neighbouring pixels of a picture are mostly alike."
    prior: float = 0.0
    "How much it counts that coordinates are small, as independent normal numbers of deviation 1 are: times Σ z²."
    rounds: int = 1
    "Descents that the steps are shared by: each but the first goes on from what is needed of the one before."


@dataclass(frozen=True)
class Solution:
    """What a descent ended with."""

    X: Array
    "(m, d)"
    multipliers: Array
    "(m, outputs)"
    loss: float
    "The weighted residual relative to the weights; 1 for no candidates at all."


class Stationarity:
    """The objective and its gradient at candidates (m, k) with multipliers (m, outputs)."""

    def __init__(
        self, layers: Layers, space: Coordinates, counts: Sequence[float], dtype: torch.dtype = torch.float32
    ) -> None:
        W1, b1 = layers[0]
        self.into = _tensor(W1 @ space.axes.T, dtype)
        self.shift = _tensor(b1, dtype)
        self.change = _tensor(space.axes @ space.frame.T * space.weights, dtype)
        "Coordinates -> the weighted frame in which the first layer is compared."
        self.deeper = [(_tensor(W, dtype), _tensor(b, dtype)) for W, b in layers[1:]]
        bias = float(np.mean(space.weights))
        self.targets = [torch.cat([_tensor(W1 @ space.frame.T * space.weights, dtype), bias * self.shift[:, None]], dim=1)]
        self.bias = bias
        self.biased = [True] + [bool(np.any(b)) for _, b in layers[1:]]
        for (W, b), biased in zip(self.deeper, self.biased[1:], strict=True):
            self.targets.append(torch.cat([W, b[:, None]], dim=1) if biased else W)
        size = [float((target**2).sum()) for target in self.targets]
        self.counts = [count / max(part, 1e-30) / sum(counts) for count, part in zip(counts, size, strict=True)]

    def __call__(
        self, Z: Tensor, C: Tensor, alpha: float, margin: float = 0.0, pull: float = 0.0
    ) -> tuple[float, float, Tensor, Tensor]:
        """Loss, the best common scale of the multipliers, and the gradients in Z and in C (at that scale)."""
        depth = len(self.deeper) + 1
        A, S, D, E = self._passes(Z, C, alpha)
        rows = self._rows(Z)
        counted = [number for number in range(depth) if self.counts[number]]
        G = {number: self._row_sums(D[number], A[number], number) if number else D[0].T @ rows for number in counted}
        along = sum(self.counts[number] * float((self.targets[number] * g).sum()) for number, g in G.items())
        square = sum(self.counts[number] * float((g * g).sum()) for number, g in G.items())
        # A sum that points away from the weights has no best scale: it is kept short until it turns.
        scale = max(along, SHORT * square**0.5) / max(square, 1e-30)
        loss = 1 - 2 * scale * along + scale**2 * square
        dD: dict[int, Tensor] = {}
        dA: dict[int, Tensor] = {}
        dZ = torch.zeros_like(Z)
        for number, g in G.items():
            R = (2 * self.counts[number] * scale) * (scale * g - self.targets[number])
            if number == 0:
                dD[0] = rows @ R.T
                dZ += (D[0] @ R[:, :-1]) @ self.change.T
            elif self.biased[number]:
                dD[number] = torch.addmm(R[:, -1], A[number], R[:, :-1].T)
                dA[number] = D[number] @ R[:, :-1]
            else:
                dD[number] = A[number] @ R.T
                dA[number] = D[number] @ R
        if pull:
            W, b = self.deeper[-1]
            rise = _short_of(margin, torch.addmm(b, A[-1], W.T), torch.sign(C))
            _add(dA, depth - 1, (-2 * pull / (margin * len(Z))) * rise @ W)
        dS: list[Tensor] = []
        for number in range(depth - 1):
            dS.append(dD[number] * E[number])
            _add(dD, number + 1, (dD[number] * S[number]) @ self.deeper[number][0].T)
        for number in range(depth - 2, -1, -1):
            back = dS[number] * (alpha * S[number] * (1 - S[number]))
            if number + 1 in dA:
                back.addcmul_(dA[number + 1], S[number])
            if number:
                _add(dA, number, back @ self.deeper[number - 1][0])
            else:
                dZ.addmm_(back, self.into)
        return loss, scale, dZ, dD[depth - 1]

    def shares(self, Z: Tensor, C: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
        """Inner products of the weighted gradients of candidates (m, m), and with the weights (m,).

        With multipliers s_i C_i the loss is 1 − 2 s·right + s·products·s.
        """
        A, _, D, _ = self._passes(Z, C, alpha)
        products, right = torch.zeros(len(Z), len(Z), dtype=Z.dtype), torch.zeros(len(Z), dtype=Z.dtype)
        for number, count in enumerate(self.counts):
            if not count:
                continue
            inputs = A[number] if number else self._rows(Z)
            if number and self.biased[number]:
                inputs = torch.cat([inputs, torch.ones_like(inputs[:, :1])], dim=1)
            products += count * (D[number] @ D[number].T) * (inputs @ inputs.T)
            right += count * ((D[number] @ self.targets[number]) * inputs).sum(dim=1)
        return products, right

    def _passes(self, Z: Tensor, C: Tensor, alpha: float) -> tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]:
        """What enters each layer, slopes of its units, the derivatives of the outputs times C behind and before those."""
        depth = len(self.deeper) + 1
        A, S = [Z], []
        z = torch.addmm(self.shift, Z, self.into.T)
        for number, (W, b) in enumerate(self.deeper):
            S.append(torch.sigmoid((alpha * z).clamp_(-STEEP, STEEP)))
            A.append(torch.relu(z))
            if number < depth - 2:
                z = torch.addmm(b, A[-1], W.T)
        D, E = [C], []
        for number in range(depth - 2, -1, -1):
            E.append(D[-1] @ self.deeper[number][0])
            D.append(E[-1] * S[number])
        return A, S, D[::-1], E[::-1]

    def _rows(self, Z: Tensor) -> Tensor:
        return torch.cat([Z @ self.change, torch.full_like(Z[:, :1], self.bias)], dim=1)

    def _row_sums(self, D: Tensor, A: Tensor, number: int) -> Tensor:
        G = D.T @ A
        return torch.cat([G, D.sum(dim=0)[:, None]], dim=1) if self.biased[number] else G


def _short_of(margin: float, outputs: Tensor, side: Tensor) -> Tensor:
    """(m, outputs): towards where outputs have to move, by how far they, or their gaps, are from a margin on their side."""
    if outputs.shape[1] == 1:
        return side * torch.relu(1 - side * outputs / margin)
    right = (side > 0).to(outputs)  # none of a candidate that does not count
    gaps = (outputs * right).sum(dim=1, keepdim=True) - outputs
    short = torch.relu(1 - gaps / margin) * (right.sum(dim=1, keepdim=True) - right)
    return (right * short.sum(dim=1, keepdim=True) - short) / (outputs.shape[1] - 1)


def counted(multipliers: Tensor, signs: Tensor) -> Tensor:
    """(m, outputs): how much the gradient of each output counts, of multipliers from 0 and signs, 1 for the right class."""
    if signs.shape[1] == 1:
        return multipliers * signs
    right = signs > 0
    against = multipliers.masked_fill(right, 0)
    return right * against.sum(dim=1, keepdim=True) - against


def counted_back(slopes: Tensor, signs: Tensor) -> Tensor:
    """Slopes in what `counted` returns, as slopes in the multipliers."""
    if signs.shape[1] == 1:
        return slopes * signs
    right = signs > 0
    return (slopes[right][:, None] - slopes).masked_fill_(right, 0)


def sparsity(differences: Tensor) -> tuple[float, Tensor]:
    """Mean over rows (m, e) of Σ|δ| / √(e Σδ²), 0.8 for normal numbers and less for sparse ones, and its gradient."""
    size = differences.square().sum(dim=1, keepdim=True).sqrt_().clamp_(min=1e-12)
    total = differences.abs().sum(dim=1, keepdim=True)
    many = differences.shape[1] ** 0.5 * len(differences)
    slope = differences.sign().sub_(differences * (total / size.square())).div_(size * many)
    return float((total / size).sum()) / many, slope


def _add(sums: dict[int, Tensor], number: int, part: Tensor) -> None:
    sums[number] = sums[number] + part if number in sums else part


def _tensor(array: Array, dtype: torch.dtype) -> Tensor:
    return torch.tensor(np.asarray(array), dtype=dtype)


State = dict[str, Any]
"Everything a descent needs to go on: arrays by name, and numbers."


def begin(setup: Setup, signs: Array, axes: int, rng: np.random.Generator, start: Array | None = None) -> State:
    """Candidates at random, or `start` (m, k); signs (m, outputs) is the side of each multiplier."""
    points = setup.spread * rng.standard_normal((len(signs), axes)) if start is None else start
    multipliers = rng.uniform(0.5, 1.5, signs.shape)
    state: State = {"points": points.astype(np.float32), "multipliers": multipliers.astype(np.float32)}
    for name in ("points", "multipliers"):
        state[f"{name} mean"] = state[f"{name} square"] = np.zeros_like(state[name])
    return state | {"signs": signs.astype(np.float32), "step": 0, "loss": 1.0, "scale": 1.0}


def advance(
    objective: Stationarity,
    setup: Setup,
    state: State,
    steps: int,
    edges: Array | None = None,
    check: Callable[[], None] = lambda: None,
) -> State:
    """Adam for so many steps more, `setup.steps` in all; `check` is called before each."""
    small = len(state["points"]) * len(objective.shift) < SMALL
    with threadpool_limits(1 if small else None):
        return _advance(objective, setup, state, steps, edges, check)


def _advance(
    objective: Stationarity,
    setup: Setup,
    state: State,
    steps: int,
    edges: Array | None,
    check: Callable[[], None],
) -> State:
    parts = {name: torch.tensor(value) for name, value in state.items() if isinstance(value, np.ndarray)}
    signs, (first, last) = parts["signs"], setup.softness
    across = None if edges is None else torch.tensor(edges, dtype=torch.float32)
    loss, scale, step = state["loss"], state["scale"], state["step"]
    for step in range(state["step"], min(state["step"] + steps, setup.steps)):
        check()
        share = step / max(setup.steps - 1, 1)
        warm = min(1.0, (step + 1) / max(WARM * setup.steps, 1))
        rate = setup.rate * warm * (0.5 + 0.5 * np.cos(np.pi * share))
        rate *= np.sqrt(1 - SQUARES ** (step + 1)) / (1 - MEANS ** (step + 1))
        loss, scale, dZ, dC = objective(
            parts["points"], counted(parts["multipliers"], signs), first * (last / first) ** share, setup.margin, setup.pull
        )
        if setup.sparse and across is not None:
            some = across[:, step % SHARES :: SHARES]
            dZ.addmm_(sparsity(parts["points"] @ some)[1], some.T, alpha=setup.sparse)
        if setup.prior:
            dZ.add_(parts["points"], alpha=2 * setup.prior)
        for name, slope in (("points", dZ), ("multipliers", counted_back(dC, signs))):
            mean, square = parts[f"{name} mean"], parts[f"{name} square"]
            mean.mul_(MEANS).add_(slope, alpha=1 - MEANS)
            square.mul_(SQUARES).addcmul_(slope, slope, value=1 - SQUARES)
            parts[name].addcdiv_(mean, square.sqrt().add_(1e-12), value=-float(rate))
        parts["multipliers"].clamp_(min=0)
    return {name: part.numpy() for name, part in parts.items()} | {"step": step + 1, "loss": loss, "scale": scale}


def solution(space: Coordinates, state: State) -> Solution:
    """What a descent has come to."""
    multipliers = counted(torch.tensor(state["multipliers"]), torch.tensor(state["signs"])) * state["scale"]
    return Solution(state["points"] @ space.axes.astype(np.float32), multipliers.numpy(), state["loss"])
