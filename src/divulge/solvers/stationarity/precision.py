"""Stationarity equations of a squared loss whose data, or whose parameters, are known to a few digits only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular

from divulge.arrays import Array
from divulge.solvers.stationarity.system import System

SINGULAR = (
    1e-13  # of a correlation matrix's largest eigenvalue: below, directions are the rounding errors of double precision
)


@dataclass(frozen=True, eq=False)
class HeldTable:
    """Points and targets as they are held, and what was cut off them."""

    X: Array
    "(n, d), centred where the model has an intercept"
    Y: Array
    "(n, outputs), likewise"
    weight: Array
    "(n,)"
    cut_points: Array
    "(d,) standard deviation of what was cut off the entries of each column"
    cut_targets: float
    "the same of the targets"
    column_scale: float
    "what brings the sum of residuals to the units of the other equations"
    level: Array
    "(outputs,) size of what cancels in an intercept: Σ weight (|mean of X| |w| + |mean of Y|)"

    @property
    def cut(self) -> bool:
        return bool(self.cut_points.any() or self.cut_targets)


def by_cut_data(system: System, table: HeldTable, output: int, w: Array, used: Array) -> System:
    """The equations in units of what digits cut off the data add to them, and decorrelated; w (d,) of one output.

    With x̃ = x + δ and ỹ = y + η the gradient Xᵀ(Xw − y) is off by Xᵀ(Δw − η) + Δᵀr + Δᵀ(Δw), r = Xw − y: covariance
    Xᵀ diag(weight²) X (Σ w²σ² + σ_y²) + diag(σ² Σ weight² r²) + diag((Σ weight wσ²)²). The sum of residuals is off by
    √(Σ weight² (Σ w²σ² + σ_y²)). `used` (d,) are the coefficients that have an equation.
    """
    X, weight, variance = table.X, table.weight, table.cut_points**2
    residual = X @ w - table.Y[:, output]
    along = float(w**2 @ variance + table.cut_targets**2)
    wide = weight[:, None] * X[:, used]
    covariance = along * (wide.T @ wide)
    diagonal = variance * float(np.sum((weight * residual) ** 2)) + (weight.sum() * w * variance) ** 2
    covariance[np.diag_indices_from(covariance)] += diagonal[used] + (system.epsilon * system.magnitude) ** 2
    lower = _factor(covariance)
    balance = np.sqrt(along * float(weight @ weight)) + system.epsilon * table.level[output]
    return _in_units(system, lambda rows: solve_triangular(lower, rows, lower=True), table.column_scale * balance)


def by_cut_parameters(
    system: System, table: HeldTable, output: int, w: Array, used: Array, *, alike: bool = False
) -> System:
    """The equations in parameters: H⁻¹(b + Aλ) / w, H = Xᵀ diag(weight) X, is how far each is from the minimum for λ.

    Where all are known `alike`, as an extraction knows them, the unit is the largest; otherwise each is its own.
    """
    X = table.X[:, used]
    hessian = X.T @ (table.weight[:, None] * X)
    units = 1 / np.sqrt(np.diag(hessian))
    scaled = hessian * np.outer(units, units)
    if np.linalg.eigvalsh(scaled)[0] < SINGULAR * len(scaled):
        raise LinAlgError("columns depend on each other")
    factor = cho_factor(scaled)
    size = np.full(int(used.sum()), np.abs(w).max()) if alike else w[used]

    def displacement(rows: Array) -> Array:
        columns = rows.reshape(len(rows), -1)
        found = units[:, None] * cho_solve(factor, units[:, None] * columns) / size[:, None]
        return np.asarray(found.reshape(rows.shape))

    return _in_units(system, displacement, table.column_scale * float(table.level[output]))


def _factor(covariance: Array) -> Array:
    """The Cholesky factor L of C = LLᵀ, through the correlations: columns of a table differ by orders of magnitude."""
    sizes = np.sqrt(np.diag(covariance))
    if not sizes.all():
        raise LinAlgError("an equation without any noise")
    correlations = covariance / np.outer(sizes, sizes)
    correlations[np.diag_indices_from(correlations)] += SINGULAR * len(sizes)
    return np.asarray(sizes[:, None] * cholesky(correlations, lower=True))


def _in_units(system: System, transform: Callable[[Array], Array], balance: float) -> System:
    return replace(
        system, A=transform(system.A), b=transform(system.b), check=system.check / balance, magnitude=0 * system.magnitude
    )
