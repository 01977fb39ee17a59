"""Who was in the training set, from the weights: training points lie in the span of the first layer, and on its kinks."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveInt
from scipy.stats import binom

from divulge.arrays import Layers
from divulge.attacks.membership import scoring
from divulge.attacks.membership.claims import MembershipClaim
from divulge.contract import (
    Array,
    Attack,
    Candidates,
    Context,
    Directions,
    Finding,
    Histogram,
    Membership,
    Remedy,
    Score,
    Truth,
    Verdict,
    Weights,
    option_class,
    taxonomies,
)
from divulge.errors import BadInput, NotApplicable
from divulge.solvers.directions.known_start import FOLDED, frozen, moved
from divulge.solvers.images import layouts
from divulge.solvers.images.span import Span, pictured, span, span_of_combinations
from divulge.solvers.margin.max_margin import forward
from divulge.solvers.shadow import membership
from divulge.solvers.shadow.from_start import infer_from_start
from divulge.solvers.shadow.membership import By, ShadowInference, SpanInference
from divulge.solvers.statistics.comparison import more_often
from divulge.solvers.statistics.roc import clopper_pearson

SEVERAL = 3
"So many at least: of 40 candidates two would be p < 1e-3 at a false-positive rate of 1e-3, which shadows know only roughly."

BEYOND = 5.0
"""Times the shadows' false-positive rate: what a network trained in another way may have while its controls show less. One
with dropout had 5.0 times (10 of 2,000 digits, 4 of 4,000 controls); where it was more, controls were called as often."""


TRAINED_ON = (
    Remedy("Train on with differential privacy, the only remedy with a guarantee; then audit again."),
    Remedy("Do not publish what was trained on few private points from public weights, nor explain its answers."),
)
"What helps where the start is public: neither its size nor training without decay does, and Adam hides little."


@option_class
class SpanMembership(Attack[tuple[Directions, Candidates], Membership]):
    """Ask how much of each candidate lies outside what the first layer shows, beside what it leaves outside shadows.

    Where answers alone show its directions, nobody knows what shadows to train: points made up like candidates take their
    place.
    """

    name: ClassVar[str] = "span-membership"
    paper: ClassVar[str] = "beyond Smorodinsky et al. 2024, arXiv:2410.07632, and Haim et al. 2022, arXiv:2206.07758"
    taxonomy = taxonomies.MEMBERSHIP
    remedy: ClassVar[tuple[str | Remedy, ...]] = (
        Remedy(
            "Train with differential privacy, or from weights as large as torch's own without weight decay; audit again.",
            "TPR at 0.1 % FPR fell from 1.000 to 0.103 with noise 0.1, for an accuracy of 0.825 in the place of 0.850, and "
            "to 0.217 from torch's own start, for nothing (docs/defences.md).",
        ),
        "Do not publish the weights, nor explanations that show their span.",
        "Train on more points than the first layer has inputs: then every point lies in its span.",
    )

    score_by: By = "both"
    "What is looked at: `span` and `kinks` are one plain score each, `both` combines several and compares with shadows."
    count: PositiveInt | None = None
    "How many points the network was trained on, for the shadows; estimated unless given."
    shadows: PositiveInt = 3
    "How many to train on the candidates; one where candidates are few."
    false_positives: Annotated[float, Field(gt=0, lt=0.5)] = 0.001
    "Share of non-members that may be called members, as far as the shadows' non-members tell."

    def run(self, held: tuple[Directions, Candidates], context: Context) -> Finding[Membership]:
        weights, candidates = held
        if candidates.X.shape[1] != weights.dimension:
            raise BadInput(
                f"expected candidates with the {weights.dimension} inputs of the network, got {candidates.X.shape[1]} "
                "features; prepare them as the training data were"
            )
        if not np.ptp(candidates.X, axis=0).any():
            raise NotApplicable("there is one candidate, or all are the same, and none to compare it with; give others too")
        if not isinstance(weights, Weights):
            return self._by_answers(weights, candidates, context)
        if weights.start is not None:
            return self._since_start(weights, weights.start, candidates, context)
        if len(weights.layers) < 2:
            raise NotApplicable("a linear model has one row for each output, and no span to speak of")
        seen = span(*weights.layers[0])
        if seen.rank < 2:
            raise NotApplicable("no two directions of the first layer stand out of its start: training has hardly moved it")
        context.log(f"{seen.rank} directions of the first layer stand out of {len(seen.sizes)}.")
        inferred = context.once("shadows", lambda rng: vars(self._inferred((weights, candidates), seen, context, rng)))
        found = ShadowInference(**inferred)
        return self._finding(Membership(found.scores, found.scores > found.threshold), found)

    def _since_start(self, weights: Weights, start: Layers, candidates: Candidates, context: Context) -> Finding[Membership]:
        """By what training added to the first layer that it moved, in the space of that layer's own inputs."""
        if weights.folded:
            raise NotApplicable(FOLDED.format(" and ".join(weights.folded)))
        pairs = enumerate(zip(weights.layers, start, strict=False))
        first = next((number for number, pair in pairs if not frozen(*pair)), None)
        if first is None:
            raise NotApplicable(
                "training left every layer as it started but a new head, and nobody knows where that started"
            )
        if len(weights.layers[first][1]) < 2:
            raise NotApplicable("the first layer that training moved has one unit, and no span to speak of")
        X, mean, shape = np.asarray(candidates.X, dtype=float), weights.mean, candidates.shape or weights.shape
        found = moved(weights.layers[first], start[first])
        notes = [found.words]
        if first:
            X = np.maximum(forward(list(weights.layers[:first]), weights.centred(X))[-1], 0)
            mean, shape = None, None
            notes.append(f"Training left layers 1 to {first} alone: candidates were compared as they leave these.")
        ends = weights.layers[first:], (*start[first:], *weights.layers[len(start) :])
        told: dict[str, Any] = {"count": self.count, "shadows": self.shadows, "false_positives": self.false_positives}

        def infer(rng: np.random.Generator) -> dict[str, Any]:
            return vars(infer_from_start(found.rows, *ends, X, mean, shape, rng, **told, progress=context.progress))

        made = context.once("since start", infer)
        if "members" in made:
            inferred = ShadowInference(**made)
            loot = Membership(inferred.scores, inferred.scores > inferred.threshold)
            finding = self._finding(loot, inferred, tuple(notes))
        else:
            notes.append("No shadows were trained: what training moved is known.")
            finding = _by_span(SpanInference(**made), "what training moved", tuple(notes))
        return replace(finding, remedy=TRAINED_ON if finding.verdict is Verdict.LEAK else ())

    def _by_answers(self, held: Directions, candidates: Candidates, context: Context) -> Finding[Membership]:
        X = np.asarray(candidates.X, dtype=float)
        rows = _axes(held)
        if len(rows) < 2 or len(rows) > held.dimension / 2:
            raise NotApplicable(
                f"answers show {len(rows)} directions of {held.dimension} inputs; between two and half as many are needed, "
                "or everything lies inside of them"
            )
        shape = candidates.shape or held.shape
        made = context.once("controls", lambda rng: vars(membership.infer_from_rows(rows, X, held.mean, shape, rng)))
        alone = "No shadows were trained: of the network nothing is known but its answers."
        return _by_span(SpanInference(**made), "the answers", (alone,))

    def score(self, finding: Finding[Membership], held: tuple[Directions, Candidates], truth: Truth) -> Finding[Membership]:
        return scoring.scored(finding, truth, held[1])

    def _inferred(
        self, held: tuple[Weights, Candidates], seen: Span, context: Context, rng: np.random.Generator
    ) -> ShadowInference:
        weights, candidates = held
        return membership.infer(
            weights.layers,
            np.asarray(candidates.X, dtype=float),
            weights.mean,
            seen,
            candidates.shape or weights.shape,
            rng,
            by=self.score_by,
            count=self.count,
            shadows=self.shadows,
            false_positives=self.false_positives,
            progress=context.progress,
        )

    def _finding(self, loot: Membership, found: ShadowInference, more: tuple[str, ...] = ()) -> Finding[Membership]:
        claim = _claim(loot, found)
        power = (
            f"On shadows, trained like the network on {found.trained_on} candidates each, {found.recall:.0%} of members "
            f"stand out of {len(found.non_members):,} others"
        )
        notes = [f"{power}; by what tells these apart candidates are scored.", claim.words, *more]
        if found.made:
            notes.append(f"There are so few candidates that {found.made} points were made of them for the shadow.")
        figures = (
            Histogram(
                "What tells members apart, on shadows where they are known",
                "score",
                {"members": found.members, "non-members": found.non_members},
            ),
            Histogram(
                "Scores of candidates, and of points made up like them",
                "score",
                {"candidates": loot.scores, "made-up points": found.controls},
            ),
        )
        return _told(loot, claim, power, tuple(notes), figures)


