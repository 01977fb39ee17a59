"""What a campaign did to the models: errors, penalties and weights by setting, as scores, figures and sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from divulge.attacks.poisoning.learners import PipelineLearner
from divulge.attacks.poisoning.records import PipelineModels, Setting
from divulge.contract import Array, Curve, Evidence, Figure, Histogram, ImagePairs, Poison, Score

CONFIDENCE = 0.95
"Of intervals over splits."
CERTAIN = 0.01
"p-value below which one model has more errors than another: of harmless points, one audit in a hundred claims a leak."
PAIRS = 24
"Pictures shown, of any number: what a page holds."
NAMES: dict[Setting, str] = {
    "weak": "weakest penalty",
    "fixed": "fixed penalty",
    "cross-validated": "penalty tuned on clean data",
    "learned": "penalty re-tuned",
    "strong": "strongest penalty",
}
FLIPPED = "as many validation points with wrong labels"


@dataclass(frozen=True, eq=False)
class PoisonedSetting(Evidence):
    """Models of one way to set the penalty, of every split and level: (splits, levels, ...); level 0 is clean."""

    poisoned: PipelineModels
    mislabelled: PipelineModels
    "With the contributed points as they began: wrong labels alone."


@dataclass(frozen=True, eq=False)
class LevelPenalties(Evidence):
    """The penalties that one way to set them ends at with so many contributed points."""

    setting: Setting
    points: int
    strengths: Array
    "(splits, penalties): logarithms λ."


@dataclass(frozen=True, eq=False)
class PoisonedPipelines(Evidence):
    """What the attack left behind besides its points."""

    counts: Array
    "(levels,): contributed points, from 0."
    settings: Mapping[Setting, PoisonedSetting]
    penalties: tuple[LevelPenalties, ...]
    "Of every setting and level, from the clean one."
    overlap: int
    "Validation points that are training points too."
    ended: str
    "Why the attack ended before its last batch; empty where it did not."
    rate: float
    "The least learning rate that a training ended with."
    restarts: int
    "Starts that were stuck and began anew."
    over_saddle: float | None
    "Relative rise of the loss that is aimed at once the re-tuned penalty stays; None where none was re-tuned."
    rise: float = 0.0
    "How much more is wrong on validation points than with wrong labels alone, as far as it is claimed."


@dataclass(frozen=True, eq=False)
class Outcome:
    """Models of every setting, (splits, levels, outputs, features)."""

    learner: PipelineLearner
    seen: PoisonedPipelines
    clean: int
    "Training points."
    own: Setting
    "The setting that is the pipeline's."

    @property
    def counts(self) -> Array:
        return self.seen.counts

    @property
    def settings(self) -> list[Setting]:
        return [name for name in NAMES if name in self.seen.settings]

    def strengths(self, setting: Setting) -> Array:
        """(splits, levels, penalties)"""
        return np.stack([each.strengths for each in self.seen.penalties if each.setting == setting], axis=1)

    def weights(self, setting: Setting) -> Array:
        return self.seen.settings[setting].poisoned.W

    def fractions(self, count: int) -> str:
        """Of the training set, and of the mix."""
        return f"{100 * count / self.clean:.1f} % of the training set, {100 * count / (self.clean + count):.1f} % of the mix"


@dataclass(frozen=True, eq=False)
class Measured:
    """Errors on one set of points: (splits, levels) by setting, and what the same points unoptimised would do."""

    outcome: Outcome
    where: str
    "`validation` or `test`"
    errors: Mapping[Setting, Array]
    nulls: Mapping[Setting, Array]
    p_value: float
    "Of so many more errors, with the pipeline's own setting, than of the clean model and than with wrong labels alone."
    off: Mapping[Setting, float]
    "How far either way the difference from wrong labels may be off, by its spread over the points of one split."

    @property
    def raised(self) -> bool:
        """Whether the points do something, and more than wrong labels alone, beyond chance."""
        return self.p_value < CERTAIN

    def mean(self, setting: Setting, level: int = -1) -> float:
        return float(self.errors[setting][:, level].mean())

    def sentence(self) -> str:
        """How far errors rise, where the penalty stays and where it answers."""
        count, shown = int(self.outcome.counts[-1]), self.outcome.learner.shown
        measure = f"{self.where} {self.outcome.learner.measure}"
        unanswered: tuple[Setting, ...] = ("fixed", "cross-validated", "weak", "strong")
        still = next((name for name in unanswered if name in self.errors), None)
        parts = []
        if still is not None:
            parts.append(
                f"{count} points ({self.outcome.fractions(count)}) raise {measure} from {shown(self.mean(still, 0))} to "
                f"{shown(self.mean(still))} with the {NAMES[still]}"
            )
        if "learned" in self.errors:
            reach = f"from {shown(self.mean('learned', 0))} to {shown(self.mean('learned'))}"
            parts.append(
                f"with the penalty re-tuned the best attack found takes it {reach}"
                if parts
                else f"{count} points ({self.outcome.fractions(count)}) raise {measure} {reach} with the penalty re-tuned"
            )
        return "; ".join([*parts, "a lower bound on the worst case"]) + "."

    def scores(self) -> dict[str, Score]:
        outcome, measure = self.outcome, f"{self.where} {self.outcome.learner.measure}"
        most = 1.0 if outcome.learner.classes is not None else None  # no more than all points are wrong

        def error(name: Setting) -> Score:
            plain = float(self.nulls[name][:, -1].mean())
            return _mean(self.errors[name][:, -1], plain, FLIPPED, most, self.off[name])

        scores = {measure: error(outcome.own)}
        if len(self.errors) > 1:
            scores |= {f"{measure}, {NAMES[name]}": error(name) for name in self.errors}
        if {"learned", "cross-validated"} <= self.errors.keys():
            ratios = self.errors["learned"][:, -1].mean() / max(self.mean("cross-validated"), 1e-12)
            scores[f"{measure} re-tuned, in that of the penalty tuned on clean data"] = Score(
                float(ratios), 1.0, "re-tuning that changes nothing", speaks=False
            )
        if "learned" in self.errors:
            found = outcome.strengths("learned").mean(axis=2)
            scores["growth of the penalty's logarithm"] = _mean(
                found[:, -1] - found[:, 0], 0.0, "a penalty that does not answer", speaks=False
            )
            spreads = [_spread(outcome, "learned"), _spread(outcome, "weak") if "weak" in self.errors else np.ones(1)]
            scores["spread of the weights, poisoned in clean, re-tuned"] = _mean(
                spreads[0], float(spreads[1].mean()),
                "the weakest penalty" if "weak" in self.errors else "weights that stay", better="lower", speaks=False,
            )  # fmt: skip
        return scores

    def notes(self) -> list[str]:
        """Every setting's errors by level."""
        notes = []
        for name in self.errors:
            shown = ", ".join(self.outcome.learner.shown(float(value)) for value in self.errors[name].mean(axis=0))
            penalty = ", ".join(f"{value:.1f}" for value in self.outcome.strengths(name).mean(axis=(0, 2)))
            plain = self.outcome.learner.shown(float(self.nulls[name][:, -1].mean()))
            notes.append(
                f"{NAMES[name].capitalize()}: {self.where} {self.outcome.learner.measure} {shown} with "
                f"{', '.join(str(int(count)) for count in self.outcome.counts)} points; {FLIPPED} reach {plain}. "
                f"Logarithm of the penalty: {penalty}."
            )
        return notes

    def figures(self, loot: Poison, low: Array, high: Array) -> tuple[Figure, ...]:
        return (self._errors(), *_penalties(self.outcome), *_histograms(self.outcome), *_pictures(loot, low, high))

    def _errors(self) -> Curve:
        percent = 100 * self.outcome.counts / self.outcome.clean
        scale = 100.0 if self.outcome.learner.classes is not None else 1.0
        series = {NAMES[name]: (percent, scale * errors.mean(axis=0)) for name, errors in self.errors.items()}
        plain = self.nulls[self.outcome.own]
        series["wrong labels only"] = (percent, scale * plain.mean(axis=0))
        bands = {}
        if len(plain) > 1:
            for name, errors in self.errors.items():
                middle, off = scale * errors.mean(axis=0), scale * errors.std(axis=0, ddof=1)
                bands[NAMES[name]] = (percent, np.maximum(middle - off, 0), middle + off)
        unit = "%" if self.outcome.learner.classes is not None else "variances of the target"
        return Curve(
            f"What contributed points do to the {self.where} {self.outcome.learner.measure}",
            "contributed points, % of the training set",
            f"{self.where} {self.outcome.learner.measure}, {unit}",
            series,
            bands=bands,
        )


