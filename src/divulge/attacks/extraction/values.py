"""A two-layer ReLU network from its values (Carlini et al. 2020, arXiv:2003.04884; Milli et al. 2018, arXiv:1807.05185)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from divulge.arrays import TwoLayers
from divulge.attacks.extraction.readout import Readout, centred, outputs_are_centred
from divulge.contract import (
    Array,
    Attack,
    Candidates,
    Context,
    Finding,
    Predictions,
    Score,
    TaxonomyId,
    Truth,
    Weights,
    option_class,
)
from divulge.errors import BudgetSpent, NotApplicable, sentence
from divulge.solvers.piecewise.breakpoints_by_value import Broken, Noise, TooManyKinks, find_kinks, measure_noise
from divulge.solvers.piecewise.two_layer import TwoLayer, weight_error
from divulge.solvers.piecewise.units_by_value import Deeper, FramedLine, Survey, extended
from divulge.solvers.shared import affine

SIZES = (0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e5)  # of check points, over the scale: far away every second unit is on
REACH = 1e5  # along a line, in units of the scale: one of 1e5 units has its kink farther out
FAR = 2e-5  # over the share of noise: on a longer line rounding at its ends would hide what happens in the middle
OUTLYING = 30.0  # where half of the kinks are farther from the origin than this, in units of the scale, that is too small
CRUDE, SPARE = 5e-10, 2  # slopes known no better than this are worth as many other lines,
WIDE = 500  # where there are so many inputs that finding kinks, at five values each, costs next to nothing
SHRINK = 4.0  # by how much a line is cut, and points are drawn nearer, until probabilities can be read
SHRINKS = 12
HALF = 0.5  # of the check points of one size have to be readable to count
FEWEST = 8  # check points that have to be readable
PLACES = (0.3, -0.7, 5.0)  # on a line, where the noise of its values is measured
COARSE = 3e-6  # of the values' spread: with more noise kinks are lost. Single precision leaves 1e-7 to 2e-6
FINE = 1e-7  # of the spread: a copy that is off by no more is called exact where answers have all their digits
EXACT = 1e-5  # of the spread: a copy that answers can confirm no better is given as a good one, not as the original
BROAD = 10.0  # times the usual size: a copy that can only be checked nearer by may miss units, and is not called exact
COARSE_LINES = 4  # after which a copy from answers that are no better than that is given up
LOSS = 3e3  # times the noise: what is lost on the way from values to slopes to units
DROPPED = 1e-6  # of the slopes: a linear part this small is rounding, and where answers are coarse a larger one
CLOSER = 0.3  # of the accuracy of values: how well a unit has to be known not to be measured again
LEGIBLE = 1e-4  # a single probability this near to 0 or 1 has lost too many of its digits
ILLEGIBLE = "the answers are probabilities of 0 or 1 wherever one looks: no logits can be read from them"
SHIFT = "Probabilities stay the same when all logits grow alike, so those of the copy are given with sum 0."
LOGIT = "The answers are probabilities of one class; the copy gives their logits."
PLAIN = "The layers are those of a plain network with as many units as kinks were found."
PAIRED = "Which side of a kink is on could not be settled for all units, so pairs of units add what is linear."


@option_class
class ValueExtraction(Attack[Predictions, Weights]):
    """Find every kink of a two-layer ReLU network on a line, and every unit from slopes across it, by values alone."""

    name: ClassVar[str] = "value-extraction"
    paper: ClassVar[str] = (
        "Carlini, Jagielski and Mironov 2020, Cryptanalytic Extraction of Neural Network Models, arXiv:2003.04884; "
        "Milli et al. 2018, Model Reconstruction from Model Explanations, arXiv:1807.05185"
    )
    taxonomy: ClassVar[tuple[TaxonomyId, ...]] = (
        TaxonomyId("NIST AI 100-2", "E2025", "NISTAML.031"),
        TaxonomyId("MITRE ATLAS", "5", "AML.T0024.002"),
        TaxonomyId("OWASP ML Top 10", "2023", "ML05"),
    )
    remedy: ClassVar[tuple[str, ...]] = (
        "Count the weights of a two-layer network as public once it answers logits or probabilities in full precision.",
        "Answer labels only, or round to three decimals, and refuse inputs outside the usual range; then audit again.",
        "A limit on queries has to stay well below the number of weights divided by the number of outputs.",
    )

    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    "The usual size of the inputs: lines pass through points with coordinates of this size."
    lines: PositiveInt = 8
    "How many lines to look along at most; one is enough unless a kink was missed."
    most: PositiveInt = 5000
    "How many kinks on a line to allow for; a curve has no end of them."
    checks: Annotated[int, Field(ge=24)] = 48
    "How many fresh points of several sizes have to agree with the copy."

    def run(self, held: Predictions, context: Context) -> Finding[Weights]:
        target = _Target(held, context, self.scale, self.checks)
        target.draw_checks()
        copy: TwoLayer | None = None
        try:
            for number in range(self.lines):
                if number >= COARSE_LINES and target.accuracy > EXACT:
                    break  # coarse answers do not get better
                copy = target.better(copy, target.another_line(copy, self.most))
                agreeing = target.agreeing(copy)
                context.log(f"line {target.lines}: {copy.units} units, {agreeing.mean():.0%} of check points agree")
                if agreeing.all() and copy.units:
                    return _leak(copy, target)
                if agreeing.all():
                    raise NotApplicable(
                        f"the model is linear at points up to {target.largest:g}, where no kink shows: "
                        "the attack `linear-extraction` is for that"
                    )
        except BudgetSpent as spent:
            return _unfinished(copy, target, sentence(spent))
        return _unfinished(copy, target)

    def score(self, finding: Finding[Weights], held: Predictions, truth: Truth) -> Finding[Weights]:
        loot, known, candidates = finding.loot, truth.get(Weights), truth.get(Candidates)
        if loot is None:
            return finding
        scores = dict(finding.scores)
        if known is not None and len(known.layers) == 2 and _shape(known) == _shape(loot):
            error = weight_error((loot.layers[0], loot.layers[1]), _visible(known, shifted=outputs_are_centred(finding)))
            parameters = sum(W.size + b.size for W, b in known.layers)
            scores["largest weight error"] = Score(error, 1.0, "weights of 0", better="lower")
            scores["queries per parameter"] = Score(
                finding.cost.queries / parameters, 1.0, "one answer for every unknown weight", better="lower"
            )
        if candidates is not None and known is not None and known.dimension == candidates.X.shape[1] == loot.dimension:
            scores |= _at_candidates(loot.predict(candidates.X), known.predict(candidates.X))
        return replace(finding, scores=scores)


class _Target:
    """What answers, read as logits where they are probabilities, and what was learned of it so far."""

    def __init__(self, held: Predictions, context: Context, scale: float, checks: int) -> None:
        self.held, self.rng, self.usual, self.checks = held, context.rng, scale, checks
        self.scale = scale
        "Of the next line."
        self.link, self.reach = affine.IDENTITY, REACH
        self.X, self.A = np.empty((0, held.dimension)), np.empty((0, 0))
        self.sizes = np.empty(0)
        self.digits = affine.Resolution(0.0)
        self.repeats, self.noisy = 0.0, False
        "How far two answers at one point differ, and whether that is more than rounding."
        self.lines = 0
        self.coarseness = 0.0
        "The largest noise of any line so far, relative to how values vary there."

    def draw_checks(self) -> None:
        """Answers at fresh points that no copy is made from; refuses what is no network's answers at sight."""
        relative = np.resize(SIZES, self.checks)
        directions = self.rng.standard_normal((self.checks, self.held.dimension))
        for _ in range(SHRINKS):
            sizes = self.usual * relative
            X = sizes[:, None] * directions
            answers = self._answers(X)
            _refuse_labels(answers)
            self.link = _link(answers, relative)
            readable = _readable(self.link, answers)
            shares = {size: readable[relative == size].mean() for size in SIZES}
            readable &= np.array([shares[size] >= HALF for size in relative])  # elsewhere no line could be followed
            if readable[relative <= 1].all() and readable.sum() >= FEWEST:
                break
            self.usual /= SHRINK
        else:
            raise NotApplicable(ILLEGIBLE)
        self.X, self.A, self.sizes = X[readable], self.link.scores(answers[readable]), sizes[readable]
        self.digits, self.scale = affine.resolution(answers), self.usual
        self.repeats = float(np.abs(self._answers(X[:1]) - answers[:1]).max())
        if not self.spread:
            raise NotApplicable("the model gives the same answer at all points of one size: there is no network to find")
        self.noisy = self.repeats > affine.ROUNDING * self.digits.relative * float(np.abs(answers[0]).max())

    def _answers(self, X: Array) -> Array:
        return np.asarray(self.held.value(X), float).reshape(len(X), -1)

    def value(self, X: Array) -> Array:
        answers = self._answers(X)
        if not _readable(self.link, answers).all():
            raise _Illegible
        return self.link.scores(answers)

    def spread_at(self, size: float) -> float:
        values = self.A[self.sizes == size]
        return float(values.std(0).max()) if np.ptp(values, axis=0).any() else 0.0  # where all units are off

    @property
    def spread(self) -> float:
        """How much values vary at points of the usual size, or would if they did as farther out."""
        sizes = np.unique(self.sizes)
        return self.scale * float(max(self.spread_at(size) / max(size, self.scale) for size in sizes))

    @property
    def largest(self) -> float:
        return float(self.sizes.max())

    @property
    def accuracy(self) -> float:
        """How far off, relative to the spread of the values, a copy may be that is called exact."""
        return max(FINE, LOSS * self.coarseness)

    @property
    def readout(self) -> Readout:
        return Readout(self.link.name, self.link is affine.SOFTMAX)

    def least_noise(self) -> float:
        """What the digits of the answers leave at the origin of a line."""
        steepest = float(np.abs(self.A / np.maximum(self.sizes / self.scale, 1)[:, None]).max())
        decimals = self.digits.step if self.link is affine.IDENTITY else 0.0
        return max(steepest * self.digits.relative / affine.ROUNDING, decimals, self.repeats)

    def another_line(self, copy: TwoLayer | None, most: int) -> TwoLayer:
        """A copy that is right on another line too, of the size of points where it is wrong.

        A line on which probabilities cannot be read is cut, and the first one drawn again where kinks are far out.
        """
        self.lines += 1
        if copy is not None:
            wrong = self.sizes[~self.agreeing(copy)]
            self.scale = max(self.usual, float(self.rng.choice([wrong.min(), self.rng.choice(wrong)])))
        for _ in range(SHRINKS):
            try:
                survey = self._survey(most)
                middle = float(np.median(np.abs(survey.kinks.places))) if len(survey.kinks.places) else 0.0
                if copy is None and middle > OUTLYING and self.scale == self.usual:
                    self.scale *= middle
                    continue
                for _ in range(SPARE if copy is None and self.held.dimension >= WIDE else 0):
                    if survey.crudeness() > CRUDE:
                        survey = min(survey, self._survey(most), key=Survey.crudeness)
                return self._extended(copy, survey)
            except _Illegible:
                self.scale, self.reach = self.usual, self.reach / (SHRINK if self.scale == self.usual else 1)
        raise NotApplicable(ILLEGIBLE)

    def _survey(self, most: int) -> Survey:
        """The kinks on a fresh line."""
        line = FramedLine.random(self.held.dimension, self.scale, self.rng)

        def ask(t: Array) -> Array:
            return self.value(line.at(t))

        noise = measure_noise(ask, min(1.0, self.reach / 10) * np.array(PLACES))
        noise = replace(noise, level=max(noise.level, self.least_noise()))
        self.coarseness = max(self.coarseness, noise.level / self.spread)
        self._refuse(noise)
        try:
            reach = min(self.reach, FAR * self.spread / noise.level)
            return Survey(line, find_kinks(ask, reach, noise, self.spread, most), noise, self.spread)
        except TooManyKinks as error:
            raise NotApplicable(
                f"the slope changes more than {error.kinks} times on one line: the model is curved, or has more units"
            ) from None
        except Broken:
            raise NotApplicable("the answers jump from one value to another: the model is not continuous") from None

    def _extended(self, copy: TwoLayer | None, survey: Survey) -> TwoLayer:
        outputs = self.A.shape[1]
        start = copy or TwoLayer.affine(np.zeros((outputs, self.held.dimension)), np.zeros(outputs))
        try:
            return extended(start, self.value, survey, CLOSER * self.accuracy, self.rng)
        except Deeper as error:
            raise NotApplicable(f"the model has more than one hidden layer: {error}") from None

    def better(self, one: TwoLayer | None, other: TwoLayer) -> TwoLayer:
        """The copy that is less far off where it is farthest."""
        return other if one is None or self._off(other).max() <= self._off(one).max() else one

    def _refuse(self, noise: Noise) -> None:
        share = noise.level / self.spread
        if share > COARSE:
            why = "asked twice, one point gives two values" if self.noisy else "they are rounded, or large numbers cancel"
            raise NotApplicable(f"the answers are exact to {share:.0e} of their spread only, {COARSE:.0e} is needed: {why}")
        if noise.curved:
            raise NotApplicable(
                "the model is not piecewise linear: values leave a straight line within a step of 1e-4, wherever one looks"
            )

    def _allowed(self) -> Array:
        """How far off each check point's values may be: relative to how values vary at that size, or the usual one."""
        usual = self.spread_at(self.usual) or self.usual * self.spread / self.scale
        allowed = self.accuracy * np.array([max(self.spread_at(size), usual) for size in self.sizes])
        return np.asarray(np.maximum(allowed, self.digits.relative * np.abs(self.A).max(1)))

    def agreeing(self, copy: TwoLayer | Weights) -> Array:
        return self._off(copy) <= 1

    def _off(self, copy: TwoLayer | Weights) -> Array:
        """How far off the copy is at each check point, in units of what is allowed."""
        values = copy.predict(self.X) if isinstance(copy, Weights) else copy.values(self.X)
        return np.asarray(np.abs(values - self.A).max(1) / self._allowed())

    def error(self, copy: TwoLayer) -> float:
        """The largest error at points of one size, relative to how values vary there."""
        off = (copy.values(self.X) - self.A) ** 2
        sizes = [size for size in np.unique(self.sizes) if size >= self.usual and self.spread_at(size)]
        return max((float(np.sqrt(off[self.sizes == size].mean())) / self.spread_at(size) for size in sizes), default=0.0)

    def negligible(self, copy: TwoLayer) -> float:
        """The size of a kink that is rounding."""
        return 1e-3 * self.coarseness * float(np.linalg.norm(copy.out * np.linalg.norm(copy.into, axis=1)))


