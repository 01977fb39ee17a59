"""Coefficients of a linear model behind an API (Tramèr et al. 2016, arXiv:1609.02943; Milli et al. 2018, 1807.05185)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from divulge.attacks.extraction.readout import Readout, outputs_are_centred
from divulge.contract import (
    Array,
    Attack,
    Context,
    Finding,
    Gradients,
    Parameters,
    Predictions,
    Score,
    Truth,
    Verdict,
    option_class,
    taxonomies,
)
from divulge.errors import NotApplicable
from divulge.solvers.shared import affine
from divulge.solvers.shared.affine import Affine, Resolution

ROUNDS = 8  # changes of the size of query points before answers are given up: by 8⁸ = 2e7, any unit of measurement
STEP = 8.0  # by how much, as long as nothing says how much is needed
HALVINGS = 48  # of a segment between two classes: as many as floating-point numbers bear, hardly ever reached
SURE = 0.9  # a probability above this is no good place to ask for more
CLEAR = 30.0  # times the precision of probabilities: as far from certain a centre has to be to shrink around it
STEEP = 4.0  # scores vary by no more, so that probabilities keep their digits
LOSS = 1e3  # losing more than three of the answers' digits is worth asking again at a better place
BETTER = 2  # times at most
COARSE = 0.05  # parameters known no better than this are no leak: two decimals of a probability leave 0.03
OTHER = 0.1  # a truth further away is another model's, or in other units: what is claimed is within 0.05 of its own
SAME = "a copy that always gives the same answer"
SHIFT = "Probabilities of classes stay the same when all scores grow alike, so parameters are given with sum 0 over classes."
GRADIENT = "one answer and its gradient"
UNUSED = "The gradients are not those of a linear model with these answers: the answers alone were used."
BEHIND = {
    "identity": "",
    "logistic": " with a logistic link",
    "softmax": " with a softmax link",
    "exponential": " with an exponential link",
}


@option_class
class LinearExtraction(Attack[Predictions, Parameters]):
    """Solve for the coefficients of a linear, logistic, softmax or log-linear model from its answers."""

    name: ClassVar[str] = "linear-extraction"
    asks: ClassVar[int] = 100
    paper: ClassVar[str] = (
        "Tramèr et al. 2016, Stealing Machine Learning Models via Prediction APIs, arXiv:1609.02943; "
        "Milli et al. 2018, Model Reconstruction from Model Explanations, arXiv:1807.05185"
    )
    taxonomy = taxonomies.EXTRACTION
    remedy: ClassVar[tuple[str, ...]] = (
        "Count the coefficients of a linear model as public once it answers scores or probabilities.",
        "Answer labels only, or probabilities of one decimal, and no gradients; then audit again.",
        "A limit on queries has to stay below the number of features to hide a coefficient, and a gradient takes one query.",
    )

    checks: Annotated[int, Field(ge=4)] = 16
    "How many fresh points have to agree with the recovered model."
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    "The usual size of the inputs: query points have coordinates of this size, unless answers there lose their digits."

    def run(self, held: Predictions, context: Context) -> Finding[Parameters]:
        inquiry = _Inquiry(held, context.rng, self.checks)
        inquiry.make_copies(*inquiry.readable_place(self.scale))
        for _ in range(BETTER):
            good = inquiry.good_copies()
            if not good or (not _ambiguous(good) and good[0].model.error <= inquiry.goal):
                break
            place = good[0].model.balanced()
            inquiry.look(*place)
            inquiry.make_copies(*place)
        good = inquiry.good_copies()
        if not good:
            raise NotApplicable(inquiry.reason())
        copy, model, X, A = good[0], good[0].model, inquiry.X, inquiry.A
        if _ambiguous(good) or model.error > COARSE:
            names = " or ".join(dict.fromkeys(copy.model.link.name for copy in good))
            raise NotApplicable(
                f"the answers are too coarse: a linear model with the link {names} agrees with them, but "
                f"{min(model.error, 1):.1g} of its coefficients or more would be guessed; another scale than "
                f"{self.scale:g} may show more"
            )
        off = _off(model.answers(X), A)
        agreement = f"{len(X)} fresh answers {f'to {off:.0e}' if off else 'exactly'}"
        return Finding.leak(
            Parameters(
                model.coef if len(model.coef) > 1 else model.coef[0], model.intercept, precision=max(model.error, off)
            ),
            f"The model behind the API is linear{BEHIND[model.link.name]}: its {model.coef.size + len(model.coef)} "
            f"parameters follow from {copy.source}, and agree with {agreement}.",
            evidence=Readout(model.link.name, model.link is affine.SOFTMAX),
            scores={"disagreement at fresh points": Score(off, _off(copy.answers.mean(0), A), SAME, better="lower")},
            notes=(
                f"The coefficients are known to {max(model.error, off):.0e}; a curve of that size would not have been seen.",
                *([SHIFT] if model.link is affine.SOFTMAX else []),
                *([UNUSED] if isinstance(held, Gradients) and copy.source != GRADIENT else []),
            ),
        )

    def score(self, finding: Finding[Parameters], held: Predictions, truth: Truth) -> Finding[Parameters]:
        known, loot = truth.get(Parameters), finding.loot
        if known is None or known.coef is None or loot is None or loot.coef is None:
            return finding
        true, won = np.atleast_2d(known.coef), np.atleast_2d(loot.coef)
        if outputs_are_centred(finding):
            true = true - true.mean(0)
        if true.shape != won.shape or not true.any():
            note = f"The true coefficients have shape {known.coef.shape}, these {loot.coef.shape}: they cannot be compared."
            return replace(finding, notes=(*finding.notes, note))
        error = float(np.linalg.norm(won - true) / np.linalg.norm(true))
        scores = {"relative error of the coefficients": Score(error, 1.0, "coefficients of 0", better="lower")}
        finding = replace(finding, scores=scores | dict(finding.scores))
        if error <= OTHER or finding.verdict is not Verdict.LEAK:
            return finding
        said = f"The truth is {error:.2g} off: the copy is wrong, or the truth is of another model, or in other units."
        return finding.corrected(Verdict.FAILED, said)


@dataclass(frozen=True, eq=False)
class _Copy:
    """A candidate for the model."""

    model: Affine
    answers: Array
    "What it was made from."
    source: str


class _Inquiry:
    """What was asked of the target so far. Of two probabilities that add to 1 only the second is looked at."""

    def __init__(self, held: Predictions, rng: np.random.Generator, checks: int) -> None:
        self.held, self.rng = held, rng
        self.fresh = rng.standard_normal((checks, held.dimension))
        self.X, self.A = np.empty((0, held.dimension)), np.empty((0, 0))
        self.precision = Resolution(0.0)
        self.pair = False
        self.copies: list[_Copy] = []

    @property
    def margin(self) -> float:
        """Probabilities this near to 1 show nothing of their scores."""
        return max(self.precision.relative, self.precision.step)

    @property
    def goal(self) -> float:
        """The error of the coefficients from which another place is worth its queries."""
        return min(COARSE, LOSS * self.precision.coarseness)

    def ask(self, X: Array) -> Array:
        A = np.asarray(self.held.value(X), float).reshape(len(X), -1)
        if not len(self.X):
            self.pair = A.shape[1] == 2 and affine.adds_to_one(A)
        return A[:, 1:] if self.pair else A

    def look(self, centre: Array, size: float) -> Array:
        """Answers at fresh points around a place; every copy has to agree with them from now on."""
        X = centre + size * self.fresh
        A = self.ask(X)
        self.X, self.A = np.concatenate([self.X, X]), np.concatenate([self.A.reshape(-1, A.shape[1]), A])
        self.precision = affine.resolution(self.A)
        return A

    def readable_place(self, scale: float) -> tuple[Array, float]:
        """A centre and a size of points at which answers vary and, if they are probabilities, are not 0 and 1."""
        centre, size = np.zeros(self.held.dimension), scale
        A = self.look(centre, size)
        if _saturated(A, self.margin) and _saturated(middle := self.ask(centre[None]), CLEAR * self.margin):
            while np.abs(A - middle).max() < 0.5 and size < scale * STEP**ROUNDS:
                size *= STEP
                A = self.look(centre, size)
            far = int(np.abs(A - middle).max(1).argmax())
            centre, size = self._between(centre, middle[0], size * self.fresh[far], A[far]), size / STEP
            A = self.look(centre, size)
        for _ in range(ROUNDS):
            factor = _resize(A, self.margin)
            if factor == 1:
                break
            size *= factor
            A = self.look(centre, size)
        _refuse_labels(A, self.A)
        return centre, size

    def _between(self, here: Array, answer_here: Array, there: Array, answer_there: Array) -> Array:
        """Halve the way between two points with different answers until no class is certain."""
        for _ in range(HALVINGS):
            middle = np.asarray((here + there) / 2)
            answer = self.ask(middle[None])[0]
            if answer.max() < SURE and (len(answer) > 1 or answer.min() > 1 - SURE):
                break
            if np.abs(answer - answer_here).max() < np.abs(answer - answer_there).max():
                here, answer_here = middle, answer
            else:
                there, answer_there = middle, answer
        else:
            _refuse_labels(self.A, self.A)
        return middle

    def make_copies(self, centre: Array, size: float) -> None:
        """Candidates behind every link, from a gradient if that gives a good one, else from answers."""
        if isinstance(self.held, Gradients):
            found = list(self._from_gradient(self.held, centre, size))
            if any(self.misfit(copy) <= 1 for copy in found):
                self.copies += found
                return
        corners = affine.simplex(self.held.dimension, self.rng)
        A = self.ask(centre + size * corners)
        for link in (link for link in affine.LINKS if link.suits(A)):
            model = affine.from_answers(link, corners, centre, size, A, self.precision)
            self.copies.append(_Copy(model, A, f"{len(A)} answers"))

    def _from_gradient(self, held: Gradients, centre: Array, size: float) -> Iterator[_Copy]:
        x = centre + size * self.rng.standard_normal((1, held.dimension))
        J = np.asarray(held.gradient(x), float).reshape(-1, held.dimension)
        A = self.ask(x)  # which a server that was asked to explain has told too
        J = J[-1:] if self.pair else J
        if len(J) != A.shape[1]:
            return
        for link in (link for link in affine.LINKS if link.suits(A)):
            for signed in (J, -J) if self.pair else (J,):  # of two classes, one gradient may be of either
                yield _Copy(affine.from_gradient(link, x[0], size, A, signed, self.precision), A, GRADIENT)

    def misfit(self, copy: _Copy) -> float:
        """How far a copy is off at all fresh points, in units of what is allowed."""
        return copy.model.misfit(self.X, self.A, self.precision)

    def good_copies(self) -> list[_Copy]:
        """Those that agree with all fresh answers, the best known first."""
        known = [copy for copy in self.copies if np.isfinite(copy.model.error) and self.misfit(copy) <= 1]
        return sorted(known, key=lambda copy: copy.model.error)

    def reason(self) -> str:
        """Why no copy agrees."""
        certain = [_saturated(copy.answers, self.precision.coarseness) or copy.answers.min() == 0 for copy in self.copies]
        if any(certain) or any(copy.model.error > COARSE for copy in self.copies):
            return "the answers are too coarse, or too near 0 and 1, to tell whether a linear model is behind them"
        nearest = min(self.copies, key=self.misfit).model
        off = _off(nearest.answers(self.X), self.A)
        far = f"{off:.2g} of their spread" if off < 1 else "as much as they vary, or more"
        return (
            "the model is not linear in its inputs, and not behind any link that suits its answers: the nearest "
            f"({nearest.link.name}) misses {len(self.X)} fresh answers by {far}"
        )


def _ambiguous(good: list[_Copy]) -> bool:
    return len({copy.model.link.name for copy in good}) > 1


def _values(A: Array) -> int:
    return len(np.unique(A, axis=0))


def _refuse_labels(A: Array, seen: Array) -> None:
    """Give up where answers hardly vary; say so by all that were seen."""
    values = _values(seen)
    if values == 1:
        raise NotApplicable(f"the model gives the same answer at all {len(seen)} points: there are no coefficients to find")
    if _values(A) <= len(A) // 2:
        raise NotApplicable(
            f"the answers take only {values} values at {len(seen)} points: labels, leaves of a tree and probabilities that "
            "are rounded or certain do not give up coefficients this way"
        )


def _saturated(A: Array, margin: float) -> bool:
    """Whether answers look like probabilities and some are as good as certain."""
    return bool(A.min() >= 0 and A.max() <= 1 and (A.min() == 0 or A.max() >= 1 - margin))


def _resize(A: Array, margin: float) -> float:
    """By how much points should grow or shrink for answers that look like probabilities; 1 where they are good."""
    if A.min() < 0 or A.max() > 1:
        return 1
    if _saturated(A, margin):
        return 1 / STEP
    if _values(A) <= len(A) // 2:
        return STEP
    scores = affine.LOGISTIC.scores(A)
    steepness = float(np.abs(scores - scores.mean(0)).max())
    return 0.5 * STEEP / steepness if steepness > STEEP else 1


def _off(predicted: Array, A: Array) -> float:
    """How far predictions are from answers, relative to how much those vary."""
    with np.errstate(over="ignore"):
        return float(np.linalg.norm(predicted - A) / np.linalg.norm(A - A.mean(0)))
