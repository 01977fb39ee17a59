"""Training data from the stationarity of a trained network (Haim et al. 2022, arXiv:2206.07758)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import PositiveInt

from divulge.arrays import Layers
from divulge.attacks.reconstruction import claims, scoring
from divulge.attacks.reconstruction.claims import Claims
from divulge.attacks.reconstruction.scoring import PAPER, REMEDY
from divulge.contract import (
    Array,
    Attack,
    Context,
    Finding,
    Preview,
    Remedy,
    TrainingData,
    Truth,
    Weights,
    option_class,
    taxonomies,
)
from divulge.errors import BadInput, NotApplicable
from divulge.solvers.images import layouts
from divulge.solvers.images.layouts import Layout
from divulge.solvers.images.span import Span, span
from divulge.solvers.images.span_search import Found, SpanSearch
from divulge.solvers.shadow import shadow
from divulge.solvers.shared import similarity

if TYPE_CHECKING:  # they load torch, which an audit without this attack has no use for
    from divulge.solvers.kkt.descent import Setup, State, Stationarity
    from divulge.solvers.kkt.pool import Pool, SearchSpace

BOTH = 0.9
"""NCC with a candidate of the span search from which two methods that share nothing but the weights have found the same.

Of 45 such on five networks of 80 to 500 images 44 were right; of 200 on which two searches of gradients agree as well 21,
because they share their mistakes too. Of 110 points that are no pictures, on which three of nine searches agree at 0.95, 22.
"""
FAR = 3.0
"Times the shadow's loss: a network whose weights no candidates explain better is near no KKT point."
FAILED = 0.3
"Of the weights' square, which a search may leave in any case. Where training has converged it leaves 0.01 to 0.13."
KEPT = 6
"Times the number of points: candidates in the loot, at most, the surest first; all that searches make by default."
BOX = (0.0, 1.0)
"Values that pixels can have."

# What bounds the time.
MOST = 2000  # points that an estimate of their number may come to
LARGEST_SHADOW = 150  # points that a shadow is trained on: settings carry over to more, and the time does not
RESOLVED = 250  # directions of the first layer that ICA separates: 200 of photographs take 105 s
STARTS = 3  # of the ICA
BLOCK = 100  # steps between two that are kept: as much is lost when a run is killed


@option_class
class KktReconstruction(Attack[Weights, TrainingData]):
    """Find inputs whose gradients add up to the weights, as those of the training points do where training has converged.

    Settings are found on a shadow: a network of the same shape that the attack trains itself, on pictures made to order.
    Other inputs explain the weights as well as the training points, so only those are claimed that the search of the span
    finds too; the others are handed over, to be scored where the truth is known.
    """

    name: ClassVar[str] = "kkt-reconstruction"
    title: ClassVar[str] = "KKT reconstruction"
    paper: ClassVar[str] = PAPER
    taxonomy = taxonomies.RECONSTRUCTION
    remedy: ClassVar[tuple[str | Remedy, ...]] = REMEDY

    count: PositiveInt | None = None
    "How many training points to look for; estimated on shadows unless given."
    candidates: PositiveInt = 2
    "Candidates for each point looked for."
    setups: PositiveInt = 3
    "Searches that are pooled: of photographs from as many starts, of other points the best of all ways on the shadow."
    steps: PositiveInt = 600
    "Of one search; of photographs twice as many, in rounds."
    span: bool = True
    "Whether to search the span too, where inputs are pictures: only what both find is claimed."
    fewest: PositiveInt = 200
    "Pictures below which nothing is searched: of so few the span search finds more, in a fraction of the time."
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
        if seen.rank < 2 and not (self.count and size is not None and _as_torch(held.layers, seen)):
            return Finding.none_found(
                f"Training left no trace in the first layer: {seen.rank} of {len(seen.sizes)} directions stand out of "
                "noise.",
                power="Where the first layer starts as large as torch starts it, training hides below its start.",
            )
        layers = [(_forth(layout, held.layers[0][0]), held.layers[0][1]), *held.layers[1:]]
        seen = span(*layers[0])
        count = self.count or context.once(
            "count", lambda rng: shadow.likely_count(layers, seen, size, rng, min(MOST, 4 * seen.rank))
        )
        if layout is not None and count < self.fewest:
            raise NotApplicable(
                f"the network shows about {count} pictures: below {self.fewest} `span-reconstruction` finds more, in a "
                "fraction of the time; set fewest to search all the same"
            )
        context.log(f"Looking for {count} training points in {seen.rank} directions of the first layer.")
        tuned = _Tuned(**context.once("shadow", _Tuning(self, layers, seen, size, count, context)))
        context.log(f"On the shadow, {', '.join(tuned.names)} find {tuned.right} of its {tuned.points} points.")
        space = _space(layers, seen, size)
        found: list[State] = []
        names = tuned.names * self.setups if space.repeated(tuned.names[0]) else tuned.names
        for number, name in enumerate(names):
            setup, show = space.menu(self.steps, tuned.margin)[name], _Showing(space, layout, held, tuple(found))
            found.append(self._search(space, name, setup, count, context, number, show))
        candidates, least = space.pool(found), min(one["loss"] for one in found)
        own = None
        told = held.mean is not None or not seen.centred  # else pictures lack a mean that nobody knows
        if self.span and layout is not None and told and seen.rank <= RESOLVED and not seen.crowded:
            own = self._separated(held, layout, seen, context)
        return self._finding(held, layout, tuned, candidates, own, least, count)

    def score(self, finding: Finding[TrainingData], held: Weights, truth: Truth) -> Finding[TrainingData]:
        return scoring.scored(finding, held, truth)

    def _search(
        self,
        space: SearchSpace,
        name: str,
        setup: Setup,
        count: int,
        context: Context,
        number: int,
        showing: _Showing,
    ) -> State:
        """One search of the victim, kept block by block."""
        total, blocks = self.setups, -(-setup.steps // BLOCK)
        piece = f"{name} {number}" if space.repeated(name) else name
        objective = space.objective(name)
        state: State = context.once(
            f"{piece} start", lambda rng: space.begin(name, setup, space.signs(self.candidates * count), rng)
        )
        for block in range(blocks):
            context.budget.check()
            state = context.once(f"{piece} {block}", _Block(space, objective, setup, state, context.budget.check))
            context.progress(number * blocks + block + 1, total * blocks)
            context.log(f"{name}: step {state['step']} of {setup.steps}, {state['loss']:.3f} of the weights is left.")
            if showing.pictured:
                context.show(partial(showing.preview, setup, state))
        return state

    def _separated(self, held: Weights, layout: Layout, seen: Span, context: Context) -> Found:
        """What sparse-gradient source separation alone finds in the span."""

        def step(what: str) -> None:
            context.budget.check()
            context.log(f"Separated {what}.")
            context.show(lambda: claims.so_far(search, what))

        def once(piece: str, compute: Callable[[np.random.Generator], Array]) -> Array:
            return context.once(f"span {piece}", compute)

        mean = _mean(held, layout)
        search = SpanSearch(
            pictures=seen.pictures(mean),
            bias=seen.bias if seen.has_bias else None,
            uncertainty=seen.uncertainty,
            shape=layout.size,
            box=BOX,
            mean=mean,
            starts=STARTS,
            once=once,
            step=step,
            hidden=seen.hidden,
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
        return best if best.roughness(moved) <= layouts.ROUGH or held.shape or self.shape else None

    def _finding(
        self,
        held: Weights,
        layout: Layout | None,
        tuned: _Tuned,
        candidates: Pool,
        own: Found | None,
        least: float,
        count: int,
    ) -> Finding[TrainingData]:
        order = np.argsort(-candidates.agreed, kind="stable")[: KEPT * count]
        handed, none = self._inputs(held, layout, candidates.X[order]), np.zeros((0, held.dimension))
        claimed, sure, certified, shape = none, np.zeros(0), np.zeros(0, dtype=bool), held.shape
        if own is not None and layout is not None:
            sure = _confirmed(candidates.X, own.raw - _mean(held, layout), own.confidence)
            first = claims.chosen(sure)
            claimed, sure, certified, shape = layout.back(own.X[first]), sure[first], own.certified[first], layout.shape
        evidence = Claims.of(scoring.GOOD, sure, certified, handed)
        notes = [
            f"The weights left unexplained by the best search: {least:.3f} of their square; on the shadow {tuned.loss:.3f}, "
            f"where its training points themselves leave {tuned.true_loss:.3f}.",
            f"Settings were found on a shadow of {tuned.points} points: {', '.join(tuned.names)}, which together find "
            f"{tuned.right} of them at NCC > {tuned.enough:.2f}, more than chance (of all tried: {tuned.each}).",
            f"{'Estimated on shadows' if self.count is None else 'Given'}: {count} training points.",
            f"{len(handed)} candidates that nobody claims are handed over, for whoever knows the truth to look through.",
            *(layout.notes if layout else ()),
        ]
        if held.mean is None:
            notes.append("Nothing says what was subtracted from inputs; points come out as the first layer sees them.")
        about: dict[str, Any] = {"evidence": evidence, "notes": tuple(notes)}
        if len(claimed):
            summary = f"{len(claimed)} training images are found twice: by their gradients and in the first layer's span."
            about["notes"] = (evidence.words, *notes)
            return Finding.leak(TrainingData(claimed, shape=shape), summary, **about)
        power = (
            f"Of {tuned.points} points that a network of the same shape was trained on, {tuned.right} are among the "
            "candidates of the same searches; nothing but the search of the span tells which."
        )
        return Finding.none_found(_why_nothing(layout, least, tuned.loss), power=power, **about)

    def _inputs(self, held: Weights, layout: Layout | None, X: Array) -> Array:
        """Candidates as inputs are handed in."""
        X = X.astype(np.float32) if layout is None else layout.back(X.astype(np.float32))
        return X if held.mean is None else X + held.mean.astype(np.float32)


@dataclass(frozen=True)
class _Block:
    """Some steps of a search."""

    space: SearchSpace
    objective: Stationarity
    setup: Setup
    state: State
    check: Callable[[], None]

    def __call__(self, rng: np.random.Generator) -> State:
        return self.space.advance(self.state["name"], self.objective, self.setup, self.state, BLOCK, self.check)


@dataclass(frozen=True)
class _Showing:
    """Candidates of a search that is under way, as pictures."""

    space: SearchSpace
    layout: Layout | None
    held: Weights
    before: tuple[State, ...]
    "What the searches before it came to."

    @property
    def pictured(self) -> bool:
        return self.layout is not None

    def preview(self, setup: Setup, state: State) -> Preview:
        """Those first that other searches find as well; of the first search, the smoothest."""
        assert self.layout is not None
        so_far = self.space.pool([state, *self.before])
        many, agreed = len(state["points"]), so_far.agreed[: len(state["points"])]
        X = so_far.X[:many]
        smooth = self.layout.correlations(self.layout.back(X))
        order = np.argsort(-(agreed if self.before else smooth), kind="stable")[: claims.SHOWN]
        alike = int(np.sum(smooth > 1 - layouts.ROUGH))
        first = "those first that earlier searches find as well" if self.before else "the smoothest first"
        return Preview(
            f"Candidates of the search {state['name']!r}",
            X[order] + _mean(self.held, self.layout),
            self.layout.size,
            f"{alike} of {many} candidates are as smooth as pictures; step {state['step']:,} of {setup.steps:,}, "
            f"{state['loss']:.3f} of the weights is left; {first}.",
        )


@dataclass(frozen=True)
class _Tuned:
    """What the shadow taught."""

    names: list[str]
    margin: float
    points: int
    "On which the shadow was trained."
    right: int
    enough: float
    loss: float
    true_loss: float
    each: str


@dataclass(frozen=True)
class _Tuning:
    """Every set-up tried on a shadow, and the best few chosen."""

    attack: KktReconstruction
    layers: Layers
    seen: Span
    size: tuple[int, ...] | None
    count: int
    context: Context

    def __call__(self, rng: np.random.Generator) -> dict[str, Any]:
        count = min(self.count, LARGEST_SHADOW)
        self.context.log(f"Training a shadow of the same shape on {count} points made to order.")
        trained = shadow.train_shadow(self.layers, self.seen, count, self.size, rng)
        margin = float(np.quantile(trained.margins, 0.1))
        space = _space(trained.layers, trained.seen, self.size)
        from divulge.solvers.kkt.pool import IN_ROUNDS

        menu, signs = space.menu(self.attack.steps, margin), space.signs(self.attack.candidates * count)
        photographs = _photographs(self.layers, self.seen, self.size)
        menu = {name: setup for name, setup in menu.items() if (name == IN_ROUNDS) == photographs}
        states = {}
        for number, (name, setup) in enumerate(menu.items()):
            start = space.begin(name, setup, signs, rng)
            states[name] = space.advance(name, space.objective(name), setup, start, setup.steps, self.context.budget.check)
            self.context.progress(number + 1, len(menu) + 1)
            self.context.log(f"On the shadow, {name} leaves {states[name]['loss']:.3f}.")
        return space.tune(states, trained, self.attack.setups, margin)


def _photographs(layers: Layers, seen: Span, size: tuple[int, ...] | None) -> bool:
    """Whether inputs are pictures of all kinds, of which one search finds the most; not strokes, nor other points."""
    return size is not None and not _as_torch(layers, seen) and not shadow.are_strokes(layers[0][0], seen, size)


def _as_torch(layers: Layers, seen: Span) -> bool:
    """Whether the first layer still is what torch started it with, and little else."""
    from divulge.solvers.kkt.pool import starts_as_torch

    return starts_as_torch(layers[0][0], seen.noise)


def _space(layers: Layers, seen: Span, size: tuple[int, ...] | None) -> SearchSpace:
    """Where a network's inputs are looked for, and the searches that can be made there; the one place that loads torch."""
    from divulge.solvers.kkt.pool import SearchSpace

    if size is not None and _as_torch(layers, seen):
        return SearchSpace.beside(layers, size)
    return SearchSpace.of(layers, seen, size)