class _Illegible(Exception):
    """A probability is too near to 0 or 1 to be read as a logit."""


def _link(answers: Array, sizes: Array) -> affine.Link:
    """Classes' probabilities, a single one, which far away is 0 or 1, or values as they are."""
    if answers.min() < 0 or answers.max() > 1:
        return affine.IDENTITY
    if answers.shape[1] > 1:
        return affine.SOFTMAX if affine.adds_to_one(answers) else affine.IDENTITY
    far = answers[sizes >= np.median(sizes)]
    return affine.LOGISTIC if (np.minimum(far, 1 - far) < LEGIBLE).mean() > 0.5 else affine.IDENTITY


def _readable(link: affine.Link, answers: Array) -> Array:
    """(n,): whether all logits of a row can be read."""
    if link is affine.SOFTMAX:
        return np.asarray((answers > np.finfo(float).tiny).all(1))
    if link is affine.LOGISTIC:
        return np.asarray(((answers > LEGIBLE) & (answers < 1 - LEGIBLE)).all(1))
    return np.ones(len(answers), dtype=bool)


def _refuse_labels(answers: Array) -> None:
    """Give up where hardly any answer differs from all others; a network may be constant at some points only."""
    counts = np.unique(answers, axis=0, return_counts=True)[1]
    if len(counts) == 1:
        raise NotApplicable(f"the model gives the same answer at all {len(answers)} points: there is no network to find")
    if (counts == 1).sum() <= len(answers) // 16:
        raise NotApplicable(
            f"the answers take only {len(counts)} values at {len(answers)} points: labels do not give up weights"
        )