def _axes(held: Directions) -> Array:
    """Directions (k, d + 1) of combinations, orthonormal: all, or those that show pictures where they are too many."""
    seen = span_of_combinations(held.rows, held.precision or 0.0)
    options = layouts.candidates(held.dimension, held.shape)
    if seen.rank > held.dimension / 2 and options:
        seen = pictured(seen, min(options, key=lambda one: one.roughness(held.rows[:, :-1])))
    return seen.axes


def _by_span(found: SpanInference, source: str, notes: tuple[str, ...]) -> Finding[Membership]:
    """A finding from how far candidates lie inside of a span, beside points made up like them."""
    loot = Membership(found.scores, found.scores > found.threshold)
    called, passed = int(loot.decisions.sum()), int(np.sum(found.controls > found.threshold))
    count, controls = len(loot.scores), len(found.controls)
    claim = MembershipClaim.of(
        count,
        called,
        controls,
        passed,
        p_value=more_often(called, count, passed, controls),
        false_positive_rate=clopper_pearson(passed, controls)[1],
    )
    power = f"Of points made up like candidates and moved into the span of {source}, {found.recall:.0%} stand out"
    figure = Histogram(
        f"How far inside the span of {source} candidates lie, and points made up like them",
        "deviations",
        {"candidates": loot.scores, "made-up points": found.controls},
    )
    return _told(loot, claim, power, (claim.words, *notes), (figure,))