def measured(outcome: Outcome, where: str, points: Callable[[Setting], Sequence[tuple[Array, Array]]]) -> Measured:
    """Errors on points and their labels, which `points` gives for a setting, one pair a split."""
    errors: dict[Setting, Array] = {}
    nulls: dict[Setting, Array] = {}
    off: dict[Setting, float] = {}
    p_value = 1.0
    for name in outcome.settings:
        models, splits = outcome.seen.settings[name], points(name)
        wrong, plain = (
            [outcome.learner.wrong(W, b, X, y) for W, b, (X, y) in zip(each.W, each.b, splits, strict=True)]
            for each in (models.poisoned, models.mislabelled)
        )
        errors[name] = np.stack([each.mean(axis=1) for each in wrong])
        nulls[name] = np.stack([each.mean(axis=1) for each in plain])
        off[name] = half_width(wrong[0][-1], plain[0][-1]) if len(wrong) == 1 else 0.0
        if name == outcome.own:
            which = _numbered([X for X, _ in splits])
            poisoned, clean, wrongly = (
                np.concatenate([each[level] for each in some]) for some, level in ((wrong, -1), (wrong, 0), (plain, -1))
            )
            p_value = max(paired_p_value(poisoned, other, which) for other in (clean, wrongly))
    return Measured(outcome, where, errors, nulls, p_value, off)


