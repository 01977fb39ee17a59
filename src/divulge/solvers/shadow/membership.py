"""Shadow-model membership inference: which points a network was trained on, by what tells them apart on shadows.

Shadows are trained like the network on some of the points in question, under its own labels. They say three things: how
measures are best combined, what a point leaves outside networks that never saw it, and from where on a score is rare. How
rare it is for the network itself, which may have been trained in another way, is told by controls: points like those in
question that nobody was trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from divulge.arrays import Array, Layers
from divulge.solvers.images.span import Span
from divulge.solvers.margin.max_margin import forward
from divulge.solvers.shadow import shadow, span_scores
from divulge.solvers.shared.calibration import CalibratedClassifier

By = Literal["both", "span", "kinks"]

FEW = 1000
"With fewer points others are made up beside them: one in a thousand non-members has to be seen on a shadow."
MOST = 3
"One in so many points, at most, is a shadow trained on: most must stay non-members for what they leave to be known."
PASSES = 2000
"Of a shadow's training over its points, at most. A guard: it ends where its first layer is as large as the network's."
SINGLE = 1e-7
"The level of noise at which the plain span score is taken."
LOWER, MIDDLE = 0.25, 0.5
"Share of the shadows' members below the one that the threshold has to be half-way to; the second where points were made up."

MOVES = np.array([place for place in np.ndindex(5, 5) if place != (2, 2)]) - 2
"By how many pixels, down and right, a picture is moved that is made of another."

WITHOUT_NOISE = 1e-14
"The level at which what lies outside of rows counts alone: of six sets of answers none did better at a larger one."
CLEAR = 1.75
"""Times as far as the furthest control a point has to be for a member.

