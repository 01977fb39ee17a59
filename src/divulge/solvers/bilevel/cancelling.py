"""Points whose gradient at given parameters cancels that of the clean ones (Lu, Kamath and Yu 2023, arXiv:2303.03592).

A learner with a score f = w·x + b and a convex objective ends at θ = (w, b) if and only if the gradient vanishes there:
g + Σᵢ ℓ′(fᵢ, yᵢ)(xᵢ, 1) = 0, with g that of the clean points and the penalty. `cancelled` moves points of fixed labels until
it does. `reach` says how many points in a box are needed at least, and which: two, repeated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import lambertw

from divulge.arrays import Array
from divulge.solvers.bilevel.inner import RISKS

SIDES = {"logistic": (0.0, 1.0), "squared": (-1.0, 1.0), "squared_hinge": (-1.0, 1.0)}
"The targets of two classes, by risk: the one whose points pull the score down, and the one whose points pull it up."
SECTIONS = 40
"Of an interval, by thirds: (2/3)⁴⁰ of it is 1e-7."
GRID, ZOOMS = 65, 7
"Values that an interval of logarithms is searched at, and how often around the best: of a range of 10³⁶, 1e-9 is left."
ITERATIONS = 500
"Of the descent, at most: with digits, 2000 leave a tenth less of the gradient; from copies of two points 500 leave 1e-3."
MEMORY, DECREASE, HALVINGS = 10, 1e-4, 30
"Of the descent, those of its authors; and a guard."
FIRST = 0.01
"Length of the first move, in diagonals of the box: points that go far may end where their loss has no slope."
SMALLEST = 1e-12
"Fall of ½‖r‖², in that without points, which a step promises and is not worth taking: r is then 1e-6 of it."
TINY = float(np.finfo(float).tiny)
"Against division by 0."


@dataclass(frozen=True, eq=False)
class Objective:
    """What a learner of two classes minimises, by its clean part's gradient at given parameters; and where points may be."""

    risk: str
    w: Array
    "(features,)"
    b: float
    g: Array
    "(features,): gradient of the clean points and the penalty in w."
    g_b: float
    low: Array
    high: Array

    @classmethod
    def at(cls, risk: str, w: Array, b: float, X: Array, Y: Array, weights: Array, *, low: Array, high: Array) -> Objective:
        """Of clean points X (n, features) with targets Y (n,), and `weights` of the penalty ½ Σ weightⱼ wⱼ²."""
        s = slopes(risk, (X @ w + b)[None], Y[None])[0]
        return cls(risk, w, b, s @ X + weights * w, float(s.sum()), low, high)

    def slopes(self, f: Array, y: Array) -> Array:
        """ℓ′(f, y), one for each point."""
        return np.asarray(slopes(self.risk, f[None], y[None])[0])

    def left(self, X: Array, y: Array, counts: Array | None = None) -> Array:
        """(features + 1,): the gradient with points X of targets y, each so many times."""
        s = self.slopes(X @ self.w + self.b, y) * (1.0 if counts is None else counts)
        return np.append(self.g + s @ X, self.g_b + s.sum())


def slopes(risk: str, f: Array, y: Array) -> Array:
    """∂ℓ/∂f for scores and targets (outputs, points)."""
    return np.asarray(RISKS[risk].first_derivative(f, y))


@dataclass(frozen=True, eq=False)
class Reach:
    """The fewest points, as a real number, with which training ends at the parameters."""

    needed: float
    "∞ where none do."
    X: Array
    "(2, features): the point that pulls the score down and the one that pulls it up."
    y: Array
    "(2,): their targets."
    counts: Array
    "(2,): how often each is there; they sum to `needed`."


def reach(problem: Objective) -> Reach:
    """The threshold, exactly: a convex programme in two numbers.

    Let the points that pull down have the total pull S = Σ|ℓ′| and the moment M = Σ|ℓ′|x, those that pull up S + g_b and
    M + g. As 1/|ℓ′| is convex in the score, so many pulls at the mean score M·w/S + b cost least when all points of a label
    are their mean: S/|ℓ′|(M·w/S + b) points. The sum for both labels is convex in S and t = M·w. The box leaves M an
    interval in each feature, and so t an interval.
    """
    low, high, w = problem.low, problem.high, problem.w
    span = high - low
    nowhere = Reach(np.inf, np.stack([low, low]), np.array(SIDES[problem.risk]), np.full(2, np.inf))
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.maximum(problem.g_b * low - problem.g, problem.g - problem.g_b * high) / span
    wanted = np.where(span > 0, wanted, np.where(np.abs(problem.g - problem.g_b * low) > 0, np.inf, 0.0))
    least = max(0.0, -problem.g_b, float(wanted.max(initial=0.0)))
    if not np.isfinite(least):
        return nowhere
    scale = max(least, 1.0)
    bottom, top = np.log(scale * 1e-12), np.log(scale * 1e24)
    for _ in range(ZOOMS):
        grid = np.linspace(bottom, top, GRID)
        costs, _ = _cheapest(problem, least + np.exp(grid))
        if not np.isfinite(costs).any():
            return nowhere
        best = int(costs.argmin())
        bottom, top = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, GRID - 1)])
    pull = np.array([least + np.exp(grid[best])])
    cost, t = _cheapest(problem, pull)
    least_moment, most_moment = _moments(problem, pull)
    fewest = np.where(w > 0, least_moment, most_moment)[0]
    most = np.where(w > 0, most_moment, least_moment)[0]
    along = (t[0] - fewest @ w) / max(float((most - fewest) @ w), TINY)
    down = fewest + np.clip(along, 0, 1) * (most - fewest)
    moments, pulls = np.stack([down, down + problem.g]), np.array([pull[0], pull[0] + problem.g_b])
    X = np.clip(moments / np.maximum(pulls, TINY)[:, None], low, high)
    y = np.array(SIDES[problem.risk])
    # The slope of a point far on its right side underflows: as many copies as there are numbers would be needed.
    return Reach(float(np.exp(cost[0])), X, y, pulls / np.maximum(np.abs(problem.slopes(X @ w + problem.b, y)), TINY))


