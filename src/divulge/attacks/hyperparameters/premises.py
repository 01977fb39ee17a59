"""Weaker premises than full precision, under which the equations of a squared loss may still hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from divulge.arrays import Array
from divulge.attacks.hyperparameters.problem import StationarityProblem
from divulge.solvers.stationarity import precision
from divulge.solvers.stationarity.precision import HeldTable
from divulge.solvers.stationarity.system import System

OFF = 5.0  # standard deviations: cut-off digits are uniform and independent, and hardly ever add up to more
PRECISE = 1e-6  # of a coefficient: single precision leaves 6e-8, the eigenvalues behind RidgeCV of raw prices about 1e-7
SAFETY = 3.0  # times what fresh answers show of the largest coefficient's error, for the others'
MOST = 2000  # equations of an output whose covariance is factorised in a second or so


def weaker(problem: StationarityProblem) -> Iterator[StationarityProblem]:
    """The same equations where digits are missing: of the data, as far as it shows; of the parameters, as few as can be.

    Parameters that were extracted lost digits for certain, and come first.
    """
    table, extracted = problem.table, problem.fitted.precision > 0
    if table is None or problem.decimals is not None or table.X.shape[1] > MOST:
        return
    if extracted:
        yield from _by_parameters(problem, table, SAFETY * problem.fitted.precision)
    if table.cut:
        yield from _under(problem, table, "the table held was cut off after its last digit", precision.by_cut_data, OFF)
    if problem.direct and not extracted:
        yield from _by_parameters(problem, table, PRECISE)


def _by_parameters(problem: StationarityProblem, table: HeldTable, off: float) -> Iterator[StationarityProblem]:
    rewritten = partial(precision.by_cut_parameters, alike=problem.fitted.precision > 0)
    yield from _under(problem, table, f"the parameters are right to {-np.log10(off):.0f} digits", rewritten, off)


def _under(
    problem: StationarityProblem,
    table: HeldTable,
    premise: str,
    rewritten: Callable[[System, HeldTable, int, Array, Array], System],
    off: float,
) -> Iterator[StationarityProblem]:
    assert problem.fitted.coef is not None
    coefficients = np.atleast_2d(problem.fitted.coef)
    try:
        systems: list[System] = []
        for k, (one, w) in enumerate(zip(problem.systems, coefficients, strict=True)):
            used = w > 0 if problem.fitted.settings.get("positive") else np.full(w.shape, True)
            used = used & (w != 0) if "l1" in problem.penalties else used
            systems.append(replace(rewritten(one, table, k, np.asarray(w, float), used), noise=off))
    except np.linalg.LinAlgError:
        return
    yield replace(problem, systems=systems, premise=premise, off=off)