def _told(
    loot: Membership, claim: MembershipClaim, power: str, notes: tuple[str, ...], figures: tuple[Histogram, ...]
) -> Finding[Membership]:
    """A leak where more candidates are called than chance would call, else none found at this power."""
    null = Score(claim.called / claim.candidates, claim.false_positive_rate, "made-up points and shadows' others, at most")
    about: dict[str, Any] = {
        "evidence": claim,
        "scores": {"candidates called members": null},
        "figures": figures,
        "notes": notes,
    }
    said = f"{claim.called:,} of {claim.candidates:,} candidates stand out"
    if claim.called >= SEVERAL and claim.holds:
        by_chance = f"{claim.expected_false_calls:.2g} would by chance, at most"
        return Finding.leak(loot, f"{said} as members; {by_chance}.", **about)
    return Finding(
        Verdict.NONE_FOUND,
        f"{said}, no more than non-members may.",
        loot,
        power=f"{power}; as many of this network's would, were they among the candidates.",
        **about,
    )


def _claim(loot: Membership, found: ShadowInference) -> MembershipClaim:
    """Calls beside those of points made up, which the network itself answers for, and of the shadows' non-members."""
    called, count = int(loot.decisions.sum()), len(loot.scores)
    passed, false = (int(np.sum(scores > found.threshold)) for scores in (found.controls, found.non_members))
    by_shadows = max(BEYOND * false / len(found.non_members), clopper_pearson(false, len(found.non_members))[1])
    rate = max(by_shadows, clopper_pearson(passed, len(found.controls))[1])
    p_value = max(more_often(called, count, passed, len(found.controls)), float(binom.sf(called - 1, count, by_shadows)))
    return MembershipClaim.of(count, called, len(found.controls), passed, p_value=p_value, false_positive_rate=rate)
