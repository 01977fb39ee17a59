"""A copy of a classifier, trained on its answers (Milli et al. 2018, arXiv:1807.05185, sections 4 and 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

import numpy as np
from pydantic import Field, PositiveInt

from divulge.contract import (
    Array,
    Attack,
    Candidates,
    Context,
    Copy,
    Curve,
    Finding,
    Gradients,
    Predictions,
    Remedy,
    Score,
    Truth,
    option_class,
    taxonomies,
)
from divulge.errors import NotApplicable
from divulge.solvers.distillation.clusters import spread

PAPER = "Milli et al. 2018, Model Reconstruction from Model Explanations, arXiv:1807.05185"
REMEDY = (
    Remedy(
        "Answer labels or rounded probabilities instead of logits, and no gradients; then audit again.",
        "without gradients a copy trained on 300 answers agreed on 0.879 of the images in the place of 0.991, "
        "and no fewer where answers had 3 digits (docs/defences.md).",
    ),
    "Limit and watch queries by customer: a copy needs fewer of them where gradients are answered.",
)
Architecture = Literal["auto", "one-layer", "two-layer", "convolutional", "vgg-11", "resnet-18"]
TRIED: tuple[Any, ...] = ("one-layer", "two-layer", "convolutional")
"What `auto` chooses from, in this order."
Use = Literal["gradients", "values", "auto"]
LEAST = 10
"Fewer check points say nothing: their interval is wider than half of what there is."
COMMON = "always answering the most common class"
ONE_NUMBER = "The one number answered was read as the score of two classes; of a regression, only the sides are measured."
SURE = 1.96
"Standard errors of a 95 % interval."


@option_class
class Surrogate(Attack[tuple[Predictions, Candidates], Copy]):
    """Train a network to answer like the target at points of the data, by its values and its gradients."""

    name: ClassVar[str] = "surrogate"
    asks: ClassVar[int] = 1_000
    paper: ClassVar[str] = PAPER
    taxonomy = taxonomies.EXTRACTION
    remedy: ClassVar[tuple[str | Remedy, ...]] = REMEDY

    queries: PositiveInt = 100
    "How many candidates to ask about for training."
    holdout: Annotated[int, Field(ge=LEAST)] = 200
    "How many more to ask about for measuring the copy; no copy is trained on them."
    pick: Literal["spread", "random"] = "spread"
    "Which candidates: those nearest to the centres of as many clusters, or any."
    architecture: Architecture = "two-layer"
    "What the copy is; auto trains several and keeps the one that agrees best on half of the holdout."
    width: PositiveInt | None = None
    "Hidden units of the copy, or channels of its first convolution."
    use: Use = "gradients"
    "Learn from values and gradients, where those are answered, or values alone; auto: the better on half of the holdout."
    steps: PositiveInt = 1000
    "Steps of training."

    def run(self, held: tuple[Predictions, Candidates], context: Context) -> Finding[Copy]:
        target, candidates = held
        if target.dimension != candidates.X.shape[1]:
            raise NotApplicable(
                f"the candidates have {candidates.X.shape[1]} features and the target takes {target.dimension}"
            )
        if len(candidates.X) < 2 * LEAST:
            raise NotApplicable(f"{len(candidates.X)} candidates are too few to train a copy on some and measure on others")
        holdout = min(self.holdout, len(candidates.X) // 2)
        queries = min(self.queries, len(candidates.X) - holdout)

        def drawn(rng: np.random.Generator) -> tuple[Array, Array]:
            order = rng.permutation(len(candidates.X))
            rest = candidates.X[order[holdout:]]
            chosen = rest[:queries] if self.pick == "random" else spread(rest, queries, rng)
            return chosen, candidates.X[order[:holdout]]

        return copied(self, target, candidates.shape, drawn, context)

    def score(self, finding: Finding[Copy], held: tuple[Predictions, Candidates], truth: Truth) -> Finding[Copy]:
        return scored(finding, truth)

    def within(self, points: int) -> Self:
        return replace(self, **shared_out(self.queries, self.holdout, points))


def shared_out(queries: int, holdout: int, points: int) -> dict[str, Any]:
    """Points that train a copy and points that measure it, no more than that in all; as few as will do measure it."""
    kept = max(1, min(queries, points - LEAST))
    return {"queries": kept, "holdout": max(LEAST, min(holdout, points - kept))}


class Training(Protocol):
    """The options that say how a copy is trained, whoever chooses the points."""

    @property
    def architecture(self) -> Architecture: ...

    @property
    def width(self) -> int | None: ...

    @property
    def use(self) -> str: ...

    @property
    def steps(self) -> int: ...


def copied(
    options: Training,
    target: Predictions,
    shape: tuple[int, ...] | None,
    drawn: Callable[[np.random.Generator], tuple[Array, Array]],
    context: Context,
) -> Finding[Copy]:
    """Ask, train, measure."""
    asked = context.once("answers", lambda rng: _asked(options.use, target, *drawn(rng)))
    trials, checks, right = _trained(options, asked, tuple(shape or (target.dimension,)), context)
    half = len(checks) // 2 if len(trials) > 1 else 0  # those that choose a copy do not measure it
    tried, trial = max(trials.items(), key=lambda one: np.mean(one[1]["named"][:half] == right[:half]) if half else 0)
    name, source = tried
    agrees, right = trial["named"][half:] == right[half:], right[half:]
    score = _share(agrees, _most_common(right), COMMON)
    low, high = score.interval or (0.0, 1.0)
    copy = Copy(name, trial["arrays"], trial["shape"], trial["outputs"], score.value)
    found: dict[str, Any] = {
        "scores": {"agreement on held-out queries": score},
        "figures": (_curve(trial["curve"]),) if len(trial["curve"]) > 1 else (),
        "notes": (
            f"{len(asked['X'])} queries trained the copy and {len(checks)} more measured it; the cost counts both.",
            *([f"Tried: {_listed(trials)}; half of the held-out queries chose."] if half else []),
            *([ONE_NUMBER] if copy.classes == 1 else []),
        ),
    }
    if low > score.null:
        summary = (
            f"A {name} copy trained on the {source} at {len(asked['X'])} queries names the same class as the target in "
            f"{score.value:.1%} of {len(agrees)} fresh queries ({low:.1%} to {high:.1%}); the most common class makes up "
            f"{score.null:.1%}."
        )
        return Finding.leak(copy, summary, **found)
    seen = score.null + (high - low) / 2
    return Finding.none_found(
        f"A {name} copy trained on the {source} at {len(asked['X'])} queries does not surely agree with the target more "
        f"often than the most common class does: {score.value:.1%} ({low:.1%} to {high:.1%}) against {score.null:.1%}.",
        power=f"{len(agrees)} fresh queries show an agreement above {seen:.1%}."
        if seen < 1
        else "The target names one class only: no agreement could show anything.",
        **found,
    )


def _asked(use: str, target: Predictions, X: Array, checks: Array) -> dict[str, Any]:
    """Everything that is asked of the target. Values and gradients at the same points are one query each."""
    slopes = target.gradient(X) if use != "values" and isinstance(target, Gradients) else None
    values = target.value(X)  # a server that was asked to explain has told them too
    return {"X": X, "values": values, "slopes": slopes, "checks": checks, "answers": target.value(checks)}


def _trained(
    options: Training, asked: dict[str, Any], shape: tuple[int, ...], context: Context
) -> tuple[dict[tuple[str, str], dict[str, Any]], Array, Array]:
    """A trained copy for every architecture and source to be tried, the check points and the classes named there."""
    from divulge.solvers.distillation import distillation
    from divulge.solvers.shared import architectures

    values, answers = distillation.outputs(asked["values"], asked["answers"])
    right, checks = distillation.classes(answers), asked["checks"]
    if answers.shape[1] == 1 and len(np.unique(right)) == 1:
        raise NotApplicable(
            "the target answers one number that never changes sides: a regression, or a score of one class; a copy is "
            "measured by the classes it names"
        )
    names = TRIED if options.architecture == "auto" else (options.architecture,)
    fit = [name for name in names if not architectures.unfit(name, shape)]
    try:
        sources = {"values": None} if asked["slopes"] is None else {"values and gradients": asked["slopes"]}
        sources |= {"values": None} if options.use == "auto" else {}
        lessons = {source: distillation.lesson(asked["X"], values, slopes) for source, slopes in sources.items()}
        if not fit:
            raise ValueError(architectures.unfit(names[0], shape))
    except ValueError as reason:
        raise NotApplicable(str(reason)) from None

    plan = [(name, source) for name in fit for source in lessons]

    def train(name: str, source: str, done: int, rng: np.random.Generator) -> dict[str, Any]:
        seed = int(rng.integers(2**31))
        module = architectures.build(name, shape, values.shape[1], seed, options.width)
        curve = []

        def watch(step: int) -> None:
            context.budget.check()
            context.progress(done * options.steps + step, len(plan) * options.steps)
            curve.append((step, np.mean(distillation.named(module, checks) == right)))

        distillation.fit(name, module, lessons[source], seed, options.steps, watch)
        named = distillation.named(module, checks)
        arrays = architectures.state(module)
        return {"arrays": arrays, "shape": shape, "outputs": values.shape[1], "named": named, "curve": np.array(curve)}

    trials = {}
    for done, (name, source) in enumerate(plan):
        step = f"copy-{name}" + ("-by-values" if source == "values" and len(lessons) > 1 else "")
        trials[name, source] = context.once(step, partial(train, name, source, done))
    return trials, checks, right


def scored(finding: Finding[Copy], truth: Truth) -> Finding[Copy]:
    """Accuracy on labelled points of the auditor's and, where the auditor has the network itself, agreement there."""
    from divulge.solvers.distillation import distillation

    known, original, copy = truth.get(Candidates), truth.get(Copy), finding.loot
    if known is None or copy is None or known.X.shape[1] != math.prod(copy.shape):
        return finding
    named = distillation.classes(copy.predict(known.X), 0.0)
    scores = {}
    if known.y is not None:
        labels, numbers = np.unique(known.y, return_inverse=True)
        whole = known.y.dtype.kind in "iuf" and np.isin(labels, range(max(copy.classes, 2))).all()
        right = known.y if whole else numbers
        accuracy = _share(named == right, _most_common(right), COMMON)
        scores["accuracy of the copy"] = replace(accuracy, speaks=False)  # which may be the target's own fault
    if original is not None:
        theirs = distillation.classes(original.predict(known.X), 0.0)
        scores["agreement on test points"] = _share(named == theirs, _most_common(theirs), COMMON)
    return replace(finding, scores=scores | dict(finding.scores))


def _listed(trials: dict[tuple[str, str], dict[str, Any]]) -> str:
    """What was tried; by what each learned, where that was not the same."""
    several = len({source for _, source in trials}) > 1
    return ", ".join(f"{name} by {source}" if several else name for name, source in trials)


def _most_common(classes: Array) -> float:
    return float(np.unique(classes, return_counts=True)[1].max() / len(classes))


def _share(hits: Array, null: float, null_of: str) -> Score:
    """How many hits, with Wilson's interval."""
    share, n = float(np.mean(hits)), len(hits)
    middle = (share + SURE**2 / (2 * n)) / (1 + SURE**2 / n)
    reach = SURE / (1 + SURE**2 / n) * math.sqrt(share * (1 - share) / n + SURE**2 / (4 * n * n))
    return Score(share, null, null_of, interval=(max(middle - reach, 0.0), min(middle + reach, 1.0)), most=1.0)


def _curve(reports: Array) -> Curve:
    return Curve(
        "Agreement while the copy learns", "step", "agreement on held-out queries", {"copy": (reports[:, 0], reports[:, 1])}
    )