def _moments(problem: Objective, pull: Array) -> tuple[Array, Array]:
    """The least and the most that M may be in each feature, (pulls, features): both labels' means are in the box."""
    down, up = pull[:, None], pull[:, None] + problem.g_b
    least = np.maximum(down * problem.low, up * problem.low - problem.g)
    return least, np.maximum(least, np.minimum(down * problem.high, up * problem.high - problem.g))


def _cheapest(problem: Objective, pull: Array) -> tuple[Array, Array]:
    """For each total pull S: the logarithm of the fewest points, and t."""
    w, b, (down, up) = problem.w, problem.b, SIDES[problem.risk]
    rise, other = float(problem.g @ w), pull + problem.g_b
    bottom, top = _moments(problem, pull)
    low = np.where(w > 0, bottom, top) @ w
    high = np.where(w > 0, top, bottom) @ w
    if problem.risk != "logistic":  # beyond its target a point pulls no more, or the other way
        low = np.maximum(low, pull * (down - b))
        high = np.minimum(high, other * (up - b) - rise)
    empty = low > high

    def cost(t: Array) -> Array:
        """As a logarithm: far out a pull is less than the least number."""
        rest = np.log(pull) - _log_pull(problem.risk, t / pull + b, -1)
        scores = (t + rise) / np.maximum(other, TINY) + b
        ups = np.where(other > 0, np.log(other) - _log_pull(problem.risk, scores, 1), -np.inf)
        return np.asarray(np.logaddexp(rest, ups))

    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(SECTIONS):
            third = (high - low) / 3
            left, right = low + third, high - third
            worse = cost(left) > cost(right)
            low, high = np.where(worse, left, low), np.where(worse, high, right)
        t = (low + high) / 2
        return np.where(empty, np.inf, cost(t)), t


def _log_pull(risk: str, f: Array, side: int) -> Array:
    """log |ℓ′(f)| of the label that pulls to this side, −1 or 1."""
    if risk == "logistic":
        return np.asarray(-np.logaddexp(0, side * f))
    return np.asarray(np.log(np.maximum(1 - side * f, 0)) + (np.log(2) if risk == "squared_hinge" else 0.0))


def published_bound(problem: Objective) -> float:
    """What no fewer points reach, in a box or without: θ·∇ / sup m |ℓ′(m)| for margins m.

    Points reach θ only if their pull along θ is that of the clean part. The supremum is W(1/e) for the logistic loss.
    """
    along = float(problem.w @ problem.g + problem.b * problem.g_b)
    most = {"logistic": float(lambertw(np.exp(-1)).real), "squared": 0.25, "squared_hinge": 0.5}[problem.risk]
    return max(0.0, along) / most


def cancelled(problem: Objective, X: Array, y: Array) -> Array:
    """Points (n, features) of targets y (n,), begun at X, that leave least of the gradient r: ½‖r‖² descends in the box.

    Its gradient in a point is s r + ℓ″ (x·r + r_b) w with s = ℓ′. The method is that of spectral projected gradients
    (Birgin, Martínez and Raydan 2000): steps of Barzilai and Borwein's length, halved until they end below the worst of the
    last `MEMORY` values.
    """
    risk, w = RISKS[problem.risk], problem.w
    size = float(np.sum(problem.g**2) + problem.g_b**2) or 1.0

    def left(P: Array) -> tuple[float, Array]:
        s = problem.slopes(P @ w + problem.b, y)
        r, r_b = problem.g + s @ P, problem.g_b + s.sum()
        turned = risk.hessian_product(s[None], y[None], (P @ r + r_b)[None])[0]
        return float(r @ r + r_b**2) / 2 / size, (np.outer(s, r) + np.outer(turned, w)) / size

    P = best = np.clip(X, problem.low, problem.high)
    value, gradient = left(P)
    values = [value]
    length = FIRST * float(np.linalg.norm(problem.high - problem.low)) / max(float(np.linalg.norm(gradient)), TINY)
    for _ in range(ITERATIONS):
        move = np.clip(P - length * gradient, problem.low, problem.high) - P
        slope, share = float(np.sum(move * gradient)), 1.0
        if -slope < SMALLEST:
            break
        for _ in range(HALVINGS):
            value, after = left(P + share * move)
            if value <= max(values[-MEMORY:]) + DECREASE * share * slope:
                break
            share /= 2
        turn = share * float(np.sum(move * (after - gradient)))
        length = float(share**2 * np.sum(move**2) / turn) if turn > 0 else length
        P, gradient = P + share * move, after
        best = P if value < min(values) else best
        values.append(value)
    return np.asarray(np.clip(best, problem.low, problem.high))
