"""Training points of a network with one input, from where it meets its margin (Smorodinsky et al. 2024, section 3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from divulge.attacks.univariate import candidates, findings
from divulge.attacks.univariate.candidates import Found
from divulge.attacks.univariate.findings import FunctionOfValues
from divulge.attacks.univariate.scoring import scored
from divulge.contract import (
    Array,
    Attack,
    Context,
    Finding,
    Predictions,
    TrainingData,
    Truth,
    Weights,
    option_class,
    taxonomies,
)
from divulge.errors import AttackFailed, BadInput, NotApplicable
from divulge.solvers.piecewise.breakpoints_by_value import Broken, TooManyKinks, find_kinks, measure_noise
from divulge.solvers.univariate import margin_minima, polyline
from divulge.solvers.univariate.polyline import Piecewise

PAPER = "Smorodinsky et al. 2024, Provable Privacy Attacks on Trained Shallow Neural Networks, arXiv:2410.07632"
REMEDY = (
    "Count training points as public once the weights, or exact values, of a network with one input are.",
    "Stop training well before only the margin grows, or train with differential privacy; then audit again.",
    "Answer rounded values: breakpoints cannot be found from those.",
)
PLANTED = (6, 14)
"Points of the control, at least and at most."
PLACES = (0.3, -0.7, 0.9)
"In shares of the reach, where the noise of values is measured."
NOISY = 1e-6
"Of the values' spread: with more noise breakpoints are lost, and nothing can be on the margin."
PROBED = 64
"Even places at which values are asked for first, to see how much they vary."


@option_class
class UnivariateReconstruction(Attack[Weights, TrainingData]):
    """List where the network meets its margin, and certify the points that training cannot have done without.

    At a KKT point of the margin every breakpoint is placed by training points nearby, so windows of neighbouring intervals
    hold one each (the paper's Algorithm 1); a linear program says which single points the weights cannot be explained
    without.
    """

    name: ClassVar[str] = "univariate-reconstruction"
    paper: ClassVar[str] = PAPER
    taxonomy = taxonomies.RECONSTRUCTION
    remedy: ClassVar[tuple[str, ...]] = REMEDY

    margin: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    "The smallest y N(x) of the training points, where it is known; otherwise it is estimated."
    slack: Annotated[float, Field(gt=0, lt=0.1)] = polyline.SLACK
    "How far from the margin a value counts as on it, in shares of the margin."

    def run(self, held: Weights, context: Context) -> Finding[TrainingData]:
        _one_input(held.dimension)
        if len(held.layers) < 2:
            raise NotApplicable("the network has no hidden layer: a straight line has no breakpoints to read anything from")
        if len(held.layers[-1][1]) != 1:
            raise NotApplicable(f"the network has {len(held.layers[-1][1])} outputs; a margin of one output was expected")
        found = candidates.of_weights(held, self.margin, self.slack)
        _reached(found, self.margin)
        context.log(f"{len(found.function.knots)} breakpoints, {len(found.x)} candidates.")
        return findings.finding(found, _power(found, self.slack, context.rng) if not found.certified.any() else "")

    def score(self, finding: Finding[TrainingData], held: Weights, truth: Truth) -> Finding[TrainingData]:
        if held.dimension != 1 or len(held.layers) < 2 or len(held.layers[-1][1]) != 1:
            return finding
        found = candidates.of_weights(held, self.margin, self.slack)
        return scored(finding, found, truth.get(TrainingData), held)


@option_class
class UnivariateFromValues(Attack[Predictions, TrainingData]):
    """The same from values alone: breakpoints are found or given, and between them the function is straight."""

    name: ClassVar[str] = "univariate-from-values"
    asks: ClassVar[int] = 300
    paper: ClassVar[str] = PAPER
    taxonomy = taxonomies.INVERSION
    remedy: ClassVar[tuple[str, ...]] = REMEDY

    margin: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    "The smallest y N(x) of the training points, where it is known; otherwise it is estimated."
    breakpoints: tuple[float, ...] | None = None
    "All of them, where they are known; otherwise they are found from values."
    reach: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 10.0
    "Breakpoints are looked for between −reach and reach."
    most: PositiveInt = 300
    "Breakpoints after which the function is taken for curved."
    slack: Annotated[float, Field(gt=0, lt=0.1)] = polyline.SLACK
    "How far from the margin a value counts as on it, in shares of the margin."

    def run(self, held: Predictions, context: Context) -> Finding[TrainingData]:
        kept = context.once("function", lambda rng: findings.whole(self._function(held)))
        function = findings.again(kept)
        found = candidates.of_values(function, self.margin, self.slack)
        _reached(found, self.margin)
        context.log(f"{len(found.function.knots)} breakpoints, {len(found.x)} candidates.")
        power = "" if found.certified.any() else _power(found, self.slack, context.rng, values=True)
        finding = findings.finding(found, power)
        return replace(finding, figures=(*finding.figures, kept), evidence=FunctionOfValues.of(function, found))

    def score(self, finding: Finding[TrainingData], held: Predictions, truth: Truth) -> Finding[TrainingData]:
        if not isinstance(finding.evidence, FunctionOfValues):
            return finding
        found = candidates.of_values(finding.evidence.function, self.margin, self.slack)
        return scored(finding, found, truth.get(TrainingData), truth.get(Weights))

    def _function(self, held: Predictions) -> Piecewise:
        _one_input(held.dimension)

        def ask(x: Array) -> Array:
            answers = np.asarray(held.value(np.asarray(x, dtype=float)[:, None]), dtype=float).reshape(len(x), -1)
            if answers.shape[1] != 1:
                raise NotApplicable(f"the model answers {answers.shape[1]} values to one input; one output was expected")
            return answers

        if self.breakpoints is not None:
            if not np.isfinite(self.breakpoints).all():
                raise BadInput("expected finite breakpoints, got NaN or an infinite one; leave those out")
            return polyline.through(np.array(self.breakpoints), lambda x: ask(x)[:, 0])
        spread = float(ask(np.linspace(-self.reach, self.reach, PROBED)).std())
        if spread == 0:
            raise NotApplicable(f"the model answers the same value everywhere within {self.reach:g}; nothing can be read")
        unit = self.reach / 10  # the solver's noise grows with the distance in units of 1
        noise = measure_noise(lambda t: ask(unit * t), 10 * np.array(PLACES))
        if noise.curved:
            raise NotApplicable("the answers are curved, and those of a ReLU network are straight between breakpoints")
        if noise.level > NOISY * spread:
            raise NotApplicable(
                f"the answers have noise of {noise.level / spread:.1e} of their spread: breakpoints cannot be found in it"
            )
        level = max(noise.level, 4 * np.finfo(float).eps * spread)
        try:
            kinks = find_kinks(lambda t: ask(unit * t), 10.0, type(noise)(level, False), spread, self.most)
        except TooManyKinks as error:
            raise NotApplicable(f"the slope changes more than {error.kinks} times: the model is curved") from None
        except Broken:
            raise NotApplicable("the answers jump from one value to another: the model is not continuous") from None
        knots = unit * kinks.places
        slopes = np.array([float(piece.slope[0]) for piece in kinks.pieces]) / unit
        values = ask(knots)[:, 0] if len(knots) else np.empty(0)
        return Piecewise(knots, values, slopes, float(kinks.pieces[0].at(0.0)[0]))


def _one_input(dimension: int) -> None:
    if dimension != 1:
        raise NotApplicable(
            f"the network has {dimension} inputs; with more than one, points on the margin form whole surfaces, and the "
            "theorems are about one"
        )


def _reached(found: Found, margin: float | None) -> None:
    if margin is not None and not len(found.reading.points) and not len(found.reading.plateaus):
        largest = float(np.abs(found.function.values).max(initial=0.0))
        raise AttackFailed(
            f"|N| never reaches the margin {margin:g} that was given; its largest value at a breakpoint is {largest:.6g}. "
            "Give another margin, or leave it out"
        )


def _power(found: Found, slack: float, rng: np.random.Generator, *, values: bool = False) -> str:
    """What the same attack certifies of points planted in a network at a KKT point, as many as breakpoints would allow."""
    count = int(np.clip(len(found.function.knots) + 2, *PLANTED))
    x = np.linspace(-1, 1, count) + rng.uniform(-0.3, 0.3, count) / count
    made = margin_minima.smallest(x, (-1) ** np.arange(count))
    if made is None:
        return "No network could be made to try this on."
    network = Weights(((made.w[:, None], made.b), (made.v[None], np.zeros(1))))
    function = polyline.of_network(network.layers)
    again = candidates.of_values(function, None, slack) if values else candidates.of_weights(network, None, slack)
    near = np.abs(again.reading.points[again.certified][:, None] - x).min(axis=1, initial=np.inf) <= 1e-3
    return (
        f"Of {count} points planted in a network at a KKT point, the same attack certifies {int(near.sum())}, and "
        f"{int((~near).sum())} that are none."
    )
