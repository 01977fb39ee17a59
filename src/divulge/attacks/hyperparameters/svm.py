"""Support vector machines, which state their penalty: it is the bound of their dual weights."""

from __future__ import annotations

import numpy as np

from divulge.attacks.hyperparameters.problem import Answer, Intervals, StationarityProblem, counted, named_kernel
from divulge.contract import Array, Fitted, Verdict
from divulge.errors import BadInput, NotApplicable
from divulge.solvers.shared import rounding
from divulge.solvers.stationarity import bandwidth, svm, system as stationarity
from divulge.solvers.stationarity.refit import Trainer, row

TOLERANCES = 20.0  # of a solver, by which margins may miss: on its own data SVC missed by less than one
MISSED = 0.02  # at the least: with points that it was not trained on a model misses by 0.1 and more


def build_svm_problem(fitted: Fitted, X: Array, weight: Array, trainer: Trainer) -> StationarityProblem:
    """A support vector machine speaks through its dual weights; there is nothing to add up."""
    if fitted.dual_coef is None or "support" not in fitted.more or fitted.intercept is None:
        raise BadInput(
            f"expected dual_coef, intercept and more['support'] of the {fitted.learner} model, got fewer; "
            "pass what scikit-learn keeps"
        )
    support = fitted.more["support"].astype(int)
    if len(support) == 0:
        raise NotApplicable("the model has no support vectors, so nothing of its penalty shows")
    if support.max() >= len(X) or support.min() < 0:
        raise BadInput(
            f"expected at least {support.max() + 1} training points, as the support vectors number them, got {len(X)}; "
            "pass the data the model was fitted on, in its order"
        )
    vectors = fitted.more.get("support_vectors")
    if vectors is not None and vectors.shape[1] != X.shape[1]:
        raise BadInput(
            f"expected data with {vectors.shape[1]} features, as the support vectors have, got {X.shape[1]}; "
            "pass the data the model was fitted on"
        )
    if vectors is not None and not np.allclose(vectors, X[support], rtol=1e-6, atol=1e-9):
        raise NotApplicable(
            "the support vectors are not the points of this data that the model says they are; "
            "the model was trained on other data, or on this in another order"
        )
    observed = row(None, fitted.intercept, fitted.dual_coef, support, len(X))
    decimals = rounding.rounded_to(fitted.dual_coef)
    return StationarityProblem(fitted, ("l2",), [], trainer, observed, weight, decimals=decimals)


def by_bound(problem: StationarityProblem) -> Answer:
    """C of a support vector machine is the largest dual weight, if some point reached it; ε the residual of the others."""
    fitted, trainer = problem.fitted, problem.trainer
    kernel, support = named_kernel(fitted), fitted.more["support"].astype(int)
    assert fitted.dual_coef is not None
    assert fitted.intercept is not None
    dual, intercept = fitted.dual_coef, fitted.intercept
    X, y = np.asarray(trainer.X, float), trainer.y
    tol = float(fitted.settings.get("tol", 1e-3))
    labels = np.unique(y, return_inverse=True)[1]
    values: dict[str, float] = {}
    intervals: Intervals = {}
    gamma = kernel.gamma
    if gamma is None and kernel.name in stationarity.WITH_BANDWIDTH:
        found_gamma = _svm_bandwidth(problem, X[support], y[support], labels[support], problem.weight[support])
        if found_gamma is None:
            why = "no support vector is between the bounds, so the bandwidth (gamma) of the kernel does not show"
            return Answer("bound", Verdict.NOT_APPLICABLE, why)
        gamma, half = found_gamma.gamma, max(found_gamma.half_width, tol * found_gamma.gamma)
        values["gamma"], intervals["gamma"] = gamma, (max(gamma - half, gamma / 2), gamma + half)
    gamma = 1 / X.shape[1] if gamma is None else gamma
    K = stationarity.gram(kernel.name, X, gamma, kernel.degree, kernel.coef0, X[support])
    epsilon = None
    if problem.learner.regression:
        tube = svm.tube(K, np.asarray(y, float), dual.reshape(-1), support, float(intercept[0]), problem.weight, tol)
        found, epsilon = tube.bound, tube.epsilon
        if epsilon is not None:
            slack = max(tol, tube.spread)
            values["epsilon"], intervals["epsilon"] = epsilon, (max(epsilon - slack, 0.0), epsilon + slack)
    else:
        found = svm.bound(K, dual, support, labels, intercept, problem.weight, tol)
    if found.violation > max(TOLERANCES * tol, MISSED) and problem.decimals is None:
        return Answer(
            "bound",
            Verdict.NOT_APPLICABLE,
            f"the margins of this data miss what the dual weights demand by {found.violation:.2g}, where the solver's "
            f"tolerance is {tol:g}; the model was trained on other data, or its solver stopped early",
            unidentifiable=True,
        )
    if not found.reached:
        return Answer(
            "bound",
            Verdict.NOT_APPLICABLE,
            f"no support vector of the {problem.title} model is at the bound of its weight: "
            f"any C from {found.value:.6g} on gives the same model",
            values,
            intervals,
        )
    ulp = 4 * np.finfo(float).eps * found.value
    rounding = ulp if problem.decimals is None else 0.5 * 10.0**-problem.decimals + ulp
    values = {"C": found.value, **values}
    intervals = {"C": (found.value - rounding, found.value + rounding), **intervals}
    why = f"{counted(len(support), 'support vector')}, some at the bound of their weight"
    return Answer("bound", Verdict.LEAK, why, values, intervals)


def _svm_bandwidth(
    problem: StationarityProblem, X: Array, y: Array, labels: Array, factor: Array
) -> bandwidth.Bandwidth | None:
    """Support vectors between the bounds lie on the margin, but only with the right bandwidth of the kernel."""
    fitted = problem.fitted
    assert fitted.dual_coef is not None
    assert fitted.intercept is not None
    assert fitted.kernel is not None
    top = float((np.abs(fitted.dual_coef) / factor).max())
    equations = []
    if problem.learner.regression:
        dual = fitted.dual_coef.reshape(-1)
        free = np.flatnonzero(np.abs(dual) / factor < top * (1 - svm.TIE))
        targets = np.asarray(y, float)[free] - float(fitted.intercept[0])
        equations = [bandwidth.Equations(free, np.arange(len(dual)), dual, targets, np.sign(dual[free])[:, None])]
    else:
        for part in svm.machines(fitted.dual_coef, labels, fitted.intercept):
            share = np.abs(part.weights) / factor[part.members]
            between = (share > 0) & (share < top * (1 - svm.TIE))
            targets = np.sign(part.weights[between]) - part.intercept
            nothing = np.zeros((int(between.sum()), 0))
            equations.append(bandwidth.Equations(part.members[between], part.members, part.weights, targets, nothing))
    return bandwidth.find(stationarity.distances(fitted.kernel.name, X), equations)
