"""All units of a two-layer function at once, fitted to values at many points: Gauss-Newton from a copy that is nearly right.

Where answers are coarse, a slope between two kinks that are close is known badly, and with it two units. Fitted together to
as many values as there are weights, and some, every unit is known as well as all values allow.

In the symmetric form f(x) = Σ v |w·x + b| / 2 + linear·x + constant, units have little in common with the linear part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse.linalg import LinearOperator, lsmr

from divulge.arrays import Array
from divulge.solvers.piecewise.two_layer import TwoLayer, balanced

STEPS = 60  # of Gauss-Newton; from a copy that is off by 1 % of the spread it takes 4 to 12
INNER = 200, 1e-4  # steps of LSMR and its tolerance: with 1e-2, errors stay five times the noise and more
LONGEST = 0.3  # of a unit: it may turn into no other in one step, which those that are known badly would
SHORTEST = 1e-2  # of a step: if it makes nothing better, there is nothing to be made better
STALE = 0.97, 3  # errors that fall by less, so many steps in a row, are noise
ALIKE = 1e-2  # two units whose hyperplanes are so nearly one are tried as one
TRIED, AGAIN = (
    4,
    8,
)  # of units that bend least, and steps of a fit without one of them: those that were none are gone by then
SAME = 1.05  # times the error: as good


def fitted(copy: TwoLayer, X: Array, Y: Array, weights: Array, steps: int = STEPS) -> TwoLayer:
    """The copy with the least Σ weights² (y - f(x))², near by, at points X (n, d) with values Y (n, o) and weights (n,)."""
    problem = _Problem(np.column_stack([X, np.ones(len(X))]), Y, weights)
    copy = problem.with_best_linear_part(_balanced(copy))
    error, stale = problem.error(copy), 0
    for _ in range(steps):
        step, share = problem.step(copy), 1.0
        while share > SHORTEST:
            other = problem.with_best_linear_part(step.taken(copy, share))
            if problem.error(other) < error:
                break
            share /= 2
        else:
            break
        stale = stale + 1 if problem.error(other) > STALE[0] * error else 0
        copy, error = _balanced(other), problem.error(other)
        if stale == STALE[1]:
            break
    return copy


def thinned(copy: TwoLayer, X: Array, Y: Array, weights: Array, negligible: float) -> TwoLayer:
    """The fitted copy without units that it does as well without: one of two that coincide, and others one by one.

    Those are tried that bend by no more than `negligible`, root mean square and weighted, at the points: a hyperplane that
    passes through the few points on one side of it bends by nothing, and is nothing that the points tell.
    """
    problem = _Problem(np.column_stack([X, np.ones(len(X))]), Y, weights)
    enough = SAME * problem.error(copy)
    if enough > negligible:
        return copy
    fewer, place = copy.merged(0.0, ALIKE), -1
    while place < TRIED:
        if fewer.units < copy.units:
            fewer = fitted(fewer, X, Y, weights, AGAIN)
            if problem.error(fewer) <= enough:
                copy, place = fewer, -1
        place += 1
        fewer = problem.without(copy, place, negligible)
    return copy


@dataclass(frozen=True, eq=False)
class _Step:
    """What to add to units (h, d + 1) with their biases, and to their weights out (o, h)."""

    units: Array
    out: Array

    def taken(self, copy: TwoLayer, share: float) -> TwoLayer:
        units = np.column_stack([copy.into, copy.bias])
        least = np.finfo(float).tiny
        longest = np.minimum(
            LONGEST * np.linalg.norm(units, axis=1) / np.maximum(np.linalg.norm(self.units, axis=1), least),
            LONGEST * np.linalg.norm(copy.out, axis=0) / np.maximum(np.linalg.norm(self.out, axis=0), least),
        )
        shares = share * np.minimum(1, longest)
        units = units + shares[:, None] * self.units
        return replace(copy, into=units[:, :-1], bias=units[:, -1], out=copy.out + shares * self.out)


class _Problem:
    """Values to fit; points (n, d + 1) end in a 1 for the biases."""

    def __init__(self, points: Array, Y: Array, weights: Array) -> None:
        self.points, self.Y, self.weights = points, Y, weights[:, None]
        weighted = points * self.weights
        self.root = cholesky(weighted.T @ weighted)
        "R (d + 1, d + 1) with RᵀR = XᵀW²X: in coordinates R w all directions of a unit count alike,"
        self.white = np.ascontiguousarray(self._in_inputs(weighted.T, transposed=True).T)
        "and points (n, d + 1) are W X R⁻¹."

    def residual(self, copy: TwoLayer) -> Array:
        return np.asarray((self.Y - copy.values(self.points[:, :-1])) * self.weights)

    def error(self, copy: TwoLayer) -> float:
        return float(np.sqrt(np.mean(self.residual(copy) ** 2)))

    def with_best_linear_part(self, copy: TwoLayer) -> TwoLayer:
        """The linear part follows from the units, exactly."""
        shift = self._in_inputs(self.white.T @ self.residual(copy)).T
        return replace(copy, linear=copy.linear + shift[:, :-1], constant=copy.constant + shift[:, -1])

    def without(self, copy: TwoLayer, place: int, negligible: float) -> TwoLayer:
        """Without the unit in that place in order of how much they bend, if there is one and that is negligible."""
        turns = np.abs(self.points @ np.column_stack([copy.into, copy.bias]).T) / 2 * self.weights
        turns -= self.white @ (self.white.T @ turns)
        bends = np.sqrt(np.mean(turns**2, axis=0)) * np.linalg.norm(copy.out, axis=0)
        few = np.argsort(bends)[place : place + 1]
        kept = np.ones(copy.units, dtype=bool)
        kept[few[bends[few] <= negligible]] = False
        return replace(copy, into=copy.into[kept], bias=copy.bias[kept], out=copy.out[:, kept])

    def step(self, copy: TwoLayer) -> _Step:
        """Least squares for the derivatives by units, by weights out, and by the linear part, which is then dropped."""
        (outputs, units), inputs = copy.out.shape, self.points.shape[1]
        sums = self.points @ np.column_stack([copy.into, copy.bias]).T
        sides, turns = np.sign(sums) / 2, np.abs(sums) / 2 * self.weights
        size = np.maximum(np.linalg.norm(copy.out, axis=0) / 2, np.finfo(float).tiny)
        length = np.maximum(np.linalg.norm(turns, axis=0), np.finfo(float).tiny)
        ends = np.cumsum([units * inputs, outputs * units])

        def parts(flat: Array) -> tuple[Array, Array, Array]:
            into, out, linear = np.split(flat, ends)
            return into.reshape(units, inputs) / size[:, None], out.reshape(outputs, units) / length, linear

        def change(flat: Array) -> Array:
            into, out, linear = parts(flat)
            bend = (self.white @ into.T * sides) @ copy.out.T + turns @ out.T
            return np.asarray(bend + self.white @ linear.reshape(outputs, inputs).T).ravel()

        def gradient(flat: Array) -> Array:
            residual = flat.reshape(-1, outputs)
            into = (residual @ copy.out * sides).T @ self.white / size[:, None]
            return np.concatenate([part.ravel() for part in (into, residual.T @ turns / length, residual.T @ self.white)])

        shape = self.Y.size, ends[-1] + outputs * inputs
        most, tolerance = INNER
        jacobian = LinearOperator(shape, matvec=change, rmatvec=gradient, dtype=float)
        found = lsmr(jacobian, self.residual(copy).ravel(), atol=tolerance, btol=tolerance, maxiter=most)[0]
        into, out, _ = parts(found)
        return _Step(self._in_inputs(into.T).T, out)

    def _in_inputs(self, columns: Array, transposed: bool = False) -> Array:
        """R⁻¹, or its transpose, times columns (d + 1, ·)."""
        return np.asarray(solve_triangular(self.root, columns, trans="T" if transposed else "N"))


def _balanced(copy: TwoLayer) -> TwoLayer:
    """The same function, with as much weight on the way into a unit as out of it."""
    (into, bias), (out, constant) = balanced(((copy.into, copy.bias), (copy.out, copy.constant)))
    return replace(copy, into=into, bias=bias, out=out, constant=constant)
