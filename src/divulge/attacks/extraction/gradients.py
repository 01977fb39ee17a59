"""A two-layer ReLU network from its explanations (Milli et al. 2018, arXiv:1807.05185), at two queries a unit or fewer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from divulge.arrays import TwoLayers
from divulge.attacks.extraction.readout import Readout, centred, outputs_are_centred
from divulge.contract import (
    Array,
    Attack,
    Candidates,
    Context,
    Curve,
    Finding,
    Gradients,
    Score,
    TaxonomyId,
    Truth,
    Verdict,
    Weights,
    option_class,
)
from divulge.errors import BadInput, BudgetSpent, NotApplicable, TargetFailed
from divulge.solvers.piecewise import explanation_kind, links
from divulge.solvers.piecewise.breakpoints_by_gradient import Tolerance
from divulge.solvers.piecewise.links import Local
from divulge.solvers.piecewise.regions import Ball, Box, Everywhere, Region
from divulge.solvers.piecewise.residual_search import ResidualExtraction
from divulge.solvers.piecewise.two_layer import TwoLayer, weight_error

TRIES = 3  # points looked at before the answers are refused: a kink may lie beside one of them
COARSE = 1e-5  # noise, relative to slopes, above which kinks cannot be told from it: six decimals leave 5e-6
BOUNDED = 8  # times as many checks in a box or a ball, where a unit may switch in a corner only: with 64, 5 % may be wrong
DIGITS = 0.01  # of the usual size: so precisely places are still known at the far end of a line
SHRINKING = 4.0  # by how much points move nearer to 0 until all probabilities can be read
READABLE = 12  # times at most
HUGE = 1e100  # squares of larger numbers, or of smaller than its inverse, are lost
EXACT = 1e-6  # error, relative to slopes, up to which a copy is called exact: what single precision allows
WRONG = 1e-2  # of the spread of answers: a copy that the truth shows to be further off is none
SURE = 3.0  # over the number of agreeing points: the share of space that may be wrong, at 95 %
FRESH = 1000  # points at which a copy is scored


@option_class
class GradientExtraction(Attack[Gradients, Weights]):
    """Find every kink of a two-layer ReLU network along lines, from values and gradients, and put the network together."""

    name: ClassVar[str] = "gradient-extraction"
    paper: ClassVar[str] = "Milli et al. 2018, Model Reconstruction from Model Explanations, arXiv:1807.05185"
    taxonomy: ClassVar[tuple[TaxonomyId, ...]] = (
        TaxonomyId("NIST AI 100-2", "E2025", "NISTAML.031"),
        TaxonomyId("MITRE ATLAS", "5", "AML.T0024.002"),
        TaxonomyId("OWASP ML Top 10", "2023", "ML05"),
    )
    remedy: ClassVar[tuple[str, ...]] = (
        "Count the weights of a network as public once anybody can ask for raw gradients, or for explanations made of them.",
        "Explain with a coarse summary instead: a few largest features, rounded to one decimal; then audit again.",
        "A limit on queries has to stay below the number of hidden units to hide any of them.",
    )

    checks: Annotated[int, Field(ge=4)] = 8
    "How many fresh points have to agree with the copy, besides points beside every kink."
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    "The usual size of the inputs."
    low: float | None = None
    "The least value of an input, if queries have to stay in a box; pictures: 0."
    high: float | None = None
    "The largest value of an input, if queries have to stay in a box; pictures: 1."

    def run(self, held: Gradients, context: Context) -> Finding[Weights]:
        oracle = _Oracle(held, self._region(held.dimension), context.rng)
        local = oracle.identify()
        start = np.zeros((oracle.outputs, held.dimension))
        extraction = ResidualExtraction(
            oracle.pieces,
            oracle.region,
            Tolerance(local.noise),
            context.rng,
            start=TwoLayer.affine(start, start[:, 0]),
            checks=self.checks * (1 if oracle.unbounded else BOUNDED),
            progress=partial(_go_on, context),
        )
        try:
            extraction.run()
        except (BudgetSpent, TargetFailed) as reason:
            return self._partial(extraction, oracle, str(reason))
        if not extraction.verified:
            return self._wrong(extraction, oracle)
        return self._found(extraction, oracle)

    def score(self, finding: Finding[Weights], held: Gradients, truth: Truth) -> Finding[Weights]:
        if finding.loot is None:
            return finding
        loot, scores = finding.loot, {}
        known, points = truth.get(Weights), truth.get(Candidates)
        if known is None or known.dimension != loot.dimension:
            return finding
        X = points.X if points is not None else self._usual(held.dimension)
        Y, mine_at = known.predict(X), loot.predict(X)
        if outputs_are_centred(finding):
            Y = Y - Y.mean(1, keepdims=True)
        if Y.shape == mine_at.shape:
            error = float(np.abs(mine_at - Y).max() / np.abs(Y - Y.mean(0)).max())
            scores["largest error at points"] = Score(error, 1.0, "always answering the mean", better="lower")
            if finding.verdict is Verdict.LEAK and error > WRONG:
                said = f"The truth shows that the copy is off by {error:.1g} of the spread of answers. {finding.summary}"
                finding = replace(finding, verdict=Verdict.FAILED, summary=said)
            if Y.shape[1] > 1:
                top = Y.argmax(1)
                common = float(np.bincount(top).max() / len(top))
                scores["agreement"] = Score(float((mine_at.argmax(1) == top).mean()), common, "always the most common class")
        if len(known.layers) == len(loot.layers) == 2:
            true: TwoLayers = known.layers[0], known.layers[1]
            if outputs_are_centred(finding):
                true = true[0], centred(true[1])
            error = weight_error((loot.layers[0], loot.layers[1]), true)
            scores["largest weight error"] = Score(error, 1.0, "weights of 0", better="lower")
            scores["queries per unit"] = Score(
                finding.cost.queries / len(true[0][1]),
                held.dimension,
                "one query for every weight of a unit",
                better="lower",
            )
        return replace(finding, scores={**scores, **finding.scores})

    def _usual(self, dimension: int) -> Array:
        """Points as the model is usually asked for, to score a copy."""
        rng = np.random.default_rng(0)
        if self.low is None or self.high is None:
            return self.scale * rng.standard_normal((FRESH, dimension))
        return rng.uniform(self.low, self.high, (FRESH, dimension))

    def _region(self, dimension: int) -> Region:
        if self.low is None and self.high is None:
            return Everywhere(dimension, self.scale)
        if self.low is None or self.high is None or not -np.inf < self.low < self.high < np.inf:
            raise BadInput(f"expected low below high, both finite, or neither, got {self.low} and {self.high}; give both")
        return Box(dimension, self.low, self.high)

    def _found(self, extraction: ResidualExtraction, oracle: _Oracle) -> Finding[Weights]:
        copy, worst = extraction.copy, extraction.worst
        asked, units, fresh = oracle.asked, copy.units, len(extraction.X) - extraction.used
        loot, plain = oracle.network(copy, extraction.level, exact=oracle.unbounded and worst <= EXACT)
        where = oracle.region_in_words()
        if not units:
            summary = f"The model is linear{where}: one query gives its weights, and {fresh} points agree to {worst:.0e}."
        else:
            which = "hidden units of the network follow" if oracle.unbounded else f"hidden units that show{where} follow"
            summary = (
                f"{units:,} {which} from {asked:,} queries, {asked / units:.2g} a unit: the copy agrees with {fresh} "
                f"fresh points to {worst:.0e} of its slopes."
            )
        notes = [f"Lines asked along: {extraction.lines}; answers are precise to {extraction.noise:.0e} of the slopes."]
        if not oracle.unbounded:
            notes.append(f"Up to {SURE / fresh:.1%} of the points{where} may still be wrong, at 95 % confidence.")
        if units:
            notes.append(
                "The copy is a plain two-layer network, balanced: every unit's weights, in and out, have one norm."
                if plain
                else "Which way round its units are cannot be told: pairs of units add what is linear."
            )
        if oracle.link is not links.IDENTITY:
            shift = " with sum 0, because probabilities stay the same when all logits grow alike" if oracle.shifted else ""
            notes.append(f"Answers come through a {oracle.link.name} link, the copy gives logits{shift}.")
        return Finding.leak(
            loot,
            summary,
            evidence=oracle.readout,
            scores={"disagreement at fresh points": Score(worst, 1.0, "a copy without slope", better="lower")},
            figures=self._figures(extraction),
            notes=tuple(notes),
        )

    def _wrong(self, extraction: ResidualExtraction, oracle: _Oracle) -> Finding[Weights]:
        """Why no copy agrees: too many kinks for one layer, or a few that were not found."""
        if extraction.endless or extraction.growing:
            raise NotApplicable(
                "the function is not a two-layer ReLU network: where its gradient changes is no set of hyperplanes "
                "(kinks found line by line, each on what the others do not explain: "
                f"{', '.join(map(str, extraction.found))})"
            )
        error = extraction.errors()
        return self._partial(
            extraction, oracle, f"the copy is still off by up to {error.max():.0e} of the slopes", partial=False
        )

    def _partial(
        self, extraction: ResidualExtraction, oracle: _Oracle, reason: str, partial: bool = True
    ) -> Finding[Weights]:
        """What was found, and where in space it is wrong."""
        copy = extraction.copy
        if not copy.units and not copy.linear.any():
            return Finding.failed(reason, partial=partial)
        error = extraction.errors()
        good = error <= extraction.level
        share = float(good.mean()) if len(good) else 0.0
        where = ""
        if len(good) and 0 < share < 1:
            size = np.linalg.norm(extraction.X, axis=1)
            where = f"; wrong points lie {size[~good].min():.2g} to {size[~good].max():.2g} from 0"
        loot, _ = oracle.network(copy, extraction.level, exact=False, agreement=share)
        return Finding.failed(
            f"{copy.units:,} units were found, then {reason}; "
            + (
                f"the copy agrees at {good.sum()} of {len(good)} points{where}"
                if len(good)
                else "the copy was not checked yet"
            ),
            loot=loot,
            evidence=oracle.readout,
            figures=self._figures(extraction),
            partial=partial,
        )

    def _figures(self, extraction: ResidualExtraction) -> tuple[Curve, ...]:
        if len(extraction.history) < 2:
            return ()
        queries, units = np.array(extraction.history, dtype=float).T
        return (Curve("Units found against queries", "queries", "hidden units", {"found": (queries, units)}),)


def _go_on(context: Context, done: int, total: int) -> None:
    """Show how far it is, unless time is up."""
    context.budget.check()
    context.progress(done, total)


class _Oracle:
    """The target as a function that tells its affine pieces, as far as the answers can be read."""

    def __init__(self, held: Gradients, region: Region, rng: np.random.Generator) -> None:
        self.held, self.region, self.rng = held, region, rng
        self.link, self.single, self.asked, self.outputs = links.IDENTITY, False, 0, 1
        self.classes = 1

    def ask(self, X: Array) -> tuple[Array, Array]:
        """Values (n, outputs) and Jacobians (n, outputs, d), from one query a point."""
        self.asked += len(X)
        A = np.asarray(self.held.value(X), dtype=float).reshape(len(X), -1)
        J = np.asarray(self.held.gradient(X), dtype=float)
        J = J[:, None, :] if J.ndim == 2 else J.reshape(len(X), -1, X.shape[1])
        if J.shape[1] != A.shape[1]:
            raise NotApplicable(self._one_for_many(X, A, J))
        return A, J

    def pieces(self, X: Array) -> Array:
        X = X.astype(np.float32).astype(float) if self.single else X  # as a server of single precision will see them
        A, J = self.ask(X)
        if not self.link.suits(A):
            raise NotApplicable(f"some answers are no probabilities that a {self.link.name} link gives; ask nearer to 0")
        return links.pieces(self.link, X, A, J)

    def identify(self) -> Local:
        """Which link the answers come through and how precise they are; refuses what has no pieces."""
        best: Local | None = None
        places = [*(self.region.usual(self.rng) for _ in range(TRIES)), *self.region.points(TRIES, self.rng)]
        for number, place in enumerate(places):
            if best is not None and number >= TRIES:
                break
            X = links.around(place, self.rng)
            A, J = self.ask(X)
            self.single = links.single(A, J)
            if self.single:
                X = X.astype(np.float32).astype(float)
                A, J = self.ask(X)
            if not J.any():
                continue  # where no unit is on, there is nothing to see
            looks = [links.looked_at(link, X, A, J) for link in links.LINKS if link.suits(A)]
            best = min(looks, key=lambda look: (not (look.flat and look.matches), not look.flat, look.bends[0]))
            if best.flat:
                break
        if best is None or not best.flat or not best.matches:
            raise NotApplicable(self._reason(best))
        again, _ = self.ask(X[:1])
        if np.abs(again[0] - A[0]).max() > COARSE * np.abs(A).max():
            raise NotApplicable(
                f"the same point got {A[0, 0]:.6g} among others and {again[0, 0]:.6g} alone: answers are noisy, or depend "
                "on what else is asked"
            )
        size = np.linalg.norm(J[0])
        if not 1 / HUGE < size < HUGE:
            raise NotApplicable(
                f"gradients of size {size:.0e} are beyond what can be computed with; give the scale of inputs"
            )
        if best.noise > COARSE:
            raise NotApplicable(
                f"answers are precise to {best.noise:.0e} of the slopes, but kinks need {COARSE:.0e} to be told apart"
            )
        if isinstance(self.region, Everywhere):
            self.region = replace(self.region, far=min(self.region.far, DIGITS / best.noise))
        self.link, self.classes = best.link, A.shape[1]
        self.outputs = 1 if best.link is links.SOFTMAX and A.shape[1] == 2 else A.shape[1]
        if self.link is not links.IDENTITY:
            self.region = self._readable()
        return best

    def network(self, copy: TwoLayer, level: float, *, exact: bool, agreement: float = 1.0) -> tuple[Weights, bool]:
        """The copy as weights; of two classes told by one logit, each has half of it."""
        (hidden, (out, constant)), plain = copy.layers(max(level, 1e-9))
        if self.outputs < self.classes:
            out, constant = np.concatenate([-out, out]) / 2, np.concatenate([-constant, constant]) / 2
        if not copy.units and self.outputs == self.classes:
            return Weights(((np.asarray(copy.linear), copy.constant),), exact=exact, agreement=agreement), True
        layers = hidden, (out, constant)
        return Weights(layers, exact=exact, agreement=agreement), plain

    @property
    def unbounded(self) -> bool:
        return not self.region.bounded

    @property
    def shifted(self) -> bool:
        """Whether logits are known but for a number that all share."""
        return self.link is links.SOFTMAX

    @property
    def readout(self) -> Readout:
        return Readout(self.link.name, self.shifted)

    def region_in_words(self) -> str:
        if isinstance(self.region, Box):
            return f" in the box from {self.region.low:g} to {self.region.high:g}"
        return f" where inputs are of size {self.region.radius:g}" if isinstance(self.region, Ball) else ""

    def _readable(self) -> Region:
        """As far from 0 as all probabilities can be told."""
        if isinstance(self.region, Box):
            return self.region
        radius = SHRINKING * getattr(self.region, "scale", 1.0)
        for _ in range(READABLE):
            A, _ = self.ask(radius * self.rng.standard_normal((4, self.held.dimension)))
            if self.link.suits(A) and (self.link is links.SOFTMAX or np.abs(A - 0.5).max() < 0.5 - 1e-7):
                return Ball(self.held.dimension, radius / 2)
            radius /= SHRINKING
        raise NotApplicable("probabilities are 0 and 1 wherever they were asked for: nothing can be read off them")

    def _reason(self, look: Local | None) -> str:
        """Why the answers have no pieces, with the measurement that says so."""
        if look is None:
            return f"the gradient is 0 at all {self.asked} points asked: there is nothing to find"
        steps = ", ".join(f"{bend:.1g} at {step:.0e}" for bend, step in zip(look.bends, links.STEPS[1:], strict=True))
        measured = f"by how much the gradient changes with the distance, both relative: {steps}"
        if not look.flat and look.bends[1] < 10 * look.bends[0]:
            return f"the gradients are noisy: two neighbouring points get different ones ({measured})"
        kind = explanation_kind.probe(
            self.held.value, self.held.gradient, self.held.dimension, self.rng, scale=getattr(self.region, "scale", 1.0)
        )
        if not look.flat and kind == "gradient":
            return f"the function is not piecewise linear: its gradient keeps changing between kinks ({measured})"
        if not look.flat:
            return (
                f"the explanations are no raw gradients but look like: {kind}; they keep changing between kinks ({measured})"
            )
        return (
            f"the gradients are not those of the values, which rise otherwise by {look.mismatch:.0%}; they look like: {kind}"
        )

    def _one_for_many(self, X: Array, A: Array, J: Array) -> str:
        rise = np.abs((A[1:] - A[0]) - (J[0, 0] @ (X[1:] - X[0]).T)[:, None])[0]
        which = int(rise.argmin()) if len(X) > 1 else 0
        top = " the largest," if which == int(A[0].argmax()) else ""
        return (
            f"one gradient comes with {A.shape[1]} values, and it is that of{top} output {which}: where another output is "
            "on top it is another function's, so kinks cannot be told; value-extraction needs no gradients"
        )