def _leak(copy: TwoLayer, target: _Target) -> Finding[Weights]:
    layers, plain = copy.merged(target.negligible(copy)).layers(max(DROPPED, target.accuracy))
    if not target.agreeing(Weights(layers)).all():  # what was dropped as rounding was more
        layers, plain = copy.layers(0.0)
    error = target.error(copy)
    where = f"{target.lines} line{'s' * (target.lines > 1)}"
    return Finding.leak(
        Weights(layers, exact=target.accuracy <= EXACT and target.largest >= BROAD * target.usual),
        f"The model behind the API is a two-layer ReLU network with {copy.units} units that show: its weights follow from "
        f"values on {where} and beside; {len(target.X)} fresh answers agree to {error:.0e}.",
        evidence=target.readout,
        scores={"relative error at fresh points": Score(error, 1.0, "always answering the mean", better="lower")},
        notes=(
            f"Units that move no value by {target.accuracy:.0e} of the spread at points up to {target.largest:g} in "
            "every coordinate would not have been seen.",
            PLAIN if plain else PAIRED,
            *([SHIFT] if target.link is affine.SOFTMAX else []),
            *([LOGIT] if target.link is affine.LOGISTIC else []),
        ),
    )


def _unfinished(copy: TwoLayer | None, target: _Target, spent: str = "") -> Finding[Weights]:
    """The copy so far and how good it is, where a budget was spent or the lines are used up."""
    if copy is None or not copy.units:
        return Finding.failed(spent or "No kink shows, and yet the model is not linear.", partial=bool(spent))
    agreement = float(target.agreeing(copy).mean())
    loot = Weights(copy.merged(target.negligible(copy)).layers()[0], exact=False, agreement=agreement)
    state = (
        f"The copy with {copy.units} units, found on {target.lines} lines, differs from the model at {1 - agreement:.0%} of "
        f"{len(target.X)} check points by more than {target.accuracy:.0e} of the values' spread."
    )
    return Finding.failed(
        spent or state, loot=loot, evidence=target.readout, partial=bool(spent), notes=(state,) if spent else ()
    )


