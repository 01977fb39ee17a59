"""What kind of explanation a model gives: raw gradients, or something else that only looks like them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from divulge.arrays import Array
from divulge.explanations import Explanation, Kind, Normalised
from divulge.solvers.piecewise import attributions, explanation_fits as fits
from divulge.solvers.piecewise.directional_slopes import (
    Rounding,
    Slopes,
    as_rows,
    beside_kinks,
    directions_at,
    fineness,
    slopes,
)
from divulge.solvers.piecewise.explanation_points import POINTS, Questions, several_on_top

POOL = 48  # points whose values are looked at, so that the dozen which are explained have several outputs on top
LARGEST, OTHERS, MASKED = 2, 2, 2  # directions at a point: see directions_at
KINKS = 4  # points beside kinks, where a mean over neighbours is furthest from the gradient
NEIGHBOURS = 4  # points whose close neighbours are explained too
NEAR = 10.0  # times the precision of inputs: that close
SCATTERED = 30.0  # times that distance, both relative: curvature changes explanations by less, and kinks few of them
DOUBT = 0.5  # share of points beside kinks, or of neighbours, that belie a description
AGREEING = 0.9
"Share of slopes that must agree. A few cannot: several kinks of the model lie within a step."
SHRINKING = 4.0  # by how much points move to the middle where nothing can be told, as probabilities are 0 and 1
TRIES = 3
COMPLETE = 0.15
"Attributions are sums of a few dozen terms on most servers, so they add up to a few per cent only."
UNEVEN = 3.0  # times as much as attributions miss of the value, single ones may be off
NEARLY = 0.1  # of their usual size: where no more of the attributions is left, a path may be taken to begin
RISING = 0.85  # share of directions along a smoothed gradient in which values rise; of 24 unrelated ones, 1 in 7,000 times
ALIKE = 0.4  # cosine of a smoothed gradient's rises to a gradient's; 24 unrelated numbers reach that 1 in 40 times
CORRELATED = 0.8  # cosine to absolute slopes; that of 48 unrelated positive numbers is larger 1 in 100 times
POWER = 1.4  # with which absolute means of gradients grow with slopes; 1 but for scatter, and means of squares 2


def probe(
    value: Callable[[Array], Array],
    gradient: Callable[[Array], Array],
    dimension: int,
    rng: np.random.Generator,
    *,
    scale: float = 1.0,
    low: float | None = None,
    high: float | None = None,
) -> Explanation:
    """Name the kind of explanation that `gradient` gives of `value`.

    `value` takes (n, dimension) to (n,) or (n, outputs), `gradient` to (n, dimension) or (n, outputs, dimension). Points are
    normal with standard deviation `scale`: take the data's; or they stay in the box from `low` to `high`.

    It takes 192 values and 12 explanations, 336 values in single precision. Raw gradients and gradient × input take 144 to
    200 values and 8 explanations more, beside kinks; attributions that add up to the values 500 values and 4 explanations,
    or up to 51 where their baseline is no usual one. Where values are saturated, all that again nearer to the middle, twice
    at most.

    In double precision smoothing by a three-thousandth of the inputs' scale is told from raw gradients; in single precision
    by 3 % where noise is drawn for each point, and where it is the same for all, not always (bench/explanation_kinds.py).
    """
    ask = Questions(value, gradient, dimension, rng, scale, low, high)
    for attempt in range(TRIES):
        look = _Look.at(ask, 1 / SHRINKING**attempt)
        found = look.described() if look is not None else None
        if found is not None:
            return replace(found, points=ask.explained)
        if look is not None and not look.blurred:
            break
    return Explanation("unknown", agreement=0.0, points=ask.explained)


@dataclass(frozen=True)
class _View:
    """Explanations as those of one function: of an output, the sum of all, or at each point another one."""

    of: str
    weights: Array
    "(points, outputs)"
    groups: Array
    "(points,): which function each point's is, as attributions of each begin at a value of its own."


@dataclass(frozen=True)
class _Match:
    """How well a description fits."""

    kind: Kind
    agreement: float
    absolute: bool = False
    normalised: Normalised = ""


@dataclass(frozen=True)
class _Look:
    """Explanations at a few points and how the values rise there."""

    ask: Questions
    X: Array
    values: Array
    explained: Array
    "(points, d)"
    columns: Array | None
    "(points,): which output each is of, if those of all came."
    all: Array
    "(points, outputs, d), or (points, 1, d) where one came"
    rounding: Rounding
    slopes: Slopes

    @classmethod
    def at(cls, ask: Questions, size: float) -> _Look | None:
        X = ask.points(POOL, size).astype(np.float32).astype(float)  # as a server of single precision will see them
        values = as_rows(ask.value(X))
        chosen = several_on_top(values)
        X, values = X[chosen], values[chosen]
        explained, columns = ask.gradient(X), None
        every = explained.reshape(len(X), -1, ask.dimension)
        if every.shape[1] > 1:
            if every.shape[1] != values.shape[1]:
                return None
            columns = np.arange(len(X)) % values.shape[1]
        explained = every[np.arange(len(X)), 0 if columns is None else columns]
        if not explained.any():
            return None
        rounding = Rounding.of(values, explained)
        directions = directions_at(explained, ask.rng, LARGEST, OTHERS, MASKED)
        return cls(
            ask, X, values, explained, columns, every, rounding,
            slopes(ask.value, X, values, directions, rounding, ask.longest),
        )  # fmt: skip

    @property
    def blurred(self) -> bool:
        """Whether of some output hardly any slope can be told."""
        return any(not self._told(view) for view in self.views())

    def _told(self, view: _View) -> bool:
        rises, off = self.slopes.of(view.weights)
        return float(np.mean(off <= fits.CLEAR * np.abs(rises))) >= fits.TOLD

    def views(self) -> Iterator[_View]:
        count, outputs = self.values.shape
        ones, eye = np.zeros(count, dtype=int), np.eye(outputs)
        if outputs == 1:
            yield _View("only output", np.ones((count, 1)), ones)
        elif self.columns is not None:
            yield _View("each output", eye[self.columns], self.columns)
        else:
            top = self.values.argmax(1)
            yield _View("top output", eye[top], top)  # first: one that is always on top is more often meant so
            for number in range(outputs):
                yield _View(f"output {number}", np.tile(eye[number], (count, 1)), ones)
            yield _View("sum of outputs", np.ones((count, outputs)), ones)

    def described(self) -> Explanation | None:
        """The kind that fits best; None where none does."""
        for stage in (self._exact, self._scaled, self._complete, self._in_line, self._smoothed):
            found: tuple[_Match, _View] | None = None
            for view in self.views():
                for match in stage(view):
                    if found is None or match.agreement > found[0].agreement:
                        found = match, view
            if found is not None:
                return self._confirmed(*found)
        return None

    def _confirmed(self, match: _Match, view: _View) -> Explanation | None:
        """The same description, unless answers beside kinks and beside points already asked belie it."""
        said = Explanation(match.kind, view.of, None, match.absolute, match.normalised, match.agreement)
        if match.kind == "integrated gradients":
            return self._attributed(said, view)
        if match.kind in ("smoothed gradient", "unknown"):
            return said
        mean: Kind = "unknown" if match.kind == "gradient times input" else "smoothed gradient"
        if self._scatter() >= DOUBT or (
            not match.absolute and not match.normalised and self._wrong_beside_kinks(match.kind, view) >= DOUBT
        ):
            return replace(said, kind=mean)
        if said.raw and self.explained.min() >= 0 and self._falls_unseen(view):
            return replace(said, kind="absolute gradient", absolute=True)
        return said

    # Stage 1 and 2: every number follows from a slope

    def _exact(self, view: _View) -> Iterator[_Match]:
        rises, off = self.slopes.of(view.weights)
        for kind, predicted, uncertain, signed in self._predictions():
            have, blur = (rises, off) if signed else (np.abs(rises[:, :-MASKED]), off[:, :-MASKED])
            share = fits.agreement(have, predicted, blur + uncertain)
            if share >= AGREEING:
                yield _Match(kind, share - (0 if signed else 1e-3), not signed)

    def _scaled(self, view: _View) -> Iterator[_Match]:
        """Each point's numbers divided by their norm."""
        for norm in fits.norms(self.explained):
            for kind, share, _, signed in self._proportional(view, norm == "range"):
                yield _Match(kind, share, not signed, norm)

    def _in_line(self, view: _View) -> Iterator[_Match]:
        """Each point's gradient times a factor that is no norm, as smoothing does to functions of one direction."""
        for kind, share, factor, _ in self._proportional(view):
            around_one = np.ptp(factor) > fits.SCALED and fits.SLOPE[0] <= np.median(factor) <= fits.SLOPE[1]
            yield _Match("smoothed gradient" if kind == "gradient" and around_one else "unknown", share)

    def _proportional(self, view: _View, shifted: bool = False) -> Iterator[tuple[Kind, float, Array, bool]]:
        """Kinds that fit up to a factor for each point, or a straight line where they are `shifted` too."""
        rises, off = self.slopes.of(view.weights)
        for kind, predicted, uncertain, signed in self._predictions():
            have, blur = (rises, off) if signed else (np.abs(rises[:, :-MASKED]), off[:, :-MASKED])
            weight = 1 / np.maximum(blur, 1e-300) ** 2
            factor = (weight * have * predicted).sum(1) / np.maximum((weight * predicted**2).sum(1), 1e-300)
            fitted = fits.lines(predicted, have, weight) if shifted else factor[:, None] * predicted
            share = fits.agreement(have, fitted, blur + np.abs(factor)[:, None] * uncertain)
            if share >= AGREEING and (factor >= 0).all():
                yield kind, share, factor, signed

    def _predictions(self) -> Iterator[tuple[Kind, Array, Array, bool]]:
        """What slopes were if explanations were of a kind, how precise that is, and whether signs are told."""
        rough = fineness(self.explained, np.abs(self.explained).max(1, keepdims=True))
        rough = np.broadcast_to(rough, self.explained.shape)
        inverse = 1 / np.where(self.X == 0, np.inf, self.X)
        directions, axes = self.slopes.directions, self.slopes.directions[:, :-MASKED]
        kinds: tuple[tuple[Kind, Kind, Array], ...] = (
            ("gradient", "absolute gradient", np.ones_like(inverse)),
            ("gradient times input", "gradient times input", inverse),
        )
        for kind, _, factor in kinds:
            yield kind, fits.along(directions, factor * self.explained), fits.blur(directions, factor * rough), True
        if self.explained.min() >= 0:
            for _, kind, factor in kinds:
                positive = np.abs(factor) * self.explained
                yield kind, fits.along(np.abs(axes), positive), fits.blur(axes, factor * rough), False

    # What sets raw gradients apart from means over neighbours

    def _wrong_beside_kinks(self, kind: Kind, view: _View) -> float:
        """Share of points just before kinks at which explanations are not of the kind."""
        X, values = self.X[:KINKS], self.values[:KINKS]
        beside = beside_kinks(self.ask.value, X, values, np.roll(self.X, 1, axis=0)[:KINKS] - X, self.rounding)
        rows = self._rows(beside.X, np.arange(KINKS))
        factor = 1 / np.where(beside.X == 0, np.inf, beside.X) if kind == "gradient times input" else np.ones_like(beside.X)
        weights = self._weights(view, beside.values, np.arange(KINKS))
        directions = directions_at(rows, self.ask.rng, 0, 0, MASKED)
        found = slopes(self.ask.value, beside.X, beside.values, directions, self.rounding, self.ask.longest)
        rises, off = found.of(weights)
        rough = factor * fineness(rows, np.abs(rows).max(1, keepdims=True))
        wrong = np.abs(rises - fits.along(found.directions, factor * rows)) > off + fits.blur(found.directions, rough)
        on_the_way = np.einsum("po,po->p", beside.rises, weights) - np.einsum("pd,pd->p", beside.lines, factor * rows)
        allowed = beside.off[:, 0] + fits.blur(beside.lines[:, None], rough)[:, 0]
        return float(np.mean(wrong.all(1) | (np.abs(on_the_way) > allowed)))

    def _scatter(self) -> float:
        """Share of points whose close neighbours are explained otherwise, as in no smooth or piecewise linear function."""
        sizes = np.linalg.norm(self.explained, axis=1)
        some = np.argsort(-sizes)[:NEIGHBOURS]  # large ones: those of saturated probabilities are of few digits
        X, step = self.X[some], NEAR * float(np.finfo(np.float32 if self.rounding.single else float).eps)
        size = step * np.linalg.norm(X, axis=1, keepdims=True) / np.sqrt(X.shape[1])
        near = np.clip(X + size * self.ask.rng.standard_normal(X.shape), *self.ask.bounds)
        change = np.linalg.norm(self._rows(self.rounding.seen(near), some) - self.explained[some], axis=1)
        return float(np.mean(change > SCATTERED * step * sizes[some]))

    def _falls_unseen(self, view: _View) -> bool:
        """Whether explanations that were never negative are not where values fall."""
        X = self.rounding.seen(self.ask.points(POOL, 1.0))
        values = as_rows(self.ask.value(X))
        axes = np.eye(X.shape[1])[self.ask.rng.integers(0, X.shape[1], (POOL, 1))]
        found = slopes(self.ask.value, X, values, axes, self.rounding, self.ask.longest)
        rises, off = found.of(self._weights(view, values, np.arange(POOL) % POINTS))
        falling = np.flatnonzero((rises < -off)[:, 0])[:NEIGHBOURS]
        if not len(falling):
            return False
        rows = self._rows(X[falling], falling % POINTS)
        return bool((fits.along(axes[falling], rows) > 0).all())

    def _weights(self, view: _View, values: Array, some: Array) -> Array:
        """Of fresh points with such values, explained like `some` that were looked at."""
        if view.of == "top output":
            return np.asarray(np.eye(values.shape[1])[values.argmax(1)])
        return np.asarray(view.weights[some])

    def _rows(self, X: Array, some: Array) -> Array:
        """Explanations (n, d) at further points, of the same outputs as those of `some` points."""
        rows = self.ask.gradient(X)
        if rows.ndim == 2:
            return rows
        return np.asarray(rows[np.arange(len(X)), 0 if self.columns is None else self.columns[some]])

    # Stage 3: parts that add up to the value

    def _complete(self, view: _View) -> Iterator[_Match]:
        if self.columns is not None:
            values, sums = self.values, self.all.sum(2)
            rest, free = (sums - values) - (sums - values).mean(0), len(sums) - 1
        else:
            values, sums = np.einsum("po,po->p", self.values, view.weights), self.explained.sum(1)
            rest, free = fits.within_groups(sums - values, view.groups), len(sums) - len(np.unique(view.groups))
        if free < len(sums) // 3:
            return
        left = np.sqrt((rest**2).sum(0) / free) / np.maximum(values.std(0), 1e-300)
        if np.median(left) <= COMPLETE:
            yield _Match("integrated gradients", 1 - float(np.median(left)))

    def _attributed(self, said: Explanation, view: _View) -> Explanation:
        """Integrated gradients from a baseline, or another way to split the value."""
        low, high = self.ask.bounds
        reach = attributions.LARGEST * self.ask.scale

        def explain(X: Array) -> Array:
            return self.ask.gradient(self.rounding.seen(X)).reshape(len(X), -1, self.ask.dimension)

        weights, base = self._base(view)
        places = attributions.constant_places(
            lambda X: as_rows(self.ask.value(X)) @ weights, base, self.ask.dimension, max(low, -reach), min(high, reach)
        )
        zero = np.zeros((1 if low <= 0 <= high else 0, self.ask.dimension))
        begin = attributions.start(
            explain, self.X, self.all, np.concatenate([zero, places]), low, high, self.ask.scale, self.ask.rng
        )
        shap = replace(said, kind="SHAP-like", baseline=float(base[0]) if len(np.unique(view.groups)) == 1 else None)
        if begin.left > NEARLY:
            return shap
        error, allowed = attributions.path_error(
            self.ask.value, view.weights, self.X, self.explained, begin.place, self.rounding, self.ask.longest
        )
        if error > allowed + UNEVEN * (1 - said.agreement) + begin.left:
            return shap
        return replace(said, baseline=begin.place if begin.exact else None, agreement=1 - error)

    def _base(self, view: _View) -> tuple[Array, Array]:
        """Weights (outputs, k) of functions that were explained at several points, and the values (k,) these begin with."""
        if self.columns is not None:
            return np.eye(self.values.shape[1]), np.asarray((self.values - self.all.sum(2)).mean(0))
        same = view.groups == np.bincount(view.groups).argmax()
        values = np.einsum("po,po->p", self.values, view.weights)
        return view.weights[same][:1].T, np.array([np.mean((values - self.explained.sum(1))[same])])

    # Stage 4: like a gradient, but not one

    def _smoothed(self, view: _View) -> Iterator[_Match]:
        if not self._told(view):
            return
        rises, _ = self.slopes.of(view.weights)
        predicted = fits.along(self.slopes.directions, self.explained)
        along, expected = rises[:, -MASKED:], predicted[:, -MASKED:]
        norms = fits.norms(self.explained)
        norm: Normalised = "range" if "range" in norms else norms[0] if norms else ""
        rising = float((along > 0).sum() / max((along != 0).sum(), 1))
        signed = self.explained.min() < 0
        sizes, parts = (along, expected) if signed else (np.abs(rises[:, :-MASKED]), predicted[:, :-MASKED])
        if norm:
            sizes, parts = (
                rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300) for rows in (sizes, parts)
            )
        likeness = fits.cosine(sizes, parts)
        if likeness < (CORRELATED if norm else ALIKE) or not (norm or fits.about_one(sizes, parts)):
            return
        if signed and rising >= RISING:
            yield _Match("smoothed gradient", likeness, normalised=norm)
        if not signed and rises.min() < 0 and likeness >= CORRELATED and fits.power(sizes, parts) <= POWER:
            yield _Match("smoothed gradient", likeness, True, norm)
