"""In which directions training moved a network's first layer, from values alone, at any depth."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from divulge.attacks.directions import growth, scoring
from divulge.attacks.directions.growth import Shown
from divulge.attacks.directions.reading import Service
from divulge.attacks.directions.scoring import REMEDY, SeenDirections
from divulge.contract import (
    Array,
    Attack,
    Context,
    Directions,
    Finding,
    Gradients,
    Predictions,
    Truth,
    option_class,
    taxonomies,
)
from divulge.errors import BudgetSpent, NotApplicable, sentence
from divulge.solvers.directions import answers, finite_differences
from divulge.solvers.directions.answers import Reading, Unreadable
from divulge.solvers.directions.finite_differences import LONG, SHORT, Slopes
from divulge.solvers.images.layouts import Layout
from divulge.solvers.shared import affine

FINEST = 1e-13  # of the largest singular value: below are rounding errors of double precision
EXACT = 1e-12  # of the spread of scores: over the shortest step, such rounding leaves a slope seven digits
CANDIDATES = 4  # points of which the one furthest from kinks is taken, where steps are long; 8 cost what they bring
ATTEMPTS = 5  # at a point that has no kink within a step; of 20 one has
IDLE = 2  # points that add hardly a direction after which to stop, where answers are rounded: they make weak ones clearer
FEWEST = 5  # rows that have to add hardly a direction, where a point has fewer
SPARE = 0.05  # of the directions that so many rows could add, where errors make up one now and then
HALF = 0.5  # of them, where answers are exact: as long as there are new directions, every row adds one
COARSE = 0.5  # of the spread of scores, from which what slopes predict says nothing
LINEAR = 6.0  # deviations within which one point's slopes predict values at all others


@option_class
class ValueDirections(Attack[Predictions, Directions]):
    """Win rows [g, f(x) − g·(x − mean)] at points made to order, by differences of values, until no direction is new.

    Every slope of a network is a combination of the rows of its first layer. A point of d inputs takes d + 2 values in
    double precision and 2 d and some in single precision, where inputs that do nothing are asked for at the first point
    only. Rows of rank r take r d / K values of K outputs in any way, and 5 points of 10 outputs are as many for 50 images.
    """

    name: ClassVar[str] = "value-directions"
    asks: ClassVar[int] = 5000
    paper: ClassVar[str] = "beyond Haim et al. 2022, arXiv:2206.07758, and Milli et al. 2018, arXiv:1807.05185"
    taxonomy = taxonomies.INVERSION
    remedy: ClassVar[tuple[str, ...]] = (
        "Limit queries to well below the number of inputs times that of training points over that of outputs.",
        "Answer labels only, or round to three decimals; then audit again.",
        *REMEDY,
    )

    points: PositiveInt = 100
    "At how many points to ask, at most; fewer where new ones show no new direction."
    box: tuple[float, float] = (0.0, 1.0)
    "The least and the largest value of an input: points are made between."
    shape: tuple[PositiveInt, ...] | None = None
    "Of one input where the model does not say it: height, width, and 3 for colours."

    def run(self, held: Predictions, context: Context) -> Finding[Directions]:
        if isinstance(held, Gradients) and _explains(held, context):
            raise NotApplicable(
                "the service explains its values, and a handful of explanations shows what thousands of values would: "
                "the attack `answer-directions` is for that"
            )
        shape = held.shape or self.shape
        options = growth.layouts_of(held.dimension, shape)
        search = _Search(held, context, options, shape is not None, self.box)
        try:
            search.look()
            while search.goes_on(self.points):
                search.add()
                context.progress(len(search.found), self.points)
                context.log(f"Points so far: {len(search.found)}, directions: {search.seen().seen.rank}.")
        except Unreadable as reason:
            raise NotApplicable(str(reason)) from None
        except BudgetSpent as spent:
            if not search.found:
                raise
            return self._finding(search, held, sentence(spent))
        return self._finding(search, held)

    def score(self, finding: Finding[Directions], held: Predictions, truth: Truth) -> Finding[Directions]:
        return scoring.scored(finding, truth)

    def _finding(self, search: _Search, held: Predictions, spent: str = "") -> Finding[Directions]:
        seen, points = search.seen(), len(search.found)
        rank, precision = seen.seen.rank, search.precision
        figures = (scoring.spectrum(seen.seen.sizes, rank),)
        notes = [*search.notes(seen), *([] if seen.layout is None else seen.layout.notes)]
        if spent:
            notes += [spent, f"Another point would take about {search.price:,} values; the last added {search.grew()}."]
        if rank < 2:
            return Finding.none_found(
                "No two directions stand out of what values say of the first layer.",
                power=f"Directions above {precision:.0e} of the largest would have been seen, in smooth pictures.",
                figures=figures,
                notes=tuple(notes),
                partial=bool(spent),
            )
        loot = Directions(search.rows(), mean=held.mean, shape=seen.shape, precision=precision, answers=search.asked)
        end = " so far" if spent else ""
        return Finding.means(
            loot,
            f"Values around {points} point{'s' * (points > 1)} show {rank} directions{end} in which training moved the "
            f"first layer; errors are at {precision:.0e} of the largest.",
            evidence=SeenDirections(rank, points),
            figures=figures,
            notes=tuple(notes),
            partial=bool(spent),
        )


def _explains(held: Gradients, context: Context) -> bool:
    """Whether explanations can be read as gradients, by one of them."""
    made = growth.made_points(held.dimension, growth.layouts_of(held.dimension, held.shape), (0.0, 1.0))
    try:
        Service(held, partial(made.draw, context.rng), context.rng, probing=False).rows(1)
    except NotApplicable:
        return False
    return True


@dataclass
class _Search:
    """Slopes at one point after another."""

    held: Predictions
    context: Context
    options: list[Layout]
    pictures: bool
    "Whether somebody says that inputs are."
    box: tuple[float, float]
    found: list[Slopes] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)
    quiet: Array = field(default_factory=lambda: np.zeros(0, dtype=int))
    "Inputs that do nothing at the first point, where values are rounded."

    def __post_init__(self) -> None:
        self.before = self.context.budget.points

    @property
    def asked(self) -> int:
        """Values, in this run and where it goes on from."""
        return self.context.budget.points - self.before

    def look(self) -> None:
        """How answers are to be read."""
        self.made = growth.made_points(self.held.dimension, self.options, self.box)
        places = self.made.draw(self.context.rng, answers.LINES)
        self.reading: Reading = answers.read(self._ask, places, self.made.width, self.context.rng)
        self.exact = self.reading.relative < EXACT
        self.step = self.made.width * (SHORT if self.exact else LONG)

    def goes_on(self, most: int) -> bool:
        """Whether another point may show more."""
        if len(self.found) >= most:
            return False
        idle = max(1 if self.exact else IDLE, -(-FEWEST // self._outputs))
        full = idle * self._outputs * (HALF if self.exact else SPARE)
        return len(self.ranks) <= idle or self.ranks[-1] - self.ranks[-1 - idle] > full

    def add(self) -> None:
        """Slopes at one more point."""
        number = len(self.found) + 1
        self.found.append(Slopes(**self.context.once(f"point {number}", lambda rng: vars(self._slopes(rng)))))
        if number == 1:
            self._refuse_linear()
            if not self.exact:
                self.quiet = np.flatnonzero(self.found[0].quiet)
        else:
            self.quiet = self.quiet[~self.found[-1].slopes[:, self.quiet].any(axis=0)]
        self.ranks.append(self.seen().seen.rank)

    def seen(self) -> Shown:
        return growth.shown(self.rows(), self.precision, self.options, self.pictures)

    @property
    def precision(self) -> float:
        """Deviation of one slope, relative to the largest singular value of all."""
        errors = np.concatenate([one.errors for one in self.found])
        largest = max(float(np.linalg.norm(self.rows(), 2)), np.finfo(float).tiny)
        return float(np.clip(np.sqrt(np.mean(errors**2)) / largest, FINEST, 0.99))

    def rows(self) -> Array:
        return np.concatenate([one.without(self.quiet).rows(self.held.mean) for one in self.found])

    def grew(self) -> int:
        return self.ranks[-1] - (self.ranks[-2] if len(self.ranks) > 1 else 0)

    @property
    def price(self) -> int:
        """Values for another point."""
        asked = self.held.dimension - len(self.quiet)
        return (1 if self.exact else 2) * asked + 5 * self._candidates

    def notes(self, seen: Shown) -> tuple[str, ...]:
        kinks, kind = sum(one.bent for one in self.found), self.reading.link
        read = "as they are" if kind is affine.IDENTITY else "as logits"
        found = [f"Answers were read {read}; rounding is at {self.reading.relative:.0e} of their spread."]
        if kinks:
            found.append(f"{kinks} steps crossed kinks, and were taken on the side that is straight.")
        if len(self.quiet):
            found.append(f"{len(self.quiet)} inputs do nothing at the first point; at others they were asked for together.")
        if seen.layout is None:
            found.append("The inputs are no pictures: directions of the start count as much as what training moved.")
        return tuple(found)

    @property
    def _candidates(self) -> int:
        return 1 if self.exact else CANDIDATES

    @property
    def _outputs(self) -> int:
        return len(self.reading.noise)

    def _ask(self, X: Array) -> Array:
        return np.asarray(self.held.value(X), dtype=float).reshape(len(X), -1)

    def _slopes(self, rng: np.random.Generator) -> Slopes:
        scores = self.reading.scores
        for _ in range(ATTEMPTS):
            try:
                x = self.made.far_from_kinks(rng, self._candidates, self.step, scores, self.reading.noise)
            except LookupError:
                raise Unreadable("all probabilities asked for are 0 or 1 in their precision") from None
            if self.exact:
                found = finite_differences.one_sided(scores, x, self.step, self.reading.noise, rng)
            else:
                found = self._central(x, rng)
            if found is not None:
                return found
        raise NotApplicable(
            f"around {ATTEMPTS} points in a row values lie on no plane: the model is curved, or noisier than its numbers "
            "are rounded, and no network of ReLU units whose slopes could be read"
        )

    def _central(self, x: Array, rng: np.random.Generator) -> Slopes | None:
        asked = rng.permutation(np.setdiff1d(np.arange(len(x)), self.quiet))
        found = finite_differences.central(self.reading.scores, x, self.step, asked, self.reading.noise)
        if found is None:
            return None
        heard = finite_differences.loud(self.reading.scores, found, self.step, self.quiet, rng)
        if not len(heard):
            return found
        others = finite_differences.central(self.reading.scores, x, self.step, heard, self.reading.noise)
        return None if others is None else found.joined(others)

    def _refuse_linear(self) -> None:
        """One point's slopes say what values are elsewhere, if the model is linear."""
        if not self.found[0].slopes.any():
            raise NotApplicable("the model answers the same all around a point, as trees do: no step shows a direction")
        values, off = self.found[0].predict(self.reading.X)
        if LINEAR * np.median(off + self.reading.noise) > COARSE * self.reading.spread:
            raise NotApplicable(
                f"slopes say other values to {np.median(off) / self.reading.spread:.0%} of their spread only: the answers "
                "are too coarse for differences to show directions"
            )
        if (np.abs(values - self.reading.seen) <= LINEAR * (off + self.reading.noise)).all():
            raise NotApplicable(
                "the model is linear: its slopes at one point say what it answers at all others, and show no direction but "
                "its own; the attack `linear-extraction` is for that"
            )
