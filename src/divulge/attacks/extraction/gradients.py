"""A two-layer ReLU network from its explanations (Milli et al. 2018, arXiv:1807.05185), at two queries a unit or fewer."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from divulge.attacks.extraction import undoing
from divulge.attacks.extraction.known import with_what_is_known
from divulge.attacks.extraction.oracle import Oracle
from divulge.attacks.extraction.readout import CLAIM, beside_the_true_answers, beside_the_true_units
from divulge.contract import (
    Array,
    Attack,
    Candidates,
    Context,
    Curve,
    Finding,
    Gradients,
    Remedy,
    Score,
    Truth,
    Weights,
    option_class,
    taxonomies,
)
from divulge.errors import BadInput, BudgetSpent, NotApplicable, TargetFailed
from divulge.solvers.piecewise import links
from divulge.solvers.piecewise.breakpoints_by_gradient import Tolerance
from divulge.solvers.piecewise.regions import Box, Everywhere, Region
from divulge.solvers.piecewise.residual_search import ResidualExtraction
from divulge.solvers.piecewise.two_layer import TwoLayer

EXACT = 1e-6  # error, relative to slopes, up to which a copy is called exact: what single precision allows
ENOUGH = 8  # fresh points that agree, where a budget ends before all are asked: a copy that may be wrong in half of space
FRESH = 1000  # points at which a copy is scored


@option_class
class GradientExtraction(Attack[Gradients, Weights]):
    """Find every kink of a two-layer ReLU network along lines, from values and gradients, and put the network together."""

    name: ClassVar[str] = "gradient-extraction"
    asks: ClassVar[int] = 1_000
    paper: ClassVar[str] = "Milli et al. 2018, Model Reconstruction from Model Explanations, arXiv:1807.05185"
    taxonomy = taxonomies.EXTRACTION
    remedy: ClassVar[tuple[str | Remedy, ...]] = (
        "Count the weights of a network as public once anybody can ask for raw gradients, or for explanations made of them.",
        Remedy(
            "Explain with a coarse summary instead: a few largest features, rounded to one decimal; then audit again.",
            "3 digits ended exact extraction; a copy trained on 300 such answers still agreed on 0.994 and "
            "0.945 of the images (docs/defences.md).",
        ),
        "A limit on queries has to stay below the number of hidden units to hide any of them.",
    )

    checks: Annotated[int, Field(ge=4)] = 100
    "How many fresh points have to agree with the copy, besides points chosen to refute it; it is called exact from 93 on."
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    "The usual size of the inputs."
    low: float | None = None
    "The least value of an input, if queries have to stay in a box; pictures: 0."
    high: float | None = None
    "The largest value of an input, if queries have to stay in a box; pictures: 1."

    def run(self, held: Gradients, context: Context) -> Finding[Weights]:
        oracle = Oracle(held, self._region(held.dimension), context.rng)
        local = oracle.refuse_other_layers(oracle.identify())
        start = np.zeros((oracle.outputs, held.dimension))
        extraction = ResidualExtraction(
            oracle.pieces,
            oracle.region,
            Tolerance(local.noise),
            context.rng,
            start=TwoLayer.affine(start, start[:, 0]),
            checks=self.checks,
            progress=lambda done, total: _go_on(context, oracle, sum(extraction.found), done, total),
        )
        try:
            extraction.run()
        except (BudgetSpent, TargetFailed) as reason:
            if extraction.agreeing and extraction.fresh >= ENOUGH and extraction.worst <= extraction.level:
                return self._found(extraction, oracle, f"Not all points were checked: {reason}")
            return self._partial(extraction, oracle, str(reason))
        if not extraction.verified:
            return self._wrong(extraction, oracle)
        return self._found(extraction, oracle)

    def score(self, finding: Finding[Weights], held: Gradients, truth: Truth) -> Finding[Weights]:
        if finding.loot is None:
            return finding
        loot = finding.loot
        scores: dict[str, Score] = {}
        known, points = truth.get(Weights), truth.get(Candidates)
        if known is None or known.dimension != loot.dimension:
            return finding
        known = undoing.explained_part(known, getattr(finding.evidence, "explanation", None))
        X = points.X if points is not None else self._usual(held.dimension)
        own, finding = finding.scores, beside_the_true_answers(finding, known, X)
        scores |= {name: score for name, score in finding.scores.items() if name not in own}
        if scores and len(known.layers[-1][1]) > 1:
            top = known.predict(X).argmax(1)
            common = float(np.bincount(top).max() / len(top))
            agreed = float((loot.predict(X).argmax(1) == top).mean())
            scores["agreement"] = Score(agreed, common, "always the most common class", most=1.0)
        notes = finding.notes
        if len(known.layers) == len(loot.layers) == 2 and len(known.layers[1][1]) == len(loot.layers[1][1]):
            units, missing = beside_the_true_units(finding, known)
            scores, notes = scores | units, (*notes, *missing)
            scores["queries per unit"] = Score(
                finding.cost.points / len(known.layers[0][1]),
                held.dimension,
                "one query for every weight of a unit",
                better="lower",
                speaks=False,
            )
        return replace(finding, scores={**scores, **finding.scores}, notes=notes)

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

    def _found(self, extraction: ResidualExtraction, oracle: Oracle, unfinished: str = "") -> Finding[Weights]:
        copy, worst, bound = extraction.copy, extraction.worst, oracle.bound(extraction)
        asked, units = oracle.asked, copy.units
        sure = oracle.unbounded and bound.share <= CLAIM
        loot, plain = oracle.network(copy, extraction.level, exact=sure and worst <= EXACT)
        loot, known = with_what_is_known(loot, oracle.held)
        where = oracle.region_in_words()
        agreeing = f"with {bound.points} fresh points and {bound.chosen} chosen ones to {worst:.0e}"
        if not units:
            summary = f"The model is linear{where}: one query gives its weights, which agree {agreeing}."
        else:
            which = "hidden units of the network follow" if oracle.unbounded else f"hidden units that show{where} follow"
            summary = (
                f"{units:,} {which} from {asked:,} queries, {asked / units:.2g} a unit: the copy agrees {agreeing} of its "
                f"slopes; at most {bound.share:.1%} of points may differ, at {bound.confidence:.0%}."
            )
        notes = [
            *([unfinished] if unfinished else []),
            f"Lines asked along: {extraction.lines}; answers are precise to {extraction.noise:.0e} of the slopes.",
            str(bound),
            *known,
        ]
        if oracle.unbounded and not sure:
            notes.append(f"A copy is called exact where at most {CLAIM:.0%} of points may differ: ask for more checks.")
        if units:
            notes.append(
                "The copy is a plain two-layer network, balanced: every unit's weights, in and out, have one norm."
                if plain
                else "Which way round its units are cannot be told: pairs of units add what is linear."
            )
        if oracle.explanation is not None:
            notes.append(undoing.note(oracle.explanation))
        if oracle.link is not links.IDENTITY:
            shift = " with sum 0, because probabilities stay the same when all logits grow alike" if oracle.shifted else ""
            notes.append(f"Answers come through a {oracle.link.name} link, the copy gives logits{shift}.")
        return Finding.leak(
            loot,
            summary,
            evidence=replace(oracle.readout, bound=bound, oriented=plain),
            scores={
                "disagreement at fresh points": Score(worst, 1.0, "a copy without slope", better="lower"),
                "share that may differ": Score(bound.share, 1.0, "a copy that was not checked", better="lower"),
            },
            figures=self._figures(extraction),
            notes=tuple(notes),
            partial=bool(unfinished),
        )

    def _wrong(self, extraction: ResidualExtraction, oracle: Oracle) -> Finding[Weights]:
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
        self, extraction: ResidualExtraction, oracle: Oracle, reason: str, partial: bool = True
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
        loot, plain = oracle.network(copy, extraction.level, exact=False, agreement=share)
        return Finding.failed(
            f"{copy.units:,} units were found, then {reason}; "
            + (
                f"the copy agrees at {good.sum()} of {len(good)} points{where}"
                if len(good)
                else "the copy was not checked yet"
            ),
            loot=loot,
            evidence=replace(oracle.readout, oriented=plain),
            figures=self._figures(extraction),
            partial=partial,
        )

    def _figures(self, extraction: ResidualExtraction) -> tuple[Curve, ...]:
        if len(extraction.history) < 2:
            return ()
        queries, units = np.array(extraction.history, dtype=float).T
        return (Curve("Units found against queries", "queries", "hidden units", {"found": (queries, units)}),)


def _go_on(context: Context, oracle: Oracle, before: int, done: int, total: int) -> None:
    """Show how far a line is, unless time is up or the answers are in doubt; `before` are the kinks of lines before it."""
    context.budget.check()
    oracle.doubt(before + done)
    context.progress(done, total)
