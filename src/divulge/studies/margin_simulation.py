"""A simulation of the margin as a test of membership (Smorodinsky et al. 2024, section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt
from scipy import stats
from threadpoolctl import threadpool_limits

from divulge.attacks.membership.certificates import PAPER
from divulge.contract import (
    Access,
    Array,
    Context,
    Evidence,
    Finding,
    Histogram,
    Score,
    Study,
    TrainingData,
    option_class,
    taxonomies,
)
from divulge.errors import AttackFailed, NotApplicable
from divulge.solvers.margin import batched, near_orthogonal

CONFIDENCE = 0.95
"Of every interval: Student's, over trials."
BATCH = 10
"The most networks trained side by side, so that there is work for every worker."
LARGEST = 4e8
"Weights in the first layers of a batch: 1.6 GB."
DRAWN = 5000
"Fresh points in the figure."


@dataclass(frozen=True, eq=False)
class SimulatedMargin(Evidence):
    """What the simulation saw of its networks."""

    networks: int
    separated: int
    "Networks that got all their points right; the scores are about these."
    sizes: Array
    "(separated, points + fresh): |N| in margins, of every network's training points first."


@option_class
class MarginSimulation(Study[TrainingData]):
    """Train small networks on rows of the data and ask each about rows that nobody trained on.

    Where points are nearly orthogonal, a two-layer network trained for long puts every training point on its margin and
    leaves others below. This tells how far that goes for data like yours; no given model is attacked.
    """

    name: ClassVar[str] = "margin-simulation"
    asset: ClassVar[str] = "membership"
    paper: ClassVar[str] = PAPER
    taxonomy = taxonomies.MEMBERSHIP
    remedy: ClassVar[tuple[str, ...]] = (
        "Answer with the class alone: the test reads how large the output is.",
        "Train with differential privacy; stopping early and weight decay did not help where this was tried.",
        "Train on more points than the data has dimensions: the fewer points, the more of them lie on the margin alone.",
    )

    trials: Annotated[int, Field(ge=2)] = 50
    "How many networks to train, each on rows of its own."
    points: Annotated[int, Field(ge=2)] = 20
    "Rows that each network is trained on."
    hidden: PositiveInt = 10_000
    "Hidden units of each network."
    fresh: PositiveInt = 5000
    "Rows that nobody trains on and every network is asked about."
    first: PositiveFloat = 1e-4
    "Standard deviation of the first layer's weights and biases at the start."
    slack: Annotated[float, Field(gt=0, lt=1)] = 0.01
    "By how much of the margin a point may be off and still count as on it."
    depth: PositiveFloat = 1000.0
    "Margin at which training ends; the larger, the nearer to it the points that belong there."
    steps: PositiveInt = 1000
    "Steps after which training ends in any case."
    random_labels: bool = False
    "Whether to toss coins for labels even where the data has two classes."

    def run(self, held: TrainingData, context: Context) -> Finding[Access]:
        X, y = self._rows(held, context.rng)
        used = self.trials * self.points
        groups = np.arange(used).reshape(self.trials, self.points)
        if all(_contradictory(X[group], y[group]) for group in groups):
            raise NotApplicable(
                "every trial has two equal rows with different labels, which no network can tell apart; "
                "lower points, or use data with more features"
            )
        size = int(np.clip(batched.CACHED // self.hidden, 1, BATCH))
        batches = [groups[low : low + size] for low in range(0, self.trials, size)]
        options = {"hidden": self.hidden, "first": self.first, "depth": self.depth, "steps": self.steps}
        simulate = partial(_simulate, X=X[:used], y=y, fresh=X[used:], options=options)
        parts = context.map("networks", simulate, batches)
        networks = _Simulated(**{name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
        return self._finding(networks, context.rng)

    def _rows(self, held: TrainingData, rng: np.random.Generator) -> tuple[Array, Array]:
        """Rows in random order, those of the trials first, and labels −1 and 1 of these."""
        used = self.trials * self.points
        if len(held.X) < used + self.fresh:
            raise NotApplicable(
                f"{self.trials} trials of {self.points} rows and {self.fresh} fresh rows need {used + self.fresh} rows, "
                f"and there are {len(held.X)}; lower trials, points or fresh"
            )
        size = min(self.trials, BATCH, max(1, batched.CACHED // self.hidden))
        if size * self.hidden * held.X.shape[1] > LARGEST:
            raise NotApplicable(
                f"{self.hidden} hidden units on {held.X.shape[1]} features take too much memory; lower hidden"
            )
        order = rng.permutation(len(held.X))[: used + self.fresh]
        coins = rng.choice((-1.0, 1.0), used)
        classes = np.unique(held.y) if held.y is not None and held.y.ndim == 1 else np.empty(0)
        if held.y is None or self.random_labels or len(classes) != 2:
            return held.X[order].astype(np.float32), coins
        return held.X[order].astype(np.float32), np.where(held.y[order[:used]] == classes[1], 1.0, -1.0)

    def _finding(self, networks: _Simulated, rng: np.random.Generator) -> Finding[Access]:
        separated = networks.margin > 0
        if not separated.any():
            raise AttackFailed(
                f"none of the {len(separated)} networks got all its points right in {self.steps} steps, "
                "so none has a margin; raise steps"
            )
        apart = networks.only(separated)
        scores = self._scores(apart)
        seen = SimulatedMargin(len(networks.margin), len(apart.margin), apart.sizes)
        rest: dict[str, Any] = {
            "scores": scores, "figures": (_figure(apart, rng),), "notes": tuple(self._notes(networks, apart)),
        }  # fmt: skip
        on, above = (scores[name].value for name in ("training points on the margin", "fresh points at or above the margin"))
        known = scores["advantage from one known member"]
        low = known.interval[0] if known.interval else known.value if len(apart.margin) > 1 else -np.inf
        shares = f"{on:.1%} of the training points are on the margin, and {above:.2%} of fresh points are at or above it"
        if low <= 0:
            return Finding.none_found(
                f"In this simulation the margin does not tell members from others: {shares}.",
                power=_power(known, len(apart.margin)),
                evidence=seen, **rest,
            )  # fmt: skip
        return Finding.shown(
            seen,
            f"In a simulation on {len(apart.margin)} networks, {shares}; who knows one member tells others by it with an "
            f"advantage of {known.value:.2f}. No given model was attacked.",
            **rest,
        )

    def _scores(self, apart: _Simulated) -> dict[str, Score]:
        margin, others = apart.margin[:, None], 1 / (self.points + 1)
        either = (np.abs(apart.fresh) >= margin).mean(axis=1)
        alike = "a network that treats members like others"
        return {
            "training points on the margin": _mean(
                (apart.margins <= margin * (1 + self.slack)).mean(axis=1), 1 / self.points, "the point that is the margin"
            ),
            "fresh points at or above the margin": _mean(either, 1 - others, alike, better="lower"),
            "fresh points at or above the margin, one side": _mean(
                (apart.fresh >= margin).mean(axis=1), (1 - others) / 2, f"{alike}, and both classes", better="lower"
            ),
            # The margin is the least of the members' own outputs, so knowing it finds all of them.
            "advantage where the margin is known": _mean(1 - either, others, alike),
            "advantage from one known member": _mean(apart.advantage(self.slack), 0.0, alike, least=-1.0),
            "fresh points proven below the margin": _mean(
                (apart.bounds < 1).mean(axis=1), 0.0, "data far from orthogonal, without a proof"
            ),
        }

    def _notes(self, networks: _Simulated, apart: _Simulated) -> list[str]:
        n, total = self.points, len(networks.margin)
        needed = float(np.median(3 * n * (networks.overlap + 1)))
        notes = [
            f"Of {total} networks {len(apart.margin)} got all their points right; the scores are about these. They were "
            f"trained for {int(np.median(apart.steps))} steps in the middle; {int((apart.margin >= self.depth).sum())} "
            f"reached the margin {self.depth:g} asked for, and the least is {apart.margin.min():.3g}.",
            f"Theorem 4.2 holds for the points of {int(networks.theorem.sum())} of {total} networks: it needs a least "
            f"squared norm above {needed:.4g} in the middle, and that is {float(np.median(networks.least_norm)):.4g}. A "
            f"finer form of its inequality proves every training point on the margin for {int(networks.finer.sum())}.",
        ]
        proven = apart.only(np.isfinite(apart.bounds[:, 0]))
        if len(proven.margin):
            share = np.abs(proven.fresh) / proven.margin[:, None] / np.maximum(proven.bounds, 1e-12)
            notes.append(
                f"It bounds the outputs of {len(proven.margin)}; fresh ones reach at most {float(share.max()):.2f} of their "
                f"bounds ({float(np.median(share)):.2f} in the middle)."
            )
        for slack in sorted({0.001, self.slack, 0.05}):
            on = (apart.margins <= apart.margin[:, None] * (1 + slack)).mean()
            notes.append(f"Within {slack:.1%} of the margin: {on:.3f} of the training points.")
        return notes


@dataclass(frozen=True)
class _Simulated:
    """What the trained networks say, one row a trial."""

    margins: Array
    "(trials, points): y N(x) of training points."
    fresh: Array
    "(trials, fresh): N(z)."
    bounds: Array
    "(trials, fresh): the most that |N(z)| can be, in margins."
    steps: Array
    theorem: Array
    finer: Array
    overlap: Array
    least_norm: Array

    @property
    def margin(self) -> Array:
        least: Array = self.margins.min(axis=1)
        return least

    @property
    def sizes(self) -> Array:
        """(trials, points + fresh): |N| in margins, training points first."""
        return np.asarray(np.abs(np.concatenate([self.margins, self.fresh], axis=1)) / self.margin[:, None])

    def only(self, which: Array) -> _Simulated:
        return _Simulated(**{name: value[which] for name, value in vars(self).items()})

    def advantage(self, slack: float) -> Array:
        """(trials,): members found less others called one, by |N| of one member less the slack; the mean over members."""
        found = []
        for members, others in zip(np.abs(self.margins), np.abs(self.fresh), strict=True):
            limits = (1 - slack) * members
            right = (members >= limits[:, None]).sum(axis=1) - 1  # without the member that is known
            wrong = len(others) - np.searchsorted(np.sort(others), limits)
            found.append(right.mean() / (len(members) - 1) - wrong.mean() / len(others))
        return np.array(found)


def _simulate(
    rows: Array, rng: np.random.Generator, X: Array, y: Array, fresh: Array, options: dict[str, Any]
) -> dict[str, Array]:
    """Train a network on each of these groups of rows, and ask it about the fresh ones."""
    with threadpool_limits(1):  # the same numbers whoever computes them
        trained = batched.train(X[rows], y[rows], rng, **options)
        certificates = [near_orthogonal.certificate(X[group]) for group in rows]
        return {
            "margins": trained.margins,
            "fresh": trained.values(fresh).astype(float),
            "bounds": np.array([near_orthogonal.bound(X[group], fresh) for group in rows]),
            "steps": trained.steps,
            "theorem": np.array([one.holds for one in certificates]),
            "finer": np.array([one.finer for one in certificates]),
            "overlap": np.array([one.overlap for one in certificates]),
            "least_norm": np.array([one.least_norm for one in certificates]),
        }


def _contradictory(X: Array, y: Array) -> bool:
    return len(np.unique(X, axis=0)) < len(np.unique(np.column_stack([X, y]), axis=0))


def _mean(values: Array, null: float, null_of: str, least: float = 0.0, **rest: Any) -> Score:
    """A mean over trials, from `least` to 1, with Student's interval; none where all trials agree."""
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    if spread == 0:
        return Score(mean, null, null_of, **rest)
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1)) * spread / len(values) ** 0.5
    return Score(mean, null, null_of, interval=(max(mean - half, least), min(mean + half, 1.0)), **rest)


def _power(score: Score, trials: int) -> str:
    if not score.interval:
        return (
            f"{trials} networks, too few to tell an advantage from chance"
            if trials == 1
            else "any advantage would have shown"
        )
    low, high = score.interval
    return f"an advantage above {(high - low) / 2:.3f} over {trials} networks would have shown"


def _figure(apart: _Simulated, rng: np.random.Generator) -> Histogram:
    sizes = (np.abs(apart.fresh) / apart.margin[:, None]).ravel()
    return Histogram(
        "How large outputs are, in margins",
        "|N| / margin",
        {
            "training points": (np.abs(apart.margins) / apart.margin[:, None]).ravel(),
            "fresh points": rng.choice(sizes, min(DRAWN, len(sizes)), replace=False),
        },
    )