def _numbered(splits: Sequence[Array]) -> Array | None:
    """A number for each point of all splits, the same for the same point; None where there is one split."""
    return None if len(splits) == 1 else np.unique(np.concatenate(splits), axis=0, return_inverse=True)[1].ravel()


def paired_p_value(ours: Array, others: Array, which: Array | None = None) -> float:
    """Of so many more errors than another model's on the same points, (points,), if neither were better.

    Of errors that are there or not, by the sign test: of the points that one model alone has wrong, the share that is ours
    against ½. Of squared errors, by the paired t-test. Points that were asked of several models, `which` says, count once.
    """
    more = np.asarray(ours, float) - np.asarray(others, float)
    if which is not None:
        more = np.bincount(which, weights=more) / np.bincount(which)
    if ours.dtype == bool:
        only, other = int((more > 0).sum()), int((more < 0).sum())
        return float(stats.binomtest(only, only + other, alternative="greater").pvalue) if only + other else 1.0
    if np.ptp(more) == 0:
        return 1.0
    return float(stats.ttest_1samp(more, 0.0, alternative="greater").pvalue)


def leaves_open(test: Score, rise: float) -> bool:
    """Whether test points that do not show a rise are too few to deny it: errors are more, and by as much as they may be."""
    high = test.value if test.interval is None else test.interval[1]
    return test.value > test.null and high - test.null >= rise


def half_width(ours: Array, others: Array) -> float:
    """How far the mean difference of two models' errors may be off, by its spread over the points (points,)."""
    more = np.asarray(ours, float) - np.asarray(others, float)
    return float(stats.norm.ppf(0.5 + CONFIDENCE / 2) * np.std(more, ddof=1) / len(more) ** 0.5) if len(more) > 1 else np.inf


def _mean(
    values: Array, null: float, null_of: str, most: float | None = None, off: float | None = None, **rest: Any
) -> Score:
    """Over splits, with the interval of their mean; of one split, `off` either way."""
    mean, half = float(np.mean(values)), off
    if len(values) > 1 and float(np.std(values)) > 0:
        half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1) * np.std(values, ddof=1) / len(values) ** 0.5)
    if not half:
        return Score(mean, null, null_of, most=most, **rest)
    low = max(mean - half, 0.0) if (values >= 0).all() else mean - half
    high = mean + half if most is None else min(mean + half, most)
    return Score(mean, null, null_of, interval=(low, high), most=most, **rest)


def _spread(outcome: Outcome, setting: Setting) -> Array:
    """(splits,): standard deviation of the weights after the attack, in that before."""
    W = outcome.weights(setting)
    flat = W.reshape(*W.shape[:2], -1).std(axis=2)
    return np.asarray(flat[:, -1] / np.maximum(flat[:, 0], np.finfo(float).tiny))


def _penalties(outcome: Outcome) -> tuple[Curve, ...]:
    if "learned" not in outcome.settings:
        return ()
    percent = 100 * outcome.counts / outcome.clean
    found = outcome.strengths("learned")
    sizes = (outcome.weights("learned") ** 2).sum(axis=(2, 3))
    one = found.shape[2] == 1
    series = {"mean" if not one else "λ": (percent, found.mean(axis=(0, 2)))}
    if not one:
        series |= {"least": (percent, found.min(axis=2).mean(axis=0)), "most": (percent, found.max(axis=2).mean(axis=0))}
    bands = {}
    if one and len(found) > 1:
        middle, off = found[..., 0].mean(axis=0), found[..., 0].std(axis=0, ddof=1)
        bands = {"λ": (percent, middle - off, middle + off)}
    x = "contributed points, % of the training set"
    return (
        Curve("How the re-tuned penalty answers", x, "λ, logarithm of the penalty", series, bands=bands),
        Curve("How large the re-tuned weights are", x, "‖w‖²", {"‖w‖²": (percent, sizes.mean(axis=0))}, log_y=True),
    )


def _histograms(outcome: Outcome) -> tuple[Histogram, ...]:
    shown = []
    for name in [name for name in outcome.settings if name in ("weak", "learned", outcome.own)]:
        W = outcome.weights(name)
        groups = {"clean": W[0, 0].ravel(), "poisoned": W[0, -1].ravel()}
        shown.append(Histogram(f"Weights of the model with the {NAMES[name]}", "weight", groups))
    return tuple(shown)


def _pictures(loot: Poison, low: Array, high: Array) -> tuple[ImagePairs, ...]:
    if loot.shape is None or loot.start is None or len(loot.shape) not in (2, 3) or loot.shape[2:] not in ((), (3,)):
        return ()
    span = np.where(high > low, high - low, 1.0)
    left, right = (((part[:PAIRS] - low) / span).reshape(-1, *loot.shape) for part in (loot.start, loot.X))
    captions = tuple(f"labelled {label:g}" if loot.y.dtype.kind != "U" else f"labelled {label}" for label in loot.y[:PAIRS])
    return (ImagePairs("Contributed points", left, right, "began as", "became", captions),)
