"""Penalties of the objective from the learned parameters and the data (Wang and Gong 2018, arXiv:1802.05351)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, NonNegativeInt

from divulge.attacks.hyperparameters import premises
from divulge.attacks.hyperparameters.estimators import by_equations, by_training
from divulge.attacks.hyperparameters.formulate import build_problem
from divulge.attacks.hyperparameters.problem import Answer, StationarityProblem
from divulge.attacks.hyperparameters.svm import by_bound
from divulge.contract import (
    Attack,
    Context,
    Curve,
    Finding,
    Fitted,
    Hyperparameters,
    Score,
    TrainingData,
    Truth,
    Verdict,
    option_class,
    taxonomies,
)
from divulge.errors import NotApplicable

WRONG = 0.01  # relative error from which a claim whose interval misses the truth is no claim
POWERS = np.logspace(-3, 3, 601)  # a useless attacker draws from the range the paper studies
GUESSES = {"l1_ratio": (np.linspace(0, 1, 601), "uniformly from 0 to 1")}


@option_class
class HyperparameterStealing(Attack[tuple[Fitted, TrainingData], Hyperparameters]):
    """Solve the stationarity equations of the learner's objective for its regularisation strength."""

    name: ClassVar[str] = "hyperparameters"
    raw: ClassVar[bool] = True
    paper: ClassVar[str] = "Wang and Gong 2018, Stealing Hyperparameters in Machine Learning, arXiv:1802.05351"
    taxonomy = taxonomies.HYPERPARAMETERS
    remedy: ClassVar[tuple[str, ...]] = (
        "Count the hyperparameters as public once the parameters and the training data are.",
        "Release the parameters without the training data, or the predictions without the parameters.",
        "Round the released parameters and audit again: the paper finds that it helps an L1 penalty more than an L2 one.",
    )

    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.99
    "How sure the reported interval should be; solvers that stop early fall short of it (docs/results.md)."
    trainings: NonNegativeInt = 63
    "How often to train again at most, where the equations alone do not settle it; 0 never trains."

    def run(self, held: tuple[Fitted, TrainingData], context: Context) -> Finding[Hyperparameters]:
        problem = build_problem(*held)
        answers = answers_to(problem, self.confidence, self.trainings, context)
        best = choose(answers)
        notes = [answer.line + "." for answer in answers]
        figures = (_profile(problem, best.values),) if problem.systems and best.values else ()
        evidence: dict[str, Any] = {"scores": answers[0].scores, "figures": figures, "notes": tuple(notes)}
        if best.verdict is Verdict.LEAK:
            found = ", ".join(f"{name} = {value:.6g}" for name, value in best.values.items())
            return Finding.leak(
                Hyperparameters(best.values, best.intervals),
                f"The {problem.title} model was trained with {found}: {_because(best)}.",
                **evidence,
            )
        if best.verdict is Verdict.NONE_FOUND:
            return Finding.none_found(f"{best.why[0].upper()}{best.why[1:]}.", power=best.power, **evidence)
        raise NotApplicable(best.why)

    def score(
        self, finding: Finding[Hyperparameters], held: tuple[Fitted, TrainingData], truth: Truth
    ) -> Finding[Hyperparameters]:
        known, loot = truth.get(Hyperparameters), finding.loot
        if known is None or loot is None:
            return finding
        scores, notes = {}, []
        for name in (name for name in loot.values if name in known.values):
            true = known.values[name]
            scores[f"relative error of {name}"] = score = error(name, loot.values[name], true)
            low, high = loot.intervals[name]
            if low <= true <= high:
                continue
            notes.append(f"The interval of {name} does not hold the truth {true:g}.")
            if score.value > WRONG:
                summary = f"{finding.summary} The truth is {name} = {true:g}: this is wrong."
                finding = replace(finding, verdict=Verdict.FAILED, summary=summary)
        figures = tuple(
            replace(figure, marks={**figure.marks, "true": known.values[figure.x]})
            if isinstance(figure, Curve) and known.values.get(figure.x, 0) > 0
            else figure
            for figure in finding.figures
        )
        return replace(finding, scores=scores | dict(finding.scores), notes=(*finding.notes, *notes), figures=figures)


