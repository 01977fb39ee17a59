"""Who was in the training set, from answers alone: training points are decided by as much as the margin, others by less.

Smorodinsky et al. 2024, Provable Privacy Attacks on Trained Shallow Neural Networks, section 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, NonNegativeInt

from divulge.attacks.membership import certificates, scoring
from divulge.attacks.membership.claims import SURE, MembershipClaim
from divulge.contract import (
    Array,
    Attack,
    Candidates,
    Context,
    Finding,
    Histogram,
    Membership,
    Predictions,
    Remedy,
    Score,
    Truth,
    Verdict,
    option_class,
    taxonomies,
)
from divulge.errors import BadInput, NotApplicable
from divulge.solvers.statistics.comparison import more_often
from divulge.solvers.statistics.logit_gap import LogitGaps, MarginCluster, logit_gaps, margin_cluster
from divulge.solvers.statistics.roc import clopper_pearson

STEP = 1e-2
"""p-value of made-up points that share the candidates' margin, from which that is a step of the model and nobody's margin:
crowds without steps reach it once in 20,000 (`margin_cluster`), 200 points asked of a ten-class SVC have 1e-46 or less."""
NEAR = 0.1
"How far below a margin that is given its cluster may begin, as a share: the least of 20 points is not the margin yet."
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@option_class
class MarginMembership(Attack[tuple[Predictions, Candidates], Membership]):
    """Call those candidates members that the model decides by at least its margin, to either side."""

    name: ClassVar[str] = "margin-membership"
    asks: ClassVar[int] = 500
    paper: ClassVar[str] = certificates.PAPER
    taxonomy = taxonomies.MEMBERSHIP
    remedy: ClassVar[tuple[str | Remedy, ...]] = (
        Remedy(
            "Answer with the class alone, or with probabilities of two or three digits: the rule reads how sure they are.",
            "TPR at 0.1 % FPR fell from 1.000 to 0.000 with probabilities to 3 decimals, and AUC to 0.964 only; with 2 "
            "decimals to 0.911 (docs/defences.md).",
        ),
        "Train with differential privacy; stopping early and weight decay did not help where this was tried.",
    )

    margin: Positive | None = None
    "The margin where it is known: the least amount by which a training point is decided (corollary 4.3)."
    one_of: tuple[NonNegativeInt, ...] | None = None
    "Rows of candidates of which at least one is a member: the largest of them is the margin (corollary 4.4)."
    at_least: Positive | None = None
    "A lower bound of the margin where only that is known: it becomes the threshold (corollary 4.5)."
    rule: Literal["above", "on"] = "above"
    "`above`: at or above the margin, as published; `on`: near it, since training points lie on it and others anywhere."
    slack: Annotated[float, Field(ge=0, lt=1)] = 0.02
    "How far below the margin still counts as on it, as a share: training ends before all points are there."
    answers: Literal["auto", "values", "probabilities"] = "auto"
    "What the model answers; found out unless given."
    controls: NonNegativeInt = 200
    "Points made up like the candidates and asked about too, more where a claim needs them: calls must be rarer among them."

    def run(self, held: tuple[Predictions, Candidates], context: Context) -> Finding[Membership]:
        model, candidates = held
        X = np.asarray(candidates.X, dtype=float)
        self._check(model, X)
        asked = np.concatenate([X, _made_up(X, self.controls, context.rng)])
        answers = np.asarray(model.value(asked))
        found = self._read(answers)
        threshold = self._threshold(found.values[: len(X)])
        if self.controls < len(X) and self.controls and threshold.stands_out:  # as many as candidates, for a fair test
            more = _made_up(X, len(X) - self.controls, context.rng)
            found = self._read(np.concatenate([answers, np.asarray(model.value(more))]))
        mine, theirs = found.values[: len(X)], found.values[len(X) :]
        scores, others = (self._scores(values, threshold.margin) for values in (mine, theirs))
        loot = Membership(scores, scores >= -threshold.slack)
        return self._finding(loot, others, found, threshold, _claim(loot, others, theirs, threshold))

    def score(self, finding: Finding[Membership], held: tuple[Predictions, Candidates], truth: Truth) -> Finding[Membership]:
        return certificates.certified(scoring.scored(finding, truth, held[1]), held[1], truth)

    def _read(self, answers: Array) -> LogitGaps:
        found = logit_gaps(answers, self.answers)
        if found is None:
            raise NotApplicable(
                "the model answers names of classes, not how far it decides; the margin cannot be read from those"
            )
        return found

    def _check(self, model: Predictions, X: Array) -> None:
        if X.shape[1] != model.dimension:
            raise BadInput(
                f"expected candidates with the {model.dimension} inputs of the model, got {X.shape[1]} features; "
                "prepare them as the training data were"
            )
        if sum(given is not None for given in (self.margin, self.one_of, self.at_least)) > 1:
            raise BadInput("expected one of margin, one_of and at_least, got several; each is a rule of its own")
        if self.one_of is not None and (not self.one_of or max(self.one_of) >= len(X)):
            raise BadInput(f"expected rows from 0 to {len(X) - 1} for one_of, got {list(self.one_of)}; name candidates")

    def _threshold(self, values: Array) -> _Threshold:
        """The margin by what is known of it, or by a value that many candidates share; and whether they do so there."""
        slack = -float(np.log1p(-self.slack))
        if self.at_least is not None:
            cluster = margin_cluster(values, (1 - self.slack) * self.at_least)
            return _Threshold(self.at_least, slack, f"the margin is at least {self.at_least:.4g} (corollary 4.5)", cluster)
        if self.margin is not None or self.one_of is not None:
            margin = self.margin or float(values[list(self.one_of or ())].max())
            if not margin > 0:
                raise NotApplicable(
                    "the model decides none of the candidates that hold a member: the margin is not positive"
                )
            said = f"the margin {margin:.4g} is known (corollary 4.3)"
            if self.one_of is not None:
                said = f"one of {len(self.one_of)} candidates is known to be a member (corollary 4.4)"
            return _Threshold(margin, slack, said, margin_cluster(values, margin / (1 + NEAR), margin * (1 + self.slack)))
        cluster, largest = margin_cluster(values), float(values.max())
        if cluster is None or cluster.p_value >= SURE:
            return _Threshold(largest, slack, f"no value stands out, the largest is {largest:.4g}", None)
        return _Threshold(cluster.at, max(slack, cluster.width), "the margin is what many candidates share", cluster)

    def _scores(self, values: Array, margin: float) -> Array:
        """Logarithms of how many margins, or how near one: at least 0 is on the margin or above."""
        times = np.log(np.maximum(values, 1e-300) / max(margin, 1e-300))
        return np.asarray(times if self.rule == "above" else -np.abs(times))

    def _finding(
        self, loot: Membership, others: Array, found: LogitGaps, threshold: _Threshold, claim: MembershipClaim
    ) -> Finding[Membership]:
        passed, asked = claim.controls_called, claim.controls
        where = {"above": "at or above it", "on": "on it"}[self.rule]
        reach = f"{claim.called:,} of {claim.candidates:,} candidates are {where} and {passed:,} of {asked:,} made-up points"
        notes = [f"How far points are decided was read from {_WORDS[found.kind]}; {threshold.words}."]
        cluster = threshold.cluster
        if cluster is not None:
            notes.append(
                f"{cluster.count} candidates are decided by {cluster.at:.4g} or nearly so, {cluster.expected:.2g} by chance."
            )
            notes.append(claim.words)
        step = _step(found, threshold, claim.candidates)
        if step:
            notes.append(step)
        if found.saturated:
            notes.append(f"{found.saturated:,} answers are 0 or 1 to the last digit and taken for the largest of all.")
        made, like = {"made-up points": others} if asked else {}, "points made up like the candidates"
        null, null_of = (passed / asked, like) if asked else (0.0, "a model that decides no point so far")
        along = {"above": "logarithm of how many margins", "on": "nearness to the margin"}[self.rule]
        title = "How far candidates and made-up points are decided" if asked else "How far candidates are decided"
        about: dict[str, Any] = {
            "evidence": claim,
            "scores": {"candidates called members": Score(claim.called / claim.candidates, null, null_of)},
            "figures": (Histogram(title, along, {"candidates": loot.scores, **made}),),
            "notes": tuple(notes),
        }
        said = f"With {threshold.margin:.4g} as the margin, {reach}."
        if claim.holds and not step:
            return Finding.leak(loot, said, **about)
        if cluster is None and not self._margin_given:
            said = f"The margin is not known: {threshold.words}."
        power = (
            "It would have claimed a leak had more candidates been decided by the same amount, the margin, than chance "
            "allows and than made-up points are: other points are decided by all amounts."
        )
        return Finding(Verdict.NONE_FOUND, said, loot, power=power, **about)

    @property
    def _margin_given(self) -> bool:
        return (self.margin, self.one_of, self.at_least) != (None, None, None)


@dataclass(frozen=True)
class _Threshold:
    margin: float
    slack: float
    "How far from the margin a point may be, as a logarithm."
    words: str
    "How it was found."
    cluster: MarginCluster | None
    "The candidates that are decided by as much as the margin, beside how many would be by chance."

    @property
    def stands_out(self) -> bool:
        return self.cluster is not None and self.cluster.p_value < SURE


def _claim(loot: Membership, others: Array, gaps: Array, threshold: _Threshold) -> MembershipClaim:
    """Of the calls, beside those among made-up points, which have scores `others` and logit gaps `gaps`, both (m,)."""
    called, count = int(loot.decisions.sum()), len(loot.scores)
    passed, asked, cluster = int(np.sum(others >= -threshold.slack)), len(others), threshold.cluster
    p_value = 1.0 if cluster is None else cluster.p_value
    if asked:
        rate = clopper_pearson(passed, asked)[1]
    else:  # then whoever is called and not in the cluster is called for nothing
        rate = 1.0 if cluster is None else min(1.0, (cluster.expected + max(called - cluster.count, 0)) / count)
    if cluster is not None and asked:
        there = int(np.sum((gaps >= cluster.low) & (gaps <= cluster.high)))
        p_value = max(p_value, more_often(cluster.count, count, there, asked))
    return MembershipClaim.of(count, called, asked, passed, p_value=p_value, false_positive_rate=rate)


def _step(found: LogitGaps, threshold: _Threshold, asked: int) -> str:
    """Why equal margins are the model's own doing, where they are: nobody was trained on points made up."""
    if found.votes:
        return (
            "The outputs are votes of one class against another, whole numbers but for less than a third: they differ by "
            "steps, whoever was trained on, and no margin can be read from them."
        )
    cluster, theirs = threshold.cluster, found.values[asked:]
    if cluster is None or not len(theirs):
        return ""
    same = margin_cluster(theirs, cluster.low / (1 + NEAR), cluster.high)
    if same is None or same.p_value >= STEP:
        return ""
    return (
        f"{same.count} of {len(theirs):,} made-up points share the same amount: it is a step of the model, nobody's margin."
    )


_WORDS = {
    "output": "one output",
    "outputs": "the two largest outputs",
    "probability": "the logarithm of the odds",
    "probabilities": "the logarithms of the two largest probabilities",
}


def _made_up(X: Array, count: int, rng: np.random.Generator) -> Array:
    """Normal points with the mean and the covariance of the candidates, which nobody trained on."""
    mean = X.mean(axis=0)
    return np.asarray(mean + rng.standard_normal((count, len(X))) @ (X - mean) / np.sqrt(len(X)))