def _confirmed(X: Array, separated: Array, sure: Array) -> Array:
    """(k,): how `sure` (k,) the span search is of its candidates (k, d); 0 where none of X (m, d) is like it."""
    alike = similarity.ncc(X, separated.astype(X.dtype)).max(axis=0, initial=-1)
    return np.where(alike > BOTH, sure, 0.0)


def _why_nothing(layout: Layout | None, least: float, on_shadow: float) -> str:
    """`least` is the least share of the weights that a search leaves, `on_shadow` that on the shadow."""
    if least > max(FAR * on_shadow, FAILED):
        return (
            f"No candidates explain the weights: {least:.2f} of their square is left, {on_shadow:.3f} on the shadow; "
            "the network is near no KKT point."
        )
    if layout is None:
        return "Candidates explain the weights, and nothing tells which are training points: inputs are no pictures."
    return "No three candidates are found in the span of the first layer as well, surely enough to be claimed."


def _mean(held: Weights, layout: Layout) -> Array:
    """What is subtracted from inputs, as far as is known, colours last."""
    mean = np.zeros(held.dimension) if held.mean is None else held.mean
    found: Array = layout.forth(mean[None])[0]
    return found


def _forth(layout: Layout | None, W: Array) -> Array:
    return W if layout is None else layout.forth(W)