def _visible(known: Weights, *, shifted: bool) -> TwoLayers:
    """The true layers as far as values can tell: units on one hyperplane are one, and logits behind a softmax sum to 0."""
    (into, bias), (out, constant) = known.layers
    if shifted:
        out, constant = centred((out, constant))
    alive = into.any(1)
    constant = constant + out[:, ~alive] @ np.maximum(bias[~alive], 0)
    into, bias, out = into[alive], bias[alive], out[:, alive]
    layers, plain = TwoLayer(into, bias, out, np.zeros((len(out), known.dimension)), constant).merged(0).layers()
    return layers if plain else ((into, bias), (out, constant))


def _shape(weights: Weights) -> tuple[int, int]:
    return weights.dimension, len(weights.layers[-1][1])


def _at_candidates(copied: Array, answers: Array) -> dict[str, Score]:
    if answers.shape[1] > 1:
        labels = answers.argmax(1)
        same = float((copied.argmax(1) == labels).mean())
        usual = float(np.bincount(labels).max() / len(labels))
        return {"agreement at the candidates": Score(same, usual, "always the most frequent class")}
    vary = float(np.linalg.norm(answers - answers.mean(0)))
    off = float(np.linalg.norm(copied - answers)) / (vary or 1.0)
    return {"relative error at the candidates": Score(off, 1.0, "always answering the mean", better="lower")}
