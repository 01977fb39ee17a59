"""Four ways to the penalty: stationarity, its projection for hinge losses, matching the path of minima, and replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from divulge.attacks.hyperparameters import premises
from divulge.attacks.hyperparameters.problem import ROUNDING, Answer, Intervals, StationarityProblem, counted
from divulge.contract import Array, Score, Verdict
from divulge.errors import NotApplicable
from divulge.solvers.stationarity import replay, svm, system as stationarity
from divulge.solvers.stationarity.replay import Match
from divulge.solvers.stationarity.system import Estimate

# Relative residuals. Of 424 fits at default tolerances nine in ten left less than 0.08 of the gradient on their own data (of
# Poisson regressions 0.16), and none less than 0.16 on the other half of it.
STATIONARY = 0.1
UNCONFIRMED = 0.02  # without an intercept nothing else confirms that this is the data: a fifth is allowed
CONVERGED = (
    1e-3  # where neither the solver nor its tolerance is known, it must have gone on: defaults leave 2e-3 in the median
)
TINY = 1e-6  # so small that no tolerance need explain it
BEYOND = 3.0  # times what a solver's tolerance lets pass: in 200 fits an entry was at most 1.02 times that
SIGNIFICANCE = 1e-6  # the p-value of a claim: an auditor may look at thousands of models and outputs
NEGLIGIBLE = 1e-3  # of the gradient at w = 0: a remainder this small is a fit with next to no penalty
REPLAYED = 1e-8  # relative distance at which a training is the same but for a last few digits of its hyperparameter
ON_PATH = (
    1e-6  # relative distance from the path of minima at which a solver has arrived: tolerances end before rounding does
)
VAGUE = 0.5  # half an interval, relative to its value: a training so indifferent to its penalty does not tell it
WIDEST = 1e4  # an interval whose ends differ by more says nothing of where to look: twelve decades are searched instead
DIGITS = 6.0  # decimal digits in which parameters must agree before they confirm anything: chance 10⁻⁶, as SIGNIFICANCE
UNRELATED = "a gradient in a random direction, in the median"
WITNESS = "gradient left unexplained"


def by_equations(problem: StationarityProblem, confidence: float) -> Answer:
    """Least squares over the stationarity equations; of a hinge loss, over what its margin does not hide."""
    name = "projection" if problem.hinges else "stationarity"
    if problem.hinges and not (problem.systems and problem.system.b.any()):
        return _by_range(problem, name)
    estimate = stationarity.solve(problem.system, confidence, problem.stopped)
    values, intervals = problem.in_own_units(estimate)
    counts = f"{counted(len(problem.system.b), 'equation')} for {counted(len(problem.penalties), 'unknown')}"
    if not estimate.degrees_of_freedom:
        if problem.hinges:
            return _by_range(problem, name)
        why = f"{counts}: any data would give an answer, and nothing would show a wrong one"
        return Answer(name, Verdict.NOT_APPLICABLE, why)
    if problem.unbalanced:
        return Answer(
            name,
            Verdict.NOT_APPLICABLE,
            f"the residuals of this data do not add up to nothing, as the intercept of the {problem.title} model makes "
            "them where it was fitted; the model was trained on other data, or its parameters were rounded",
            unidentifiable=problem.in_full,
        )
    _refuse_different_penalties(problem, estimate, confidence)
    residual, allowed = estimate.relative_residual, _allowed(problem)
    scores = {WITNESS: Score(residual, estimate.null_median, UNRELATED, better="lower")}
    low, high = intervals[problem.unit]
    inside = not problem.stopped or problem.decimals is not None or residual <= TINY
    inside = inside or estimate.largest <= BEYOND * problem.stopped
    informed = low > 0 if problem.unit != "C" else np.isfinite(high) and low > 0
    if residual <= allowed and inside and estimate.p_value <= SIGNIFICANCE and informed:
        why = f"{counts}; {residual:.1e} of the loss gradient is left unexplained"
        why += f", if {problem.premise}" if problem.premise else ""
        return Answer(name, Verdict.LEAK, why, values, intervals, scores=scores)
    remainder = residual * float(np.linalg.norm(problem.system.b))
    end = low if problem.unit == "C" else high
    if remainder <= NEGLIGIBLE * problem.start_size and 0 < end < np.inf and not informed:
        return Answer(
            name,
            Verdict.NONE_FOUND,
            f"the {problem.title} model is too near an unpenalised fit to tell its penalty from what the solver left",
            values,
            intervals,
            f"only {problem.unit} {'above' if problem.unit == 'C' else 'below'} {end:.2g} can be said at "
            f"{100 * confidence:g} % confidence",
            scores,
        )
    if residual <= allowed and inside and informed:
        why = (
            f"{counts}, which leave {residual:.2g} of the loss gradient unexplained: a model of other data "
            f"would look as good in {estimate.p_value:.0e} of cases, too many to claim an answer"
        )
        return Answer(name, Verdict.NOT_APPLICABLE, why, values, intervals, scores=scores)
    expected = f"a converged solver leaves far below {allowed:.1g}"
    if residual <= allowed and not inside:
        entries = f"{problem.stopped:.2g} and the largest is {estimate.largest:.2g}"
        expected = f"the solver's tolerance explains entries up to {entries}"
    return Answer(
        name,
        Verdict.NOT_APPLICABLE,
        f"the {problem.title} parameters are not a minimum on this data for any penalty: {residual:.2g} of the "
        f"loss gradient is left unexplained, where {expected}; the model was trained on other data, "
        "or its solver stopped early",
        values,
        intervals,
        scores=scores,
        unidentifiable=problem.direct and problem.in_full,
    )


def _allowed(problem: StationarityProblem) -> float:
    """The share of the gradient that may be left unexplained on the data the model was fitted on."""
    system = problem.system
    size = float(np.linalg.norm(system.b)) or 1.0
    if problem.premise:
        share = float(problem.off * np.sqrt(len(system.b)) / size)
        return min(STATIONARY, share if problem.direct else share + CONVERGED)
    cut = system.noise / size
    if problem.direct:
        rounding = ROUNDING * system.epsilon * float(np.linalg.norm(system.magnitude))
        return min(STATIONARY, rounding / size + cut)
    if problem.decimals is not None:
        return min(STATIONARY, CONVERGED + cut)
    if problem.centred or problem.stopped:
        return STATIONARY
    return UNCONFIRMED if problem.learner.loss == "squared" else CONVERGED


def _refuse_different_penalties(problem: StationarityProblem, pooled: Estimate, confidence: float) -> None:
    telling = [one for one in problem.systems if one.A.any(axis=0).all() and len(problem.systems) > 1]
    alone = [stationarity.solve(one, confidence, problem.stopped) for one in telling if len(one.b) >= one.A.shape[1]]
    for one in alone:
        if one.degrees_of_freedom and (np.abs(one.values - pooled.values) > one.half_widths + pooled.half_widths).any():
            if problem.unit == "C" or one.relative_residual > STATIONARY:
                continue  # scikit-learn has one C for all outputs
            listed = ", ".join(f"{problem.in_own_units(one)[0][problem.unit]:.4g}" for one in alone)
            raise NotApplicable(f"the outputs have different penalties ({listed}); audit them one at a time")


def _by_range(problem: StationarityProblem, name: str) -> Answer:
    """A margin that hides every direction still bounds the penalty: the weights on it lie between 0 and 1."""
    ranges = [svm.range_of_penalty(one, max(1e-9, 10 * one.blur)) for one in problem.hinges]
    ends = [one for one in ranges if one is not None]
    if len(ends) < len(ranges) or not ends:
        return Answer(
            name,
            Verdict.NOT_APPLICABLE,
            f"no weights of the points on its margin make the {problem.title} model a minimum on this data; "
            "it was trained on other data, or its solver stopped early",
        )
    low, high = max(one[0] for one in ends) / problem.total, min(one[1] for one in ends) / problem.total
    if problem.unit == "C":
        low, high = (1 / high if high else np.inf), (1 / low if low > 0 else np.inf)
    return Answer(
        name,
        Verdict.NONE_FOUND,
        f"as many points lie on the margin of the {problem.title} model as it has parameters, and hide its penalty",
        power=f"only {problem.unit} between {low:.3g} and {high:.3g} can be said",
        values={problem.unit: float(np.sqrt(low * high)) if 0 < low <= high < np.inf else low},
        intervals={problem.unit: (low, high)},
    )


def by_training(
    problem: StationarityProblem, first: Answer, *, tight: bool, most: int, seen: Callable[[int], None]
) -> Answer:
    """Train again until the parameters are the ones observed: as the owner did, or to the minimum (`tight`)."""
    name = "path matching" if tight else "replay"
    trainer = problem.trainer
    obstacle = trainer.no_path if tight else trainer.obstacle
    if obstacle or most < 3:
        return Answer(name, Verdict.NOT_APPLICABLE, obstacle or "no trainings were allowed")
    machine = problem.learner.form == "support vectors"
    known = {key: value for key, value in first.values.items() if machine and first.settled(key)}
    wanted = [key for key in dict.fromkeys((*problem.names, *first.values)) if key not in known]

    def train(values: Mapping[str, float]) -> Array:
        return trainer({**known, **values}, tight)

    trials = replay.Trials(train, problem.observed, most if tight else most - most // 3, seen)

    flat = problem.learner.form == "support vectors" or bool(problem.hinges)

    def matched(around: Intervals) -> Match:
        extra = {"gamma": _usual_gammas(trainer.X)} if "gamma" in around else {}
        return replay.match(trials, around, begin=first.values, cut=problem.cut, rough=limit, flat=flat, extra=extra)

    limit = ON_PATH if tight else max(REPLAYED, 10 * float(np.finfo(problem.observed.dtype).eps))
    limit = max(limit, premises.SAFETY * problem.fitted.precision)
    if problem.cut is not None:
        limit = float(np.linalg.norm(problem.cut)) / trials.size
    around = _around(first, wanted)
    found = matched(around) if around else None
    if found is None or (found.distance > limit and not tight):
        trials.most = most  # an interval may be wrong: a third is for elsewhere
        around = replay.search(trials, wanted)
        again = matched(around) if around else None
        if again is not None and (found is None or again.distance < found.distance):
            found = again
    if found is None or not np.isfinite(found.distance):
        return Answer(name, Verdict.NOT_APPLICABLE, "no training came near the parameters")
    vague = [
        half > VAGUE * (1.0 if key in replay.UNIT else abs(found.values[key])) for key, half in found.half_widths.items()
    ]
    if any(vague) and problem.cut is None:
        return Answer(name, Verdict.NOT_APPLICABLE, "other values train to the same parameters")
    if not all(np.isfinite(half) for half in found.half_widths.values()):
        return Answer(name, Verdict.NOT_APPLICABLE, "other values train to the same parameters")
    values = {**known, **found.values}
    ends = {key: (found.values[key] - half, found.values[key] + half) for key, half in found.half_widths.items()}
    intervals = {key: ends[key] if key in ends else first.intervals[key] for key in values}
    trainings = counted(found.fits, "training")
    far = f"the nearest of {trainings} is {found.distance:.1e} away"
    if problem.cut is not None:
        agree = replay.agrees(trials(found.values), problem.observed, problem.cut)
        if not agree:
            return Answer(name, Verdict.NOT_APPLICABLE, f"{far}, more than the rounding", values, intervals)
        enough = _digits_in(problem) >= DIGITS + len(values)
        why = (
            f"{trainings}; with {_these(values)} every parameter rounds to the one seen, which confirms the data no further"
        )
        return Answer(name, Verdict.LEAK if enough else Verdict.NOT_APPLICABLE, why, values, intervals)
    degrees_of_freedom = int(np.count_nonzero(problem.observed)) - problem.intercepts - len(values)
    if found.same and (degrees_of_freedom > 0 or found.snapped):
        bits = "bit for bit" if found.distance == 0 else "to the last digit"
        why = f"training again with {_these(values)} gives the same parameters {bits}"
        return Answer(name, Verdict.LEAK, why, values, intervals, exact=True)
    verdict = Verdict.LEAK if found.distance <= limit and degrees_of_freedom > 0 else Verdict.NOT_APPLICABLE
    return Answer(name, verdict, far, values, intervals)


def _these(values: Mapping[str, float]) -> str:
    return "these values" if len(values) > 1 else "this value"


def _usual_gammas(X: Array) -> list[float]:
    """What scikit-learn calls `auto` and `scale`."""
    return [1 / X.shape[1], float(1 / (X.shape[1] * X.var()))]


def _around(first: Answer, wanted: list[str]) -> Intervals:
    """The first answer's intervals, a little wider, where they say anything."""
    around = {}
    for name in wanted:
        low, high = first.intervals.get(name, (0.0, np.inf))
        if name in replay.UNIT:
            around[name] = (max(low - 0.05, 1e-6), min(high + 0.05, 1 - 1e-6))
            continue
        if not 0 < high < np.inf and not 0 < low < np.inf:
            return {}
        low, high = (low, high) if low > 0 else (high / WIDEST, high)
        high = high if np.isfinite(high) else low * WIDEST
        if high / low > WIDEST:
            return {}
        wider = (high / low) ** 0.25
        around[name] = (low / wider, high * wider)
    return around


def _digits_in(problem: StationarityProblem) -> float:
    assert problem.cut is not None
    return float(np.log10(np.maximum(np.abs(problem.observed) / problem.cut, 1)).sum())