def answers_to(problem: StationarityProblem, confidence: float, trainings: int, context: Context) -> list[Answer]:
    """What the estimators say, each only asked where those before it left a question; no more trainings than that in all."""
    first = by_equations(problem, confidence) if problem.systems or problem.hinges else by_bound(problem)
    answers = [first]
    if first.verdict is not Verdict.LEAK and problem.systems:
        for weaker in premises.weaker(problem):
            again = by_equations(weaker, confidence)
            if again.verdict is Verdict.LEAK:
                return [*answers, again]  # training on this table would not give these parameters, nor its minima
    settled = first.verdict is Verdict.LEAK and all(first.settled(name) for name in (*problem.names, *first.values))

    done = 0

    def seen(_: int) -> None:
        nonlocal done
        done += 1
        context.budget.check()
        context.progress(done, trainings)

    if first.unidentifiable:
        return answers
    # Minima cannot say more than their equations did, unless digits are missing or the training cannot be repeated.
    unrepeated = first.verdict is not Verdict.NOT_APPLICABLE and not settled and bool(problem.trainer.obstacle)
    minima = problem.decimals is not None or unrepeated
    if not settled:
        share = trainings - trainings // 2 if minima and not problem.trainer.obstacle else trainings
        answers.append(by_training(problem, first, tight=False, most=share, seen=seen))
    if minima:
        answers.append(by_training(problem, first, tight=True, most=trainings - done, seen=seen))
    return answers


def choose(answers: list[Answer]) -> Answer:
    """The narrowest interval of those believed, a training that was reproduced before all; else what the first says."""
    claims = [answer for answer in answers if answer.verdict is Verdict.LEAK]
    if claims:
        return min(claims, key=lambda answer: (not answer.exact, -len(answer.values), answer.width))
    bounds = [answer for answer in answers if answer.verdict is Verdict.NONE_FOUND]
    return bounds[0] if bounds else answers[0]


def error(name: str, value: float, true: float) -> Score:
    """Relative error, beside that of a guess."""
    guesses, drawn = GUESSES.get(name, (POWERS, "log-uniformly from 10⁻³ to 10³"))
    scale = abs(true) or 1.0
    null = float(np.median(np.abs(guesses - true))) / scale
    return Score(abs(value - true) / scale, null, f"the median guess drawn {drawn}", better="lower")


def _because(best: Answer) -> str:
    if best.exact:
        return best.why
    digits = int(max(0, np.floor(-np.log10(max(best.width, 1e-16)))))
    how = {"replay": "training again", "path matching": "the path of its minima"}.get(
        best.estimator, "its parameters and data"
    )
    return f"{how} {'say' if how.endswith('data') else 'says'} so to {digits} digits"


def _profile(problem: StationarityProblem, values: dict[str, float]) -> Curve:
    """How much of the gradient is left for other answers: a sharp valley is a sharp answer."""
    system = problem.system
    centre = abs(values[problem.unit]) or 1.0
    grid = np.unique(np.concatenate([np.geomspace(centre / 1e3, centre * 1e3, 241), [centre]]))
    ratio = values.get("l1_ratio")
    parts = np.array([1.0]) if ratio is None else np.array([ratio, 1 - ratio])
    whole = float(np.linalg.norm(system.b)) or 1.0
    penalty = problem.total * (1 / grid if problem.unit == "C" else grid)
    # ‖b + aλ‖ with b + aλ = r + a(λ − λ̂) and r across a: no table of all equations at all λ.
    a = system.A @ parts
    best = -float(a @ system.b) / (float(a @ a) or 1.0)
    left = np.hypot(float(np.linalg.norm(system.b + best * a)), float(np.linalg.norm(a)) * (penalty - best)) / whole
    return Curve(
        f"Gradient left unexplained, by the {problem.title} penalty",
        x=problem.unit,
        y="share of the loss gradient",
        series={"relative residual": (grid, np.maximum(left, 1e-16))},
        log_x=True,
        log_y=True,
        marks={"stolen": values[problem.unit]} if values[problem.unit] > 0 else {},
    )