Of 1,500 non-members the furthest was at 1.0 to 1.4 times, and of 50 members nine in ten at 1.4 to 5.9 times (digits, clothes
and photographs, each trained with weight decay and to the margin); with 1.5 one or two of 1,000 other digits were called.
"""
RANK = 1e-9
"Of the largest deviation of points: in a direction with less they do not differ, but by rounding."


@dataclass(frozen=True, eq=False)
class ShadowInference:
    """Scores of the points, and what the shadows say of them."""

    scores: Array
    threshold: float
    "Above which a point is called a member."
    members: Array
    "Scores of the shadows' members, where the classifier learned."
    non_members: Array
    controls: Array
    "Scores that the network gives to points made up like those in question, compared in the same way; none is a member."
    trained_on: int
    "On how many points each shadow was trained."
    made: int
    "How many points were made up."

    @property
    def recall(self) -> float:
        return float(np.mean(self.members > self.threshold))


def infer(
    layers: Layers,
    X: Array,
    mean: Array | None,
    seen: Span,
    shape: tuple[int, ...] | None,
    rng: np.random.Generator,
    *,
    by: By = "both",
    count: int | None = None,
    shadows: int = 3,
    false_positives: float = 0.001,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ShadowInference:
    """Of points X (n, d) to the network x -> layers(x − mean); `count` is on how many it was trained, if that is known."""
    asked, origin = len(X), np.arange(len(X))
    if asked < FEW:
        made, source = made_up(X, FEW - asked, shape, rng)
        X, origin, shadows = np.concatenate([X, made]), np.append(origin, source), 1
    labels = _labels(layers, X, mean)
    trained: list[_TrainedShadow] = []
    while len(trained) < shadows:
        progress(len(trained), shadows)
        first = trained[0].network if trained else None
        trained.append(_train_shadow(layers, seen, shape, X, labels, origin, count, first, rng))
    progress(shadows, shadows)
    mine, theirs = _measures(by, layers, X, mean), _of_shadows(by, trained, X, mean)
    inside, outside = np.array([one.inside for one in trained]), np.array([one.outside for one in trained])
    alike = span_scores.detail(X) if by == "both" else None

    def apart(measures: Array, others: list[int]) -> Array:
        return _apart(measures, alike, theirs[others], inside[others])

    everyone = list(range(len(trained)))
    learned = np.array([apart(theirs[one], [other for other in everyone if other != one]) for one in everyone])
    known = inside | outside
    classifier = CalibratedClassifier.fit(learned[known], inside[known].astype(float))
    members, non_members = classifier.log_odds(learned[inside]), classifier.log_odds(learned[outside])
    threshold = float(np.quantile(non_members, 1 - false_positives, method="higher"))
    # Non-members of the network may be a little further out than those of a shadow: where there is room, keep clear of them.
    clear = float(np.quantile(members, LOWER if len(X) == asked else MIDDLE))
    threshold = max(threshold, (threshold + clear) / 2)
    scores = classifier.log_odds(apart(mine, everyone)[:asked])
    others = controls_like(X[:asked], max(asked, FEW), shape, rng)
    controls = classifier.log_odds(_ofcontrols_like(by, layers, mean, trained, others))
    return ShadowInference(scores, threshold, members, non_members, controls, len(trained[0].network.X), len(X) - asked)


@dataclass(frozen=True, eq=False)
class SpanInference:
    """How far points lie inside the span of some rows, beside points that nobody was trained on; no shadow is trained."""

    scores: Array
    "In deviations of the controls from most of them."
    threshold: float
    controls: Array
    inside: Array
    "Scores of the controls once they are moved into the span: those of members without noise."

    @property
    def recall(self) -> float:
        return float(np.mean(self.inside > self.threshold))


def infer_from_rows(
    rows: Array, X: Array, mean: Array | None, shape: tuple[int, ...] | None, rng: np.random.Generator
) -> SpanInference:
    """Of points X (n, d) to whatever network the rows [g, β] (k, d + 1) are combinations of the first layer of."""
    layers = [(rows[:, :-1], rows[:, -1])]
    others = controls_like(X, max(len(X), FEW), shape, rng)
    centre = X.mean(axis=0) if mean is None else mean
    axes = np.linalg.svd(rows, full_matrices=False)[2]
    points = np.column_stack([others - centre, np.ones(len(others))])
    within = points @ axes.T @ axes
    whole = [span_scores.left(layers, each, centre, (WITHOUT_NOISE,))[0] for each in (X, others, within[:, :-1] + centre)]
    middle = float(np.median(whole[1]))
    spread = 1.4826 * float(np.median(np.abs(whole[1] - middle))) or 1.0
    scores, controls, inside = ((one - middle) / spread for one in whole)
    return SpanInference(scores, CLEAR * float(controls.max()), controls, inside)


@dataclass(frozen=True, eq=False)
class _TrainedShadow:
    network: shadow.Shadow
    inside: Array
    "(n,): points it was trained on."
    outside: Array
    "(n,): points that have nothing to do with those."


def _train_shadow(
    layers: Layers,
    seen: Span,
    shape: tuple[int, ...] | None,
    X: Array,
    labels: Array,
    origin: Array,
    count: int | None,
    first: shadow.Shadow | None,
    rng: np.random.Generator,
) -> _TrainedShadow:
    """A shadow trained on some of the points, as many as the first one and in the same way, if there is one.

    Where points were made of others, it learns those made of one half of them.
    """
    sources = np.unique(origin)
    whole = len(sources) == len(X)
    kept = sources if whole else rng.permutation(sources)[: -(-len(sources) // 2)]
    order = rng.permutation(np.flatnonzero(np.isin(origin, kept)))
    outputs, most = len(layers[-1][1]), max(len(order) // MOST, 2)

    def draw(many: int) -> tuple[Array, Array]:
        return X[order[:many]], several(labels[order[:many]], outputs)

    if count is None and first is None:
        network = shadow.train_shadow_to_rank(layers, seen, shape, rng, most, draw=draw, passes=PASSES)
    else:
        many = len(first.X) if first is not None else min(max(count or 2, 2), most)
        decay = None if first is None else first.decay
        network = shadow.train_shadow(layers, seen, many, shape, rng, points=draw(many), passes=PASSES, decay=decay)
    inside = np.isin(np.arange(len(X)), order[: len(network.X)])
    return _TrainedShadow(network, inside, ~inside if whole else ~np.isin(origin, kept))


def _apart(measures: Array, alike: Array | None, others: Array, trained: Array) -> Array:
    """(n, measures): in deviations from most points, and where `alike` is known from those that are alike."""
    if alike is None:
        return np.array([span_scores.standard(one) for one in measures]).T
    return span_scores.compared(measures, alike, others, trained).T


def _of_shadows(by: By, trained: list[_TrainedShadow], X: Array, mean: Array | None) -> Array:
    """(shadows, measures, n)"""
    return np.array([_measures(by, one.network.layers, X, None if mean is None else one.network.mean) for one in trained])


def _ofcontrols_like(by: By, layers: Layers, mean: Array | None, trained: list[_TrainedShadow], X: Array) -> Array:
    """(n, measures) of points that neither the network nor a shadow was trained on, as if they were those in question."""
    alike = span_scores.detail(X) if by == "both" else None
    others = _of_shadows(by, trained, X, mean)
    return _apart(_measures(by, layers, X, mean), alike, others, np.zeros((len(trained), len(X)), dtype=bool))


def _measures(by: By, layers: Layers, X: Array, mean: Array | None) -> Array:
    """(measures, n). Where a mean is not known, nobody knows where kinks are."""
    if by == "span":
        return span_scores.left(layers, X, mean, (SINGLE,))
    if by == "kinks":
        return span_scores.kinks(layers, X, X.mean(axis=0) if mean is None else mean)[:1]
    found = [span_scores.left(layers, X, mean), span_scores.strengths(layers, X, mean)]
    return np.vstack(found if mean is None else [*found, span_scores.kinks(layers, X, mean)])


def _labels(layers: Layers, X: Array, mean: Array | None) -> Array:
    """What the network says of the points: −1 and 1, as many of each, or the number of an output."""
    outputs = forward(list(layers), X - (X.mean(axis=0) if mean is None else mean))[-1]
    return np.where(outputs[:, 0] > np.median(outputs[:, 0]), 1, -1) if outputs.shape[1] == 1 else outputs.argmax(axis=1)


def several(labels: Array, outputs: int) -> Array:
    """The labels, or others in turn where all are the same."""
    if len(np.unique(labels)) > 1:
        return labels
    turns = np.arange(len(labels))
    return np.where(turns % 2, 1, -1) if outputs == 1 else turns % outputs


def made_up(X: Array, count: int, shape: tuple[int, ...] | None, rng: np.random.Generator) -> tuple[Array, Array]:
    """Points like those given that are none of them, and of which each was made.

    Pictures are moved by a pixel or two; of what is no picture, one is drawn a little towards another.
    """
    first = rng.integers(len(X), size=count)
    second = (first + 1 + rng.integers(max(len(X) - 1, 1), size=count)) % len(X)  # never the same one
    if shape is not None and _pictured(shape):
        far = rng.choice(MOVES, count)
        moved = [np.roll(X[row].reshape(shape), by, axis=(0, 1)) for row, by in zip(first, far, strict=True)]
        return np.array(moved).reshape(count, -1), first
    share = rng.uniform(0.1, 0.5, (count, 1))
    mean = X.mean(axis=0)
    between = (1 - share) * (X[first] - mean) + share * (X[second] - mean)
    size = np.linalg.norm(X[first] - mean, axis=1) / np.maximum(np.linalg.norm(between, axis=1), 1e-300)
    return np.asarray(mean + between * size[:, None]), first


def controls_like(X: Array, count: int, shape: tuple[int, ...] | None, rng: np.random.Generator) -> Array:
    """Points as typical as those given that can be no members, even where those given are.

    Pictures are moved by a pixel or two, their edges drawn on: of 100 digits trained to the margin 83 were called and of
    2,100 moved ones none. Of what is no picture they lie in any direction, as far from the mean as one of those given, in
    deviations. Points between two of those given would not do: half of a member is still told from others (46 of 2,100 in
    the same network).
    """
    turn = np.arange(count) % len(X)
    if shape is None or not _pictured(shape):
        mean = X.mean(axis=0)
        U, s, axes = np.linalg.svd(X - mean, full_matrices=False)
        kept = s > RANK * s[0]
        way = rng.standard_normal((count, int(kept.sum())))
        far = np.linalg.norm(U[turn][:, kept], axis=1) / np.linalg.norm(way, axis=1)
        return np.asarray(mean + (far[:, None] * way * s[kept]) @ axes[kept])
    made = X[turn].reshape(count, *shape)
    edges = np.pad(made, [(0, 0), (2, 2), (2, 2), *[(0, 0)] * (len(shape) - 2)], mode="edge")
    high, wide = shape[:2]
    moves = 2 - rng.choice(MOVES, count)
    moved = [one[down : down + high, right : right + wide] for one, (down, right) in zip(edges, moves, strict=True)]
    return np.array(moved).reshape(count, -1)


def _pictured(shape: tuple[int, ...]) -> bool:
    return len(shape) > 1 and min(shape[:2]) > 4
