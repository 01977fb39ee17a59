"""Training data from the stationarity of a trained network (Haim et al. 2022, arXiv:2206.07758)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from divulge.attacks.reconstruction import scoring
from divulge.attacks.reconstruction.scoring import PAPER, REMEDY, TAXONOMY
from divulge.contract import Array, Attack, Context, Curve, Finding, TrainingData, Truth, Verdict, Weights, option_class
from divulge.errors import BadInput, NotApplicable
from divulge.solvers.images import layouts
from divulge.solvers.images.layouts import Layout
from divulge.solvers.images.span import Span, span
from divulge.solvers.images.span_search import Found, Search
from divulge.solvers.kkt import descent as kkt_descent, pool as kkt_pool
from divulge.solvers.kkt.pool import Pool
from divulge.solvers.shadow import shadow
from divulge.solvers.shared.calibration import Judge

SURE = 0.7
"A candidate is claimed that is a training point with this probability, by what was right on the shadow."
FAR = 3.0
"Times the shadow's loss: a network whose weights no candidates explain better is near no KKT point."
MOST = 2000
"Points that an estimate of their number may come to."
LARGEST_SHADOW = 150
"Points that a shadow is trained on, at most: settings carry over to more, and the time does not."
BLOCK = 100
"Steps between two that are kept: as much is lost when a run is killed."
ROUGH = 0.6
"Differences of neighbours, 1 where they have nothing to do with each other, above which inputs are no pictures."
FULL = 0.5
"Share of the units that directions may come to: where there are as many, the points may be more, and averages fit."
INFORMED = 0.5
"Share of what is left where units are mixed up: a search that leaves more would explain any weights."
FAILED = 0.3
"Of the weights' square, which a search may leave in any case."
RESOLVED = 250
"Directions of the first layer, at most, that are unmixed by the sparsity of differences: more take too long."
STARTS = 3
BOX = (0.0, 1.0)
"Values that pixels can have."
KEPT = 6
"Times the number of points: candidates in the loot, at most, the surest first."


@option_class
class KktReconstruction(Attack[Weights, TrainingData]):
    """Find inputs whose gradients add up to the weights, as those of the training points do where training has converged.

    Settings are found on a shadow: a network of the same shape that the attack trains itself, on pictures made to order.
    """

    name: ClassVar[str] = "kkt-reconstruction"
    title: ClassVar[str] = "KKT reconstruction"
    paper: ClassVar[str] = PAPER
    taxonomy = TAXONOMY
    remedy: ClassVar[tuple[str, ...]] = REMEDY

    count: PositiveInt | None = None
    "How many training points to look for; estimated on shadows unless given."
    candidates: PositiveInt = 2
    "Candidates for each point looked for."
    setups: PositiveInt = 3
    "Different ways of searching that are pooled: the best of all on the shadow."
    steps: PositiveInt = 600
    "Of one search."
    span: bool = True
    "Whether to pool what the search of the span finds, where inputs are pictures and it has a chance."
    shape: tuple[PositiveInt, ...] | None = None
    "Of one image where the weights do not say it: height, width, and 3 for colours."

    def run(self, held: Weights, context: Context) -> Finding[TrainingData]:
        if len(held.layers) < 2:
            raise NotApplicable(
                "the network has no hidden layer; its weights are one sum of points, which can be split anyhow"
            )
        seen = span(*held.layers[0])
        layout = self._layout(held, seen)
        size = None if layout is None else layout.size
        if seen.rank < 2:
            return self._nothing(
                f"Training left no trace in the first layer: {seen.rank} of {len(seen.sizes)} directions stand out of noise",
                "Where the first layer starts as large as torch starts it, training hides below its start.",
            )
        layers = [(_forth(layout, held.layers[0][0]), held.layers[0][1]), *held.layers[1:]]
        seen = span(*layers[0])
        count = self.count or context.once(
            "count", lambda rng: shadow.likely_count(layers, seen, size, rng, min(MOST, 4 * seen.rank))
        )
        context.log(f"Looking for {count} training points in {seen.rank} directions of the first layer.")
        tuned = _Tuned.from_dict(context.once("shadow", _Tuning(self, layers, seen, size, count, context)))
        context.log(f"On the shadow, {', '.join(tuned.names)} find {tuned.right} of {tuned.planted} planted points.")
        pool = kkt_pool.Space.of(layers, seen, size)
        found = []
        for number, name in enumerate(tuned.names):
            setup = kkt_pool.setups(self.steps, tuned.margin, len(layers), size is not None)[name]
            found.append(self._search(pool, name, setup, count, context, number))
        candidates = Pool.of(pool, found)
        least = min(one["loss"] for one in found)
        mixed_up = context.once("mixed up", _MixedUp(self, layers, seen, size, tuned, count, context))
        doubt = _doubt(least, tuned, found[0]["loss"], mixed_up, seen.rank, len(layers[0][0]))
        confidence = tuned.judge.confidence(candidates.measures) * (not doubt)
        if self.span and layout is not None and count / 2 <= seen.rank <= RESOLVED:
            own = self._unmixed(held, layout, seen, context)
            candidates, confidence = candidates.joined(own.raw - _mean(held, layout)), np.append(confidence, own.confidence)
        return self._finding(held, layout, tuned, candidates, confidence, least, doubt, count)

    def score(self, finding: Finding[TrainingData], held: Weights, truth: Truth) -> Finding[TrainingData]:
        return scoring.scored(finding, held, truth)

    def _search(
        self, pool: kkt_pool.Space, name: str, setup: kkt_descent.Setup, count: int, context: Context, number: int
    ) -> kkt_descent.State:
        """One search of the victim, kept block by block."""
        total, blocks = self.setups, -(-setup.steps // BLOCK)
        objective = pool.objective(name)
        state = context.once(
            f"{name} start", lambda rng: pool.begin(name, setup, kkt_pool.sides(self.candidates * count, pool.outputs), rng)
        )
        for block in range(blocks):
            context.budget.check()
            state = context.once(f"{name} {block}", _Block(pool, objective, setup, state, context.budget.check))
            context.progress(number * blocks + block + 1, total * blocks)
            context.log(f"{name}: step {state['step']} of {setup.steps}, {state['loss']:.3f} of the weights is left.")
        return state

    def _unmixed(self, held: Weights, layout: Layout, seen: Span, context: Context) -> Found:
        """What the sparsity of differences alone finds in the span."""

        def step(what: str) -> None:
            context.budget.check()
            context.log(f"Unmixed {what}.")

        def once(piece: str, compute: Callable[[np.random.Generator], Array]) -> Array:
            return context.once(f"span {piece}", compute)

        mean = _mean(held, layout)
        search = Search(
            pictures=seen.pictures(mean),
            bias=seen.bias if seen.anchored else None,
            uncertainty=seen.uncertainty,
            shape=layout.size,
            box=BOX,
            mean=mean,
            starts=STARTS,
            once=once,
            step=step,
        )
        return search.run(np.random.default_rng(0))

    def _layout(self, held: Weights, seen: Span) -> Layout | None:
        """How inputs are laid out where they are pictures; None for other points."""
        if held.shape is not None and self.shape is not None and held.shape != self.shape:
            raise BadInput(f"the weights say that images have shape {held.shape}, got shape={self.shape}; leave it out")
        options = layouts.candidates(held.dimension, held.shape or self.shape)
        if not options or not seen.rank:
            return None
        moved = seen.sizes[: seen.rank, None] * seen.axes[:, :-1]
        best = min(options, key=lambda one: one.roughness(moved))
        return best if best.roughness(moved) <= ROUGH or held.shape or self.shape else None

    def _finding(
        self,
        held: Weights,
        layout: Layout | None,
        tuned: _Tuned,
        candidates: Pool,
        confidence: Array,
        least: float,
        doubt: str,
        count: int,
    ) -> Finding[TrainingData]:
        order = np.argsort(-confidence, kind="stable")
        first = candidates.distinct(order[: int(np.sum(confidence >= SURE))])
        rest = order[~np.isin(order, first)]
        order = np.concatenate([first, rest])[: KEPT * count]
        X = candidates.X[order].astype(np.float32)
        X = X if layout is None else layout.back(X)
        if held.mean is not None:
            X = X + held.mean.astype(np.float32)
        loot = TrainingData(X, shape=held.shape or (layout.shape if layout else None))
        sure = len(first)
        notes = [
            f"The weights left unexplained by the best search: {least:.3f} of their square; on the shadow {tuned.loss:.3f}, "
            f"where the planted points themselves leave {tuned.true_loss:.3f}.",
            f"Settings were found on a shadow of {tuned.planted} points: {', '.join(tuned.names)}, which together find "
            f"{tuned.right} of them at NCC > {tuned.enough:.2f}, more than chance (of all tried: {tuned.each}).",
            f"{'Estimated on shadows' if self.count is None else 'Given'}: {count} training points.",
            *(layout.notes if layout else ()),
        ]
        if held.mean is None:
            notes.append("Nothing says what was subtracted from inputs; points come out as the first layer sees them.")
        names = (*tuned.names, "the span")
        many = np.bincount(candidates.source[first], minlength=len(names))
        origin = ", ".join(f"{name} {number}" for name, number in zip(names, many, strict=True))
        notes.append(
            f"Where the claimed points came from: {origin}; what searches find is judged by what was right on a shadow."
        )
        power = (
            f"Of {tuned.planted} points planted in a network of the same shape, the same searches find {tuned.right} and "
            f"claim {tuned.claimed}, {tuned.rightly} of them rightly, judged as they were learned from."
        )
        curve = Curve(
            "How sure each candidate is",
            "candidate",
            "confidence",
            {"candidates": (np.arange(1.0, len(order) + 1), confidence[order])},
            marks={"claimed": float(sure)},
        )
        summary = doubt or "No candidate is a training point with any certainty."
        if sure:
            summary = f"{sure} candidates are claimed as training points: {origin}."
            notes += [f"Nothing that the searches found is claimed: {doubt[:1].lower()}{doubt[1:]}"] if doubt else []
        return Finding(
            Verdict.LEAK if sure else Verdict.NONE_FOUND,
            summary,
            loot=loot,
            power=power,
            figures=(curve,),
            notes=tuple(notes),
        )

    def _nothing(self, summary: str, power: str) -> Finding[TrainingData]:
        return Finding.none_found(f"{summary}.", power=power)


@dataclass(frozen=True)
class _MixedUp:
    """What the first search leaves of the same network with the units of its first layer in another order."""

    attack: KktReconstruction
    layers: list[tuple[Array, Array]]
    seen: Span
    size: tuple[int, ...] | None
    tuned: _Tuned
    count: int
    context: Context

    def __call__(self, rng: np.random.Generator) -> float:
        self.context.log("The same search on the network with its units mixed up.")
        (W, b), *rest = self.layers
        order = rng.permutation(len(b))
        pool = kkt_pool.Space.of([(W[order], b[order]), *rest], self.seen, self.size)
        name = self.tuned.names[0]
        setup = kkt_pool.setups(self.attack.steps, self.tuned.margin, len(self.layers), self.size is not None)[name]
        state = pool.begin(name, setup, kkt_pool.sides(self.attack.candidates * self.count, pool.outputs), rng)
        ended = pool.advance(name, pool.objective(name), setup, state, setup.steps, self.context.budget.check)
        return float(ended["loss"])


@dataclass(frozen=True)
class _Block:
    """Some steps of a search."""

    pool: kkt_pool.Space
    objective: kkt_descent.Stationarity
    setup: kkt_descent.Setup
    state: kkt_descent.State
    check: Callable[[], None]

    def __call__(self, rng: np.random.Generator) -> kkt_descent.State:
        return self.pool.advance(self.state["name"], self.objective, self.setup, self.state, BLOCK, self.check)


@dataclass(frozen=True)
class _Tuned:
    """What the shadow taught."""

    names: tuple[str, ...]
    margin: float
    planted: int
    right: int
    claimed: int
    rightly: int
    enough: float
    loss: float
    true_loss: float
    each: str
    judge: Judge

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> _Tuned:
        return cls(**{**kept, "names": tuple(kept["names"]), "judge": Judge(**kept["judge"])})


@dataclass(frozen=True)
class _Tuning:
    """Every set-up tried on a shadow, and the best few chosen."""

    attack: KktReconstruction
    layers: list[tuple[Array, Array]]
    seen: Span
    size: tuple[int, ...] | None
    count: int
    context: Context

    def __call__(self, rng: np.random.Generator) -> dict[str, Any]:
        count = min(self.count, LARGEST_SHADOW)
        self.context.log(f"Training a shadow of the same shape on {count} points made to order.")
        planted = shadow.plant(self.layers, self.seen, count, self.size, rng)
        margin = float(np.quantile(planted.margins, 0.1))
        pool = kkt_pool.Space.of(planted.layers, planted.seen, self.size)
        menu = kkt_pool.setups(self.attack.steps, margin, len(self.layers), self.size is not None)
        sides = kkt_pool.sides(self.attack.candidates * count, pool.outputs)
        states = {}
        for number, (name, setup) in enumerate(menu.items()):
            start = pool.begin(name, setup, sides, rng)
            states[name] = pool.advance(name, pool.objective(name), setup, start, setup.steps, self.context.budget.check)
            self.context.progress(number + 1, len(menu) + 1)
            self.context.log(f"On the shadow, {name} leaves {states[name]['loss']:.3f}.")
        return kkt_pool.chosen(pool, states, planted, self.attack.setups, margin, SURE)


def _doubt(least: float, tuned: _Tuned, first: float, mixed_up: float, rank: int, units: int) -> str:
    """Why nothing that searches find may be claimed, if so."""
    if least > max(FAR * tuned.loss, FAILED):
        return (
            f"No candidates explain the weights: {least:.2f} of their square is left, {tuned.loss:.3f} on the shadow; "
            "the network is near no KKT point."
        )
    if first > INFORMED * mixed_up:
        return (
            f"Candidates explain the weights hardly better ({first:.3f} of their square is left) than those of the same "
            f"network with the units of its first layer mixed up ({mixed_up:.3f}), which no points do."
        )
    if rank > FULL * units:
        return f"The first layer has {rank} directions and {units} units: averages of many points explain so few weights."
    return ""


def _mean(held: Weights, layout: Layout) -> Array:
    """What is subtracted from inputs, as far as is known, colours last."""
    mean = np.zeros(held.dimension) if held.mean is None else held.mean
    found: Array = layout.forth(mean[None])[0]
    return found


def _forth(layout: Layout | None, W: Array) -> Array:
    return W if layout is None else layout.forth(W)
