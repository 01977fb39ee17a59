"""Points that raise a learner's validation loss most, where its penalties are fixed and where they answer to the attack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from divulge.arrays import Array
from divulge.solvers.bilevel.inner import Trained

WAIT = 15
"Iterations without progress after which a start that is behind the best is stuck: of 100, it can begin anew three times."
PROGRESS = 1e-3
"Relative rise of the loss in one iteration that counts as progress: at this pace 100 would add a tenth."
BEHIND = 0.05
"How far behind the best, relatively, a start has to be to begin anew: one that may still win goes on."
LATEST = 0.6
"Share of the iterations after which beginning anew no longer pays: steps that fall to 0 need the rest to get anywhere."
TINY = float(np.finfo(np.float32).tiny)
"Against division by 0."


class Trainer(Protocol):
    """Trains a batch of problems and differentiates: `unrolled.EarlyStopped`, `implicit.Converged`, or the like."""

    def __call__(self, points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained: ...


@dataclass(frozen=True, eq=False)
class Starts:
    """Points to begin from (starts, points, features), and their targets (starts, outputs, points), which stay."""

    points: Array
    targets: Array
    rows: Array
    "(starts, points): which of the points one could begin from these are."

    def only(self, which: Array) -> Starts:
        return Starts(self.points[which], self.targets[which], self.rows[which])

    def and_also(self, others: Starts) -> Starts:
        pairs = zip(vars(self).values(), vars(others).values(), strict=True)
        return Starts(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, eq=False)
class Ascent:
    """The best of several ascents."""

    points: Array
    "(points, features)"
    targets: Array
    "(outputs, points)"
    rows: Array
    "(points,): what they began as."
    strengths: Array
    "(penalties,): the penalties they were made against, as logarithms."
    value: float
    "Validation loss of the model trained with them."
    restarts: int = 0


Draw = Callable[[int], Starts]
"So many starts, new ones at every call."
Project = Callable[[Array, Array], Array]
"Points (starts, points, features) with their targets, moved to where they may be."


def ascend(
    train: Trainer,
    draw: Draw,
    strengths: Array,
    project: Project,
    *,
    starts: int,
    iterations: int,
    step: float | Array,
    descent: float = 0.0,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    also: Starts | None = None,
) -> Ascent:
    """Projected ascent on the validation loss L; with `descent`, the penalties λ (penalties,) descend on it meanwhile.

    Each point p ← Π(p + η_t ∂L/∂p / ‖∂L/∂p‖₂) and λ ← clip(λ − δ_t ∂L/∂λ / ‖∂L/∂λ‖_∞, bounds) with η_t = step (1 − t/T) and
    δ_t = descent (1 − t/T): `step` is the length of a point's first move, `descent` the largest first change of a penalty.
    With a step for each feature (features,), it is 1 in p/step, in which the gradient is step · ∂L/∂p.
    Starts that are stuck behind the best begin anew. With fixed penalties the best points seen win; with moving ones the
    last, as earlier ones were made against other penalties. `also` gives starts that come first.
    """
    begun = draw(starts) if also is None else also.and_also(draw(starts)) if starts else also
    held = Starts(project(begun.points, begun.targets), begun.targets.copy(), begun.rows.copy())
    count = len(held.points)
    lam = np.tile(strengths, (count, 1))
    clock, span = np.zeros(count), np.full(count, float(iterations))
    best, best_points, since = np.full(count, -np.inf), held.points.copy(), np.zeros(count, dtype=int)
    restarts, rate = 0, getattr(train, "rate", None)
    for iteration in range(iterations + 1):
        trained = train(held.points, held.targets, lam, penalties=descent > 0)
        if getattr(train, "rate", None) != rate:  # a training that diverged goes on in smaller steps: another problem
            rate, best = getattr(train, "rate", None), np.full(count, -np.inf)
        better = trained.value > best * (1 + PROGRESS * np.sign(best))
        since = np.where(better, 0, since + 1)
        higher = (trained.value > best) | (descent > 0)
        best_points[higher] = held.points[higher]
        best = np.where(higher, trained.value, best)
        if iteration == iterations:
            break
        scaled = trained.point_gradients * step
        moves = step * scaled / np.maximum(np.linalg.norm(scaled, axis=2, keepdims=True), TINY)
        sizes = 1 - clock / span
        moved = project(held.points + sizes[:, None, None] * moves, held.targets)
        held = replace(held, points=moved)
        if descent:
            # In logarithms the derivative of a weak penalty all but vanishes, so only its direction counts.
            largest = np.abs(trained.strength_gradients).max(axis=1, keepdims=True)
            directions = trained.strength_gradients / np.maximum(largest, TINY)
            lam = np.clip(lam - descent * (1 - iteration / iterations) * directions, *bounds)
        clock += 1
        stuck = (since >= WAIT) & (best < (1 - BEHIND) * best.max()) & (iteration < LATEST * iterations) & (descent == 0)
        if stuck.any():
            new = draw(int(stuck.sum()))
            for kept, fresh in zip((held.points, held.targets, held.rows), vars(new).values(), strict=True):
                kept[stuck] = fresh
            held.points[stuck] = project(held.points[stuck], held.targets[stuck])
            best[stuck], since[stuck], clock[stuck], span[stuck] = -np.inf, 0, 0, iterations - iteration
            restarts += int(stuck.sum())
    winner = int(best.argmax())
    return Ascent(
        best_points[winner],
        held.targets[winner],
        held.rows[winner],
        lam[winner],
        float(best[winner]),
        restarts,
    )


def tuned(train: Trainer, features: int, outputs: int, start: Array, bounds: tuple[float, float], iterations: int) -> Array:
    """The penalties λ (penalties,) with the least validation loss L and no points added, by Rprop.

    λ_j ← clip(λ_j − Δ_j sign ∂L/∂λ_j, bounds), where Δ_j halves when the sign turns and grows by a fifth, up to 1, when not.
    """
    lam, sizes, last = start[None].astype(float), np.full((1, len(start)), 0.5), np.zeros((1, len(start)))
    for _ in range(iterations):
        sign = np.sign(train(np.zeros((1, 0, features)), np.zeros((1, outputs, 0)), lam).strength_gradients)
        sizes = np.where(sign * last < 0, sizes / 2, np.minimum(sizes * 1.2, 1.0))
        lam = np.clip(lam - sizes * sign, *bounds)
        last = sign
    return np.asarray(lam[0])
