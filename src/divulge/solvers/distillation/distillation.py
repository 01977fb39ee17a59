"""Train a copy on what a teacher answered: its values and, where there are any, its input gradients.

    loss = ‖D (J - Ĵ)‖² / ‖D J‖² + 0.3 ‖z - ẑ‖² / ‖z‖²                    of dense copies
    loss = 1 - ⟨D J, D Ĵ⟩ / (‖D J‖ ‖D Ĵ‖) + 0.3 ‖z - ẑ‖² / ‖z‖²           of copies with convolutions

over the queries, with centred logits z (n, k), their Jacobians J (n, k, d) and the combinations D (n, o, k) of logits whose
gradients are known.

While the directions of gradients are not found, the squared distance is least where Ĵ is 0: it flattens a copy that values
would have taught. So where directions are hard to find they are taught without a length, and values set the size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from divulge.arrays import Array
from divulge.solvers.shared import affine

Watch = Callable[[int], None]

CLASSES = 1000
"Whole numbers beyond this are counts, not classes."
RATE = 1e-2
"The highest learning rate of the one-cycle schedule: 0.01 and 0.003 gave copies as good (docs/surrogate.md)."
VALUES = 0.3
"The weight of values beside gradients."
PROBES = 2
"Random mixtures of outputs whose gradients are matched in a step: as good as all (agreement 0.918, 0.912), sooner done."
BATCH = 100
"Queries in one step."
CLEAR = 1e3
"A probability this many times its last decimal has a gradient with three digits."
TINY = 1e-12
"Keeps answers that are all alike from being divided by 0."
FLOOR = 1e-30
"Smaller probabilities are rounding errors of single precision."
RIDGE = 1e-8
"Of values alone, relative to the points: picks the smallest of the linear maps that fit."
NOTICES = 40
"How often training reports."


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a teacher answered, read as logits; those of classes are known up to a shift."""

    X: Array
    "(n, d)"
    logits: Array
    "(n, k), with mean 0 over the classes; k is 1 for a score of two classes."
    directions: Array | None = None
    "(n, k, k) or (n, 1, k): combinations of logits ..."
    slopes: Array | None = None
    "(n, k, d) or (n, 1, d): ... whose input gradients these are."

    @property
    def full(self) -> Array:
        """(n,): whether the gradient of every logit is known at a point."""
        k = self.logits.shape[1]
        if self.directions is None or self.directions.shape[1] < k:
            return np.zeros(len(self.X), bool)
        whole = _centring(np.ones((1, k))) if k > 1 else np.ones((1, 1, 1))
        return np.asarray(np.isclose(self.directions, whole).all((1, 2)))


def lesson(X: Array, values: Array, gradients: Array | None = None) -> Lesson:
    """Read answers: values (n, k) that are logits or probabilities, or (n,), a score or a probability of the second class.

    Gradients are (n, k, d) of every output, or (n, d), of the only output or else of the largest.
    """
    values = np.asarray(values, float).reshape(len(X), -1)
    k = values.shape[1]
    probable = bool(values.min() >= 0 and values.max() <= 1) and (k == 1 or affine.adds_to_one(values))
    known, logits = np.ones(values.shape, bool), values
    if probable:
        step = affine.resolution(values).step
        floor = max(FLOOR, step)
        logits = np.log(np.maximum(values, floor)) - (np.log(np.maximum(1 - values, floor)) if k == 1 else 0)
        known = (values * (1 - values) if k == 1 else values) > max(FLOOR, CLEAR * step)
    logits = logits - (logits.mean(1, keepdims=True) if k > 1 else 0)
    if gradients is None:
        return Lesson(X, logits)
    slopes = np.asarray(gradients, float).reshape(len(X), -1, X.shape[1])
    if slopes.shape[1] == k:
        scale = np.where(known, values * (1 - values) if k == 1 else values, np.inf) if probable else np.ones_like(values)
        directions = _centring(known) if k > 1 else known[:, :, None].astype(float)
        return Lesson(X, logits, directions, directions @ (slopes / np.maximum(scale, FLOOR)[:, :, None]))
    if slopes.shape[1] != 1:
        raise ValueError(f"expected gradients of 1 or {k} outputs, got {slopes.shape[1]}")
    top = values.argmax(1)
    directions = np.eye(k)[top][:, None]
    if probable:
        best = values[np.arange(len(X)), top][:, None, None]
        return Lesson(X, logits, directions - values[:, None], slopes / best)
    return Lesson(X, values, directions, slopes)


def linear(lesson: Lesson) -> tuple[Array, Array]:
    """The W (k, d) and b (k,) nearest to a lesson: exact for a linear teacher from one query with gradients."""
    X, logits = lesson.X, lesson.logits
    W = np.zeros((logits.shape[1], X.shape[1]))
    ridge = RIDGE
    if lesson.slopes is not None and lesson.full.any():
        W = lesson.slopes[lesson.full].mean(0)
        ridge = 1.0  # a gradient says as much about the map as a point of its own size
    centre = X.mean(0)
    rest = logits - X @ W.T
    points = X - centre
    rest = rest - rest.mean(0)
    penalty = ridge * max(np.square(points).sum(), 1) / len(X)
    if len(X) > X.shape[1]:
        W = W + np.linalg.solve(points.T @ points + penalty * np.eye(X.shape[1]), points.T @ rest).T
    else:
        W = W + np.linalg.solve(points @ points.T + penalty * np.eye(len(X)), rest).T @ points
    return W, logits.mean(0) - W @ centre


