"""One level of a campaign: points are added, climb by themselves, and then all that were contributed climb together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from divulge.attacks.poisoning.learners import PipelineLearner
from divulge.attacks.poisoning.records import Campaign, PipelineSplit, Terms
from divulge.contract import Array
from divulge.solvers.bilevel.ascent import Ascent, Project, Starts, Trainer, ascend
from divulge.solvers.bilevel.inner import Trained

DESCENT = 0.5
"Largest first change of a penalty against moving points, as a logarithm: in 100 moves it can cross its bounds twice."
SHARE = 0.25
"Of the moves, for new points; and of the step, for all together. In trials with 2 or 3 and T-shirt or \
shirt, larger steps of all points (0.7 and 1) ended below batches that stay in 7 of 8 at λ = −5; two starts at later levels \
added up to 3.5 % to the loss and took longer."
TOGETHER = 0.5
"Of the moves, for all together. In trials with four pairs of classes, 85 points: against a quarter, −0.1 to +1.6 points of \
test error for a seventh more time; twice as many at twice the step add 0.3 on average and a third to the time."


@dataclass(frozen=True, eq=False)
class Opposed:
    """Points that raise the loss on all clean points, and penalties that lower it on those of validation."""

    points: Trainer
    penalties: Trainer

    def __call__(self, points: Array, targets: Array, strengths: Array, *, penalties: bool = True) -> Trained:
        aimed = self.points(points, targets, strengths, penalties=False)
        if not penalties:
            return aimed
        return replace(aimed, strength_gradients=self.penalties(points, targets, strengths).strength_gradients)

    @property
    def rate(self) -> float:
        return min(float(getattr(train, "rate", 0.0)) for train in (self.points, self.penalties))


@dataclass(frozen=True, eq=False)
class Climb:
    """The search for one level's points."""

    campaign: Campaign
    learner: PipelineLearner
    terms: Terms
    project: Project
    rng: np.random.Generator
    trainers: list[Trainer] = field(default_factory=list)
    "Those that were made: a learning rate that was halved stays with its trainer."

    def strongest(self, size: int, strengths: Array) -> tuple[Ascent, float]:
        """All points with `size` more, the strongest found; and the loss at the saddle, or the same where λ is fixed.

        Where all points climb together afterwards, new ones have a share of the moves; and one start after the first level.
        """
        joint, later = self.terms.joint, self.terms.joint and bool(self.campaign.levels)
        moves = self._share(SHARE) if joint else self.terms.iterations
        starts = 1 if later else self.terms.starts
        if self.campaign.setting != "learned":
            best = self._together(self._new(size, strengths, starts, moves))
            best = self._all(best) if joint else best
            return best, best.value
        saddle = self._new(size, strengths, starts, moves, descent=DESCENT)
        if later:
            saddle = self._all(self._together(saddle), descent=SHARE * DESCENT)
            return self._all(saddle), saddle.value
        best = self._together(self._new(size, saddle.strengths, max(starts - 1, 1), moves, also=saddle))
        return (self._all(best) if joint else best), saddle.value

    @property
    def rate(self) -> float:
        """The least learning rate that was needed; 0 where training has none."""
        return min(float(getattr(train, "rate", 0.0)) for train in self.trainers)

    def _new(
        self, size: int, strengths: Array, starts: int, moves: int, *, descent: float = 0.0, also: Ascent | None = None
    ) -> Ascent:
        """New points alone, beside those of earlier levels as they are."""
        return ascend(
            self._beside, lambda count: self._draw(size, count), strengths, self.project, starts=starts, iterations=moves,
            step=self.terms.length, descent=descent, bounds=self.terms.bounds, also=None if also is None else _begun(also),
        )  # fmt: skip

    def _all(self, ascent: Ascent, *, descent: float = 0.0) -> Ascent:
        """All points together, by smaller steps from where they are."""
        begun = _begun(ascent)
        found = ascend(
            self._alone, lambda count: begun, ascent.strengths, self.project, starts=0, iterations=self._share(TOGETHER),
            step=SHARE * self.terms.length, descent=descent, bounds=self.terms.bounds, also=begun,
        )  # fmt: skip
        return replace(found, restarts=ascent.restarts)

    def _together(self, new: Ascent) -> Ascent:
        """New points behind those of earlier levels."""
        before = self.campaign
        return replace(
            new,
            points=np.concatenate([before.points, new.points]),
            targets=np.concatenate([self.learner.targets(before.labels), new.targets], axis=1),
            rows=np.concatenate([before.rows, new.rows]),
        )

    def _draw(self, size: int, count: int) -> Starts:
        """Validation points with labels that they do not have."""
        split, learner = self.campaign.split, self.learner
        rows = np.stack([self.rng.choice(len(split.X_val), size, replace=False) for _ in range(count)])
        targets = np.stack([learner.targets(self._flipped(each)) for each in rows])
        return Starts(split.X_val[rows].astype(float), targets, rows)

    def _flipped(self, rows: Array) -> Array:
        """Labels that the points do not have; of a regression, the end of the targets' range that is further away."""
        split, classes = self.campaign.split, self.learner.classes
        y = split.y_val[rows]
        if classes is None:
            low, high = split.y.min(), split.y.max()
            return np.asarray(np.where(y - low > high - y, low, high))
        index = np.searchsorted(classes, y)
        return np.asarray(classes[(index + self.rng.integers(1, len(classes), len(y))) % len(classes)])

    def _share(self, share: float) -> int:
        return max(1, round(share * self.terms.iterations))

    @cached_property
    def _beside(self) -> Trainer:
        """Trains on the clean points and those of earlier levels."""
        return self._judging(self.campaign.split.joined(self.campaign.points, self.campaign.labels))

    @cached_property
    def _alone(self) -> Trainer:
        """Trains on the clean points: all contributed ones move."""
        return self._judging(self.campaign.split)

    def _judging(self, split: PipelineSplit) -> Trainer:
        """Trains on a split, and judges by the points that are aimed at."""
        if self.terms.aim == "validation":
            return self._kept(split.trainer(self.learner))
        clean = self.campaign.split
        X, y = np.concatenate([clean.X_val, clean.X]), np.concatenate([clean.y_val, clean.y])
        aimed = self._kept(replace(split, X_val=X, y_val=y).trainer(self.learner))
        return Opposed(aimed, self._kept(split.trainer(self.learner))) if self.campaign.setting == "learned" else aimed

    def _kept(self, train: Trainer) -> Trainer:
        self.trainers.append(train)
        return train


def _begun(ascent: Ascent) -> Starts:
    return Starts(ascent.points[None], ascent.targets[None], ascent.rows[None])
