"""Learners of the user's own: how what points do to them is measured, and those that are only asked."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from divulge.attacks.poisoning.learners import refused
from divulge.attacks.poisoning.outcome import CERTAIN, FLIPPED, Measured, half_width, paired_p_value
from divulge.contract import Array, Figure, OwnLearner, Pipeline, Poison, Score
from divulge.errors import AttackFailed


@dataclass(frozen=True, eq=False)
class Transferred(Measured):
    """What points made against one learner do to another that is trained with them and asked."""

    title: str
    wrong: tuple[Array, Array, Array]
    "(points,): trained on clean points, with wrong labels alone, and with the points made."

    @property
    def raised(self) -> bool:
        clean, plain, poisoned = self.wrong
        return max(paired_p_value(poisoned, clean), paired_p_value(poisoned, plain)) < CERTAIN

    def sentence(self) -> str:
        clean, plain, poisoned = (self.outcome.learner.shown(float(each.mean())) for each in self.wrong)
        count, measure = int(self.outcome.counts[-1]), self.outcome.learner.measure
        return (
            f"{count} points ({self.outcome.fractions(count)}) made against {self.outcome.learner.name} regression raise "
            f"the {self.where} {measure} of the {self.title} from {clean} to {poisoned} when it is trained with them "
            f"({plain} with wrong labels only), a lower bound on the worst case: points made for it itself may do more."
        )

    def scores(self) -> dict[str, Score]:
        _, plain, poisoned = (float(each.mean()) for each in self.wrong)
        most = 1.0 if self.outcome.learner.classes is not None else None
        off = half_width(self.wrong[2], self.wrong[1])
        ends = max(poisoned - off, 0.0), poisoned + off if most is None else min(poisoned + off, most)
        rest = {f"{name}, {self._of}": score for name, score in super().scores().items()}
        own = Score(poisoned, plain, FLIPPED, interval=ends if off else None, most=most)
        return {f"{self.where} {self.outcome.learner.measure}": own} | rest

    def notes(self) -> list[str]:
        return [f"{self._of.capitalize()}: {note[:1].lower()}{note[1:]}" for note in super().notes()]

    def figures(self, loot: Poison, low: Array, high: Array) -> tuple[Figure, ...]:
        first, *rest = super().figures(loot, low, high)
        return replace(first, title=f"{first.title}, {self._of}"), *rest

    @property
    def _of(self) -> str:
        return f"of the {self.outcome.learner.name} regression that points were made against"


def transferred(found: Measured, held: Pipeline, loot: Poison, X: Array, y: Array) -> Measured:
    """What was measured; by training the user's own where it is not read, on points X with labels y."""
    own = held.own
    if own is None or not own.opaque or loot.start is None:
        return found
    clean = np.asarray(held.X, float)
    with_start, with_loot = (np.concatenate([clean, points]) for points in (loot.start, loot.X))
    labels = np.concatenate([held.y, loot.y])
    training = (clean, held.y), (with_start, labels), (with_loot, labels)
    try:
        said = [own.predictions(*points, X) for points in training]
    except Exception as error:  # an estimator may be anybody's code
        raise AttackFailed(refused(own, error)) from error
    if found.outcome.learner.classes is None:
        wrong = [(each - y) ** 2 / max(float(np.var(y)), np.finfo(float).tiny) for each in said]
    else:
        wrong = [np.asarray(each != y) for each in said]
    return Transferred(**vars(found), title=own.title, wrong=(wrong[0], wrong[1], wrong[2]))


def told_of(own: OwnLearner) -> list[str]:
    """How its errors were found, and in what it is other than what points climbed against."""
    if own.opaque:
        return [
            f"A {own.title} gives no gradients that lead through its training: points climbed against {own.learner} "
            "regression on features of equal variance, and what they do to it was measured by training it with them."
        ]
    notes = [f"Every error is that of the {own.title} trained again, as scikit-learn does it."]
    if own.entering is not None and not own.rescaled:
        notes.append("Its steps stayed as they are on clean data while points climbed, and were fitted anew to be measured.")
    if own.apart:
        notes.append(f"Points climbed against a learner that differs from the {own.title}: {'; '.join(own.apart)}.")
    return notes