def fit(name: str, module: nn.Module, lesson: Lesson, seed: int, steps: int, watch: Watch = lambda step: None) -> None:
    """Fit a module of a named architecture to a lesson, in place: a linear one at once, any other by training."""
    if name != "one-layer":
        train(module, lesson, seed, steps=steps, watch=watch)
        return
    for part, numbers in zip(module.parameters(), linear(lesson), strict=True):
        part.data = _single(numbers)
    watch(steps)


def train(
    module: nn.Module,
    lesson: Lesson,
    seed: int,
    *,
    steps: int,
    rate: float = RATE,
    values: float = VALUES,
    watch: Watch = lambda step: None,
) -> tuple[float, float]:
    """Fit a module to a lesson by Adam, in place. Returns the last misfits of values and of gradients, as in the loss."""
    random = torch.Generator().manual_seed(seed)
    X, logits = _single(lesson.X), _single(lesson.logits)
    directions, slopes = (None if part is None else _single(part) for part in (lesson.directions, lesson.slopes))
    spread = logits.square().mean().clamp_min(TINY)
    steepness = torch.ones(()) if slopes is None else slopes.square().sum((1, 2)).mean().clamp_min(TINY)
    turning = any(isinstance(part, nn.Conv2d) for part in module.modules())
    apart = _turned if turning else partial(_distance, steepness=steepness)
    shifts = logits.shape[1] > 1 and (directions is None or directions.shape[1] > 1)
    optimiser = torch.optim.Adam(module.parameters(), rate, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    module.train(len(X) > 1)  # batch norms learn from the batch, at the price of gradients that mix its rows a little
    misfit = off = torch.zeros(())
    for step in range(steps):
        rows = torch.randperm(len(X), generator=random)[:BATCH] if len(X) > BATCH else torch.arange(len(X))
        points = X[rows].requires_grad_(slopes is not None)
        out = module(points)
        misfit = ((out - out.mean(1, keepdim=True) if shifts else out) - logits[rows]).square().mean() / spread
        loss = misfit
        if directions is not None and slopes is not None:
            off = _off(out, points, directions[rows], slopes[rows], apart, random)
            loss = off + values * misfit
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        schedule.step()
        if step % -(-steps // NOTICES) == 0 or step == steps - 1:
            watch(step + 1)
    settle(module, X)
    return float(misfit.detach()), float(off.detach())


def named(module: nn.Module, X: Array) -> Array:
    """The class (n,) that a module names for each point."""
    learning = module.training
    module.eval()
    with torch.no_grad():
        logits = torch.cat([module(rows) for rows in torch.split(_single(X), 10 * BATCH)])
    module.train(learning)
    return classes(logits.numpy(), 0.0)


def outputs(*answers: Array) -> list[Array]:
    """Answers as (n, k): those that are class numbers become ones and zeros."""
    columns = [np.asarray(one, float).reshape(len(one), -1) for one in answers]
    together = np.concatenate(columns)
    whole = together.shape[1] == 1 and (together == np.round(together)).all() and together.min() >= 0
    if not whole:
        return columns
    count = max(int(together.max()) + 1, 2)
    if count > CLASSES:  # a number, not a class
        return columns
    return [np.eye(count)[one[:, 0].astype(int)] for one in columns]


def classes(values: Array, cut: float | None = None) -> Array:
    """The class (n,) that values (n, k) name: the largest, or for one output whether it is above the middle."""
    if values.shape[1] > 1:
        return np.asarray(values.argmax(1))
    if cut is None:
        cut = 0.5 if values.min() >= 0 and values.max() <= 1 else 0.0
    return np.asarray(values[:, 0] > cut).astype(int)


def settle(module: nn.Module, X: Tensor) -> None:
    """Let batch norms see all points, and hold still from then on: no row mixes with another any more."""
    norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None  # a plain mean over batches
        norm.reset_running_stats()
    if norms and len(X) > 1:
        module.train()
        with torch.no_grad():
            for rows in torch.split(X.detach(), 10 * BATCH):
                module(rows)
    module.eval()


def _off(
    out: Tensor,
    points: Tensor,
    directions: Tensor,
    slopes: Tensor,
    apart: Callable[[Tensor, Tensor], Tensor],
    random: torch.Generator,
) -> Tensor:
    """How far apart gradients (n, d) are, of each output, or in the mean of some random mixtures of all."""
    count = directions.shape[1]
    total = torch.zeros(())
    probes = min(PROBES, count)
    for _ in range(probes):
        signs = torch.randint(0, 2, (len(out), count, 1), generator=random).float() * 2 - 1
        mixture = (signs * directions).sum(1)
        mixed = torch.autograd.grad((out * mixture).sum(), points, create_graph=True)[0]
        total = total + apart(mixed, (signs * slopes).sum(1)) / probes
    return total


def _distance(found: Tensor, right: Tensor, steepness: Tensor) -> Tensor:
    """Squared, in the mean over rows."""
    return (found - right).square().sum(1).mean() / steepness


def _turned(found: Tensor, right: Tensor) -> Tensor:
    """1 - cosine of all rows together, which keeps what they are beside each other; 0 for the same up to a factor."""
    return torch.ones(()) - functional.cosine_similarity(found.flatten(), right.flatten(), dim=0)


def _centring(known: Array) -> Array:
    """(n, k, k): each row's mean over its known classes taken away, and classes that are not known left out."""
    known = np.asarray(known, float)
    both = known[:, :, None] * known[:, None, :]
    return np.asarray(np.eye(known.shape[1]) * known[:, :, None] - both / np.maximum(known.sum(1), 1)[:, None, None])


def _single(array: Array) -> Tensor:
    return torch.tensor(np.asarray(array), dtype=torch.float32)
