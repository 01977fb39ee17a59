"""Training many two-layer networks side by side, each on a few points of its own, until the margin is all that grows.

N(x) = Σ_j v_j relu(w_j·x + b_j), without an output bias. As in `max_margin`, steps follow the gradient of the logarithm
of the loss, every network with a step length of its own, here with Nesterov's momentum: it comes to the same networks in
an eighth of the steps. A network's first layer moves only inside the span of its points, so whatever the dimension is,
training happens in as many coordinates as there are points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_expit, logsumexp

from divulge.arrays import Array
from divulge.solvers.margin.max_margin import ARMIJO, SHORTEST, SHRINK

FIRST_FALL, FALL_SHARE, LAST_FALL = 0.3, 0.02, 1.4
"A step may lower the log-loss by this share of itself, within these limits; longer last steps throw points off the margin."
GROW = 1.2
"By how much a step may be longer than the one before; with momentum less than without."
PATIENCE = 100
"A network whose log-loss has not fallen by that in so many steps has come to its end."
FLAT = 1e-12
"A squared gradient of the log-loss that counts as 0: a guard against division by it."
CACHED = 40_000
"Hidden units of a batch: with more, a step no longer fits the processor's cache and batching costs time."
CHUNK = 500
"Points asked at once: memory, no result depends on it."


@dataclass(frozen=True)
class Trials:
    """Trained networks and their points' margins."""

    inside: Array
    "(trials, coordinates + 1, hidden): the first layer in coordinates of the points' span, the bias last."
    outer: Array
    "(trials, hidden): v."
    axes: Array
    "(trials, coordinates, d): an orthonormal basis of each span."
    start: Array
    "(trials, d, hidden): the first layer's start, which still holds outside the span."
    margins: Array
    "(trials, n): y N(x) of the training points."
    log_loss: Array
    "(trials,): logarithm of the mean logistic loss."
    steps: Array

    @property
    def margin(self) -> Array:
        """(trials,): the least y N(x), which is the margin q where it is positive."""
        least: Array = self.margins.min(axis=1)
        return least

    def values(self, Z: Array) -> Array:
        """(trials, rows): what every network says at points Z (rows, d)."""
        Z = np.asarray(Z, dtype=self.inside.dtype)
        return np.array([self._asked(trial, Z) for trial in range(len(self.inside))])

    def layers(self, trial: int) -> list[tuple[Array, Array]]:
        """One network as layers (W, b), in the coordinates of the data and in double precision."""
        axes, start = self.axes[trial].astype(float), self.start[trial].astype(float)
        inside = self.inside[trial].astype(float)
        W = start - axes.T @ (axes @ start) + axes.T @ inside[:-1]
        return [(W.T, inside[-1]), (self.outer[trial].astype(float)[None], np.zeros(1))]

    def _asked(self, trial: int, Z: Array) -> Array:
        axes, weights = self.axes[trial], self.inside[trial]
        whole = len(axes) == axes.shape[1]
        if not whole:
            weights = np.concatenate([weights, self.start[trial]])
        found = []
        for rows in np.split(Z, range(CHUNK, len(Z), CHUNK)):
            within = rows @ axes.T
            one = np.ones((len(rows), 1), rows.dtype)
            parts = [within, one] if whole else [within, one, rows - within @ axes]
            hidden = np.concatenate(parts, axis=1) @ weights
            found.append(np.maximum(hidden, 0, out=hidden) @ self.outer[trial])
        return np.concatenate(found)


