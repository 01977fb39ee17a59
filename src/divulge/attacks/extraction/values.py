"""A two-layer ReLU network from its values (Carlini et al. 2020, arXiv:2003.04884; Milli et al. 2018, arXiv:1807.05185)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field, PositiveInt

from divulge.attacks.extraction.known import with_what_is_known
from divulge.attacks.extraction.readout import (
    CLAIM,
    DifferenceBound,
    Readout,
    beside_the_true_answers,
    beside_the_true_units,
)
from divulge.contract import (
    Array,
    Attack,
    Candidates,
    Context,
    Finding,
    Predictions,
    Remedy,
    Score,
    Truth,
    Weights,
    option_class,
    taxonomies,
)
from divulge.errors import BudgetSpent, NotApplicable, sentence
from divulge.solvers.piecewise.check_points import CheckPoints, Unsuitable
from divulge.solvers.piecewise.exactness import CONFIDENCE, chosen_points, share_that_may_differ
from divulge.solvers.piecewise.two_layer import NEGLIGIBLE, TwoLayer
from divulge.solvers.piecewise.value_search import ValueSearch
from divulge.solvers.shared import affine

COARSE_LINES = 4  # after which a copy from answers that are no better than that is given up
FRESH = 100  # points that have to agree before a copy is called exact: then it may be wrong in 4.6 % of space
USUAL = 1000  # points at which a copy is scored, where no candidates are known
ROUNDS = 4  # of asking for more, as up to half of the points of a size may be unreadable: a sixteenth is left
AGAIN = 0.5  # times as many more, each time another copy is checked: for the same bound at a tenth of the doubt
SHIFT = "Probabilities stay the same when all logits grow alike, so those of the copy are given with sum 0."
LOGIT = "The answers are probabilities of one class; the copy gives their logits."
PLAIN = "The layers are those of a plain network with as many units as kinks were found."
SATURATING = (
    "{} pairs of units are parallel and take back what each other adds: an activation that saturates, as ReLU6 does."
)
PAIRED = "Which side of a kink is on could not be settled for all units, so pairs of units add what is linear."


@option_class
class ValueExtraction(Attack[Predictions, Weights]):
    """Find every kink of a two-layer ReLU network on a line, and every unit from slopes across it, by values alone."""

    name: ClassVar[str] = "value-extraction"
    asks: ClassVar[int] = 50_000
    paper: ClassVar[str] = (
        "Carlini, Jagielski and Mironov 2020, Cryptanalytic Extraction of Neural Network Models, arXiv:2003.04884; "
        "Milli et al. 2018, Model Reconstruction from Model Explanations, arXiv:1807.05185"
    )
    taxonomy = taxonomies.EXTRACTION
    remedy: ClassVar[tuple[str | Remedy, ...]] = (
        "Count the weights of a two-layer network as public once it answers logits or probabilities in full precision.",
        Remedy(
            "Answer labels only, or round to three decimals, and refuse inputs outside the usual range; then audit again.",
            "values of 3 digits ended exact extraction; a copy trained on 300 of them still agreed on 0.879 "
            "and 0.852 of the images (docs/defences.md).",
        ),
        "A limit on queries has to stay well below the number of weights divided by the number of outputs.",
    )

    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    "The usual size of the inputs: lines pass through points with coordinates of this size."
    lines: PositiveInt = 8
    "How many lines to look along at most; one is enough unless a kink was missed."
    most: PositiveInt = 5000
    "How many kinks on a line to allow for; a curve has no end of them."
    checks: Annotated[int, Field(ge=24)] = 48
    "How many fresh points of several sizes guide the search; a hundred have to agree with the copy in the end."

    def run(self, held: Predictions, context: Context) -> Finding[Weights]:
        try:
            checks = CheckPoints(held.value, held.dimension, self.scale, self.checks, context.rng)
            return self._searched(ValueSearch(checks, context.rng), held, context)
        except Unsuitable as reason:
            raise NotApplicable(str(reason)) from None

    def _searched(self, search: ValueSearch, held: Predictions, context: Context) -> Finding[Weights]:
        """Line after line until all check points agree with the copy."""
        checks = search.checks
        try:
            for number in range(self.lines):
                if number >= COARSE_LINES and checks.coarse:
                    break
                copy = search.search(self.most)
                agreeing = search.off(copy) <= 1
                context.log(f"line {search.lines}: {copy.units} units, {agreeing.mean():.0%} of check points agree")
                if agreeing.all() and copy.units:
                    bound = _checked(search, copy, context)
                    if bound is not None:
                        return _leak(copy, search, bound, held)
                    continue
                if agreeing.all():
                    raise NotApplicable(
                        f"the model is linear at points up to {checks.largest:g}, where no kink shows: "
                        "the attack `linear-extraction` is for that"
                    )
        except BudgetSpent as spent:
            return _unfinished(search, sentence(spent))
        return _unfinished(search)

    def score(self, finding: Finding[Weights], held: Predictions, truth: Truth) -> Finding[Weights]:
        loot, known, candidates = finding.loot, truth.get(Weights), truth.get(Candidates)
        if loot is None:
            return finding
        if known is not None:
            fits = candidates is not None and candidates.X.shape[1] == loot.dimension
            usual = self.scale * np.random.default_rng(0).standard_normal((USUAL, loot.dimension))
            finding = beside_the_true_answers(finding, known, candidates.X if candidates is not None and fits else usual)
        scores, notes = dict(finding.scores), finding.notes
        if known is not None and len(known.layers) == 2 and _shape(known) == _shape(loot):
            units, said = beside_the_true_units(finding, known)
            scores, notes = scores | units, (*notes, *said)
            parameters = sum(W.size + b.size for W, b in known.layers)
            scores["queries per parameter"] = Score(
                finding.cost.points / parameters, 1.0, "one answer for every unknown weight", better="lower", speaks=False
            )
        if candidates is not None and known is not None and known.dimension == candidates.X.shape[1] == loot.dimension:
            scores |= _at_candidates(loot.predict(candidates.X), known.predict(candidates.X))
        return replace(finding, scores=scores, notes=notes)


def _checked(search: ValueSearch, copy: TwoLayer, context: Context) -> DifferenceBound | None:
    """In how much of space the copy may still differ, unless one of the points asked for that refutes it.

    On the first line no check point had a say in the copy, on later ones all had.
    """
    checks, rng = search.checks, context.rng
    search.attempts += 1
    fresh = len(checks.X) if search.lines == 1 else 0
    wanted = round(FRESH * (1 + AGAIN * (search.attempts - 1)))
    for _ in range(ROUNDS):
        fresh += checks.add(checks.draw(max(0, wanted - fresh), rng))
    chosen = checks.add(chosen_points(copy, checks.usual * rng.standard_normal(checks.dimension), rng))
    if (search.off(copy) > 1).any():
        return None
    sizes = np.unique(checks.sizes)
    readable = "" if checks.link is affine.IDENTITY else " that can be read as logits,"
    region = f"{readable} N(0, s²) with s from {sizes[0]:g} to {sizes[-1]:g}, every decade alike,"
    share = share_that_may_differ(fresh, search.attempts)
    return DifferenceBound(share, CONFIDENCE, fresh, chosen, region, tuple((float(size), 1 / len(sizes)) for size in sizes))


def _leak(copy: TwoLayer, search: ValueSearch, bound: DifferenceBound, held: Predictions) -> Finding[Weights]:
    checks = search.checks
    layers, plain = copy.merged(search.negligible(copy)).layers(max(NEGLIGIBLE, checks.accuracy))
    if (
        checks.off(Weights(layers).predict(checks.X), copy.pieces(checks.X)[:, :, :-1]) > 1
    ).any():  # what was dropped as rounding was more
        layers, plain = copy.layers(0.0)
    error = checks.error(copy.values(checks.X))
    exact = not checks.coarse and checks.largest > checks.usual  # nearer by, units may be missed
    exact &= bound.share <= CLAIM
    where = f"{search.lines} line{'s' * (search.lines > 1)}"
    loot, known = with_what_is_known(Weights(layers, exact=exact), held)
    return Finding.leak(
        loot,
        f"The model behind the API is a two-layer ReLU network with {copy.units} units that show: its weights follow from "
        f"values on {where} and beside; {len(checks.X)} answers agree to {error:.0e}; at most {bound.share:.1%} of points "
        f"may differ, at {bound.confidence:.0%}.",
        evidence=replace(_readout(checks), bound=bound, oriented=plain),
        scores={
            "relative error at fresh points": Score(error, 1.0, "always answering the mean", better="lower"),
            "share that may differ": Score(bound.share, 1.0, "a copy that was not checked", better="lower"),
        },
        notes=(
            str(bound),
            f"Units that move no value by {checks.accuracy:.0e} of the spread at points up to {checks.largest:g} in "
            "every coordinate would not have been seen.",
            PLAIN if plain else PAIRED,
            *known,
            *([SATURATING.format(pairs)] if (pairs := copy.saturating()[1]) else []),
            *([SHIFT] if checks.link is affine.SOFTMAX else []),
            *([LOGIT] if checks.link is affine.LOGISTIC else []),
        ),
    )


def _unfinished(search: ValueSearch, spent: str = "") -> Finding[Weights]:
    """The copy so far and how good it is, where a budget was spent or the lines are used up."""
    copy, checks = search.copy, search.checks
    if copy is None or not copy.units:
        return Finding.failed(spent or "No kink shows, and yet the model is not linear.", partial=bool(spent))
    agreement = float((search.off(copy) <= 1).mean())
    layers, plain = copy.merged(search.negligible(copy)).layers()
    loot = Weights(layers, exact=False, agreement=agreement)
    state = (
        f"The copy with {copy.units} units, found on {search.lines} lines, differs from the model at {1 - agreement:.0%} of "
        f"{len(checks.X)} check points by more than {checks.accuracy:.0e} of the values' spread."
    )
    return Finding.failed(
        spent or state,
        loot=loot,
        evidence=replace(_readout(checks), oriented=plain),
        partial=bool(spent),
        notes=(state,) if spent else (),
    )


def _readout(checks: CheckPoints) -> Readout:
    return Readout(checks.link.name, checks.link is affine.SOFTMAX)


def _shape(weights: Weights) -> tuple[int, int]:
    return weights.dimension, len(weights.layers[-1][1])


def _at_candidates(copied: Array, answers: Array) -> dict[str, Score]:
    if answers.shape[1] > 1:
        labels = answers.argmax(1)
        same = float((copied.argmax(1) == labels).mean())
        usual = float(np.bincount(labels).max() / len(labels))
        return {"agreement at the candidates": Score(same, usual, "always the most frequent class", most=1.0)}
    vary = float(np.linalg.norm(answers - answers.mean(0)))
    off = float(np.linalg.norm(copied - answers)) / (vary or 1.0)
    return {"relative error at the candidates": Score(off, 1.0, "always answering the mean", better="lower")}