def train(
    X: Array,
    y: Array,
    rng: np.random.Generator,
    *,
    hidden: int = 10_000,
    first: float = 1e-4,
    depth: float = 1000.0,
    steps: int = 1000,
    momentum: bool = True,
    dtype: type = np.float32,
) -> Trials:
    """Train a network for each of X (trials, n, d) with labels y (trials, n) of −1 and 1.

    Each starts with a first layer (and biases) of normal numbers of deviation `first` and v uniform within 1/√hidden, and
    ends when its margin is `depth`, where its path ends, or after so many `steps`. Margins of points differ by logarithms of
    their multipliers, which do not grow: the deeper, the nearer to the margin they are in proportion.
    """
    trials, n, d = X.shape
    start = first * rng.standard_normal((trials, d, hidden), dtype=dtype)
    shifts = first * rng.standard_normal((trials, 1, hidden), dtype=dtype)
    outer = ((2 * rng.random((trials, hidden), dtype=dtype) - 1) / np.sqrt(hidden)).astype(dtype)
    axes = np.linalg.svd(np.asarray(X, dtype=float), full_matrices=False)[2]
    points: Array = np.concatenate([X @ axes.transpose(0, 2, 1), np.ones((trials, n, 1))], axis=2).astype(dtype)
    axes = axes.astype(dtype)
    inside = np.concatenate([axes @ start, shifts], axis=1)
    signs = np.asarray(y, dtype=float)
    found = Trials(inside, outer, axes, start, np.zeros((trials, n)), np.zeros(trials), np.zeros(trials, dtype=int))
    batch = max(1, CACHED // hidden)
    for low in range(0, trials, batch):
        part = slice(low, low + batch)
        _descend(found, np.arange(trials)[part], _Task(points[part], signs[part]), depth, steps, momentum)
    return found


@dataclass(frozen=True)
class _Task:
    points: Array
    "(trials, n, coordinates + 1), the last of them 1."
    signs: Array

    def only(self, which: Array) -> _Task:
        return _Task(self.points[which], self.signs[which])

    def look(self, inside: Array, outer: Array) -> _Seen:
        """Margins, and for every unit the points that reach it."""
        values = self.points @ inside
        reached = np.empty_like(values)
        np.greater(values, 0, out=reached)
        np.maximum(values, 0, out=values)
        margins = self.signs * (values @ outer[:, :, None])[:, :, 0].astype(float)
        # log(log(1 + exp(-m))), which is -m where the loss is too small for a number
        each = np.where(margins < 30, np.log(np.maximum(-log_expit(margins), 1e-300)), -margins)
        return _Seen(inside, outer, reached, margins, logsumexp(each, axis=1) - np.log(margins.shape[1]))

    def slopes(self, seen: _Seen) -> tuple[Array, Array, Array]:
        """The log-loss's gradient in `inside` and `outer`, and its square.

        Units reached by the same points have the same pull: the gradient in w_j is v_j times it, in v_j it is w_j times it.
        """
        weights = np.exp(log_expit(-seen.margins) - seen.log_loss[:, None]) / seen.margins.shape[1]
        back = (self.points * (-weights * self.signs)[:, :, None].astype(self.points.dtype)).transpose(0, 2, 1)
        pull = np.ascontiguousarray(back) @ seen.reached
        outer = np.einsum("kcm,kcm->km", seen.inside, pull)
        pull *= seen.outer[:, None, :]
        square = np.einsum("kcm,kcm->k", pull, pull) + np.einsum("km,km->k", outer, outer)
        return pull, outer, square.astype(float)


@dataclass
class _Seen:
    inside: Array
    outer: Array
    reached: Array
    "(trials, n, hidden): 1 where a unit is active at a point, else 0."
    margins: Array
    log_loss: Array

    def only(self, which: Array) -> _Seen:
        return _Seen(self.inside[which], self.outer[which], self.reached[which], self.margins[which], self.log_loss[which])

    def put(self, which: Array, other: _Seen) -> None:
        for name in ("inside", "outer", "reached", "margins", "log_loss"):
            getattr(self, name)[which] = getattr(other, name)


def _descend(found: Trials, numbers: Array, task: _Task, depth: float, steps: int, momentum: bool) -> None:
    """Train the networks of these numbers and write them back; those that are done leave the batch."""
    seen = last = task.look(found.inside[numbers], found.outer[numbers])
    rate, age, before = np.ones(len(numbers)), np.zeros(len(numbers)), np.full(len(numbers), np.inf)
    for step in range(steps + 1):
        done = (seen.margins.min(axis=1) >= depth) | (step == steps)
        if step % PATIENCE == 0:
            done |= before - seen.log_loss < SHORTEST
            before = seen.log_loss.copy()
        if done.any():
            ended, stay = numbers[done], ~done
            found.inside[ended], found.outer[ended] = seen.inside[done], seen.outer[done]
            found.margins[ended], found.log_loss[ended], found.steps[ended] = seen.margins[done], seen.log_loss[done], step
            numbers, rate, age, before = numbers[stay], rate[stay], age[stay], before[stay]
            task, seen, last = task.only(stay), seen.only(stay), last.only(stay)
        if not len(numbers):
            return
        ahead = _carried(task, seen, last, age) if momentum else seen
        inward, outward, square = task.slopes(ahead)
        square = np.maximum(square, FLAT)
        fall = np.clip(-FALL_SHARE * ahead.log_loss, FIRST_FALL, LAST_FALL)
        rate = np.minimum(rate * GROW, fall / square)
        seen, last = _stepped(task, ahead, inward, outward, square, rate), seen
        age += 1


def _carried(task: _Task, seen: _Seen, last: _Seen, age: Array) -> _Seen:
    """Every network carried on by its last move; one that would climb stays, and its `age` begins again."""
    share = (age / (age + 3)).astype(seen.inside.dtype)
    ahead = task.look(
        seen.inside + share[:, None, None] * (seen.inside - last.inside),
        seen.outer + share[:, None] * (seen.outer - last.outer),
    )
    climbs = np.flatnonzero(ahead.log_loss > seen.log_loss + SHORTEST)
    if len(climbs):
        ahead.put(climbs, seen.only(climbs))
        age[climbs] = 0
    return ahead


def _stepped(task: _Task, seen: _Seen, inward: Array, outward: Array, square: Array, rate: Array) -> _Seen:
    """One step down for every network; `rate` is shortened in place where a step does not deliver."""

    def moved(which: Array | slice) -> _Seen:
        by = rate[which].astype(inward.dtype)
        return (task if isinstance(which, slice) else task.only(which)).look(
            seen.inside[which] - by[:, None, None] * inward[which], seen.outer[which] - by[:, None] * outward[which]
        )

    def delivers(which: Array | slice, trial: _Seen) -> Array:
        predicted, fell = rate[which] * square[which], seen.log_loss[which] - trial.log_loss
        enough: Array = (fell >= ARMIJO * predicted) | ((predicted <= SHORTEST) & (fell > -SHORTEST))
        return enough

    trial = moved(slice(None))
    short = np.flatnonzero(~delivers(slice(None), trial))
    while len(short):
        rate[short] *= SHRINK
        again = moved(short)
        trial.put(short, again)
        short = short[~delivers(short, again)]
    return trial
