"""A two-layer network from values alone, line by line: what check points show to be missing is looked for next."""

from __future__ import annotations

import numpy as np

from divulge.arrays import Array
from divulge.solvers.piecewise.breakpoints_by_value import (
    Broken,
    Noise,
    TooManyKinks,
    find_kinks,
    measure_coarse_noise,
    measure_noise,
)
from divulge.solvers.piecewise.check_points import (
    EXACT,
    ILLEGIBLE,
    LOSS,
    SHRINK,
    SHRINKS,
    SIZES,
    CheckPoints,
    Illegible,
    Unsuitable,
)
from divulge.solvers.piecewise.joint_fit import fitted, thinned
from divulge.solvers.piecewise.legibility import legible_line
from divulge.solvers.piecewise.two_layer import TwoLayer
from divulge.solvers.piecewise.units_by_value import Deeper, FramedLine, Survey, extended
from divulge.solvers.shared import affine

REACH = SIZES[-1]
"Along a line, in units of its scale: as far as points are checked. One of 1e5 units has its kink farther out."
FAR = 2e-5
"Over the share of noise: on a longer line rounding at its ends would hide what happens in the middle."
OUTLYING = 30.0
"Where half of the kinks are farther from the origin than this, in units of the scale, the scale is too small."
CRUDE, EXTRA_LINES, WIDE = 5e-10, 2, 500
"Slopes known no better are worth as many other lines, where inputs are so many that kinks, at 5 values each, cost little."
PLACES = (0.3, -0.7, 5.0)
"On a line, where the noise of its values is measured: any three would do."
SURVEYS = 4
"Lines looked along for the best one where answers are coarse: one without two kinks that are close."
STARTS, FEWER = 100, 2
"Pieces such a line is looked along from, or so many times the kinks of another line if that is more."
LEVELS, STEEPEST = 24, 1.0
"Places at which noise is then measured, and the largest angle from the line's origin they are seen under."
POINTS, LEAST, MEMORY = 3, 1000, 2**25
"Times the weights, over the outputs: to so many points a copy is fitted, no fewer than some, and numbers in all of them."
MORE = 0.5
"Times as many, for the copy of each other line: the last one was fitted well and was wrong elsewhere."
FIT_SIZES = (0.3, 30.0), (30.0, REACH)
"Of those points, in units of the scale: where kinks are,"
FAR_SHARE = 0.2
"and of so many: where there should be none, and a copy of only the others may have some."
COARSE = 3e-6
"Of the values' spread: with more noise kinks are lost. Single precision leaves 1e-7 to 2e-6."
CLOSER = 0.3
"Of the accuracy of values: how well a unit has to be known not to be measured again."
ROUNDS = 4
"Of asking for points to fit to, as some may be unreadable."
SMALL = 1e4
"Times the noise of values: a unit that bends by no more where copies are fitted is one they are tried without."
NEGLIGIBLE = 1e-3
"Of the noise: a kink this small is rounding."


class ValueSearch:
    """The copy, growing; `search` may be cut short by an exception of the target, and what was found stays."""

    def __init__(self, checks: CheckPoints, rng: np.random.Generator) -> None:
        self.checks, self.rng = checks, rng
        self.reach = REACH
        self.lines = 0
        self.attempts = 0
        "How often a copy that agreed with the check points was checked at more of them."
        self.copy: TwoLayer | None = None
        "The one that is least far off where it is farthest."
        self.X = np.zeros((0, checks.dimension))
        "(n, d): points that copies of coarse answers are fitted to,"
        self.Y = np.zeros((0, checks.A.shape[1]))
        "(n, o): and their values."

    def search(self, most: int) -> TwoLayer:
        """Look along another line with at most so many kinks, and return the best copy; raises `Unsuitable`."""
        other = self._another_line(most)
        best = self._better(other)
        return self._better(self._fitted(other)) if self.checks.coarse and other.units else best

    def _better(self, other: TwoLayer) -> TwoLayer:
        """The best copy, which may be another one now."""
        parallel, pairs = other.saturating()
        if pairs and self.off(parallel).max() <= self.off(other).max():
            other = parallel
        if self.copy is None or self.off(other).max() <= self.off(self.copy).max():
            self.copy = other
        return self.copy

    def _fitted(self, copy: TwoLayer) -> TwoLayer:
        """The copy with all units fitted at once, unless that would take too many points.

        Points are numbers of single precision, so that it is them that are answered.
        """
        checks, (outputs, units) = self.checks, copy.out.shape
        parameters = units * (checks.dimension + 1 + outputs) + outputs * (checks.dimension + 1)
        wanted = round(max(LEAST, POINTS * parameters / outputs) * (1 + MORE * (self.lines - 1)))
        if wanted * (checks.dimension + units) > MEMORY:
            return copy
        checks.fitted = True
        for _ in range(ROUNDS):
            missing = wanted - len(self.X)
            if missing <= 0:
                break
            ends = np.log(FIT_SIZES)[(self.rng.random(missing) < FAR_SHARE).astype(int)]
            sizes = checks.scale * np.exp(self.rng.uniform(*ends.T))
            X = np.minimum(sizes, checks.largest)[:, None] * self.rng.standard_normal((missing, checks.dimension))
            X = X.astype(np.float32).astype(float)
            Y = checks.value_or_nan(X)
            seen = ~np.isnan(Y).any(1)
            self.X, self.Y = np.concatenate([self.X, X[seen]]), np.concatenate([self.Y, Y[seen]])
        weights = 1 / (1 + np.sqrt(np.mean(self.X**2, axis=1)) / checks.usual)
        negligible = SMALL * checks.coarseness * checks.spread / checks.scale * checks.usual
        return thinned(fitted(copy, self.X, self.Y, weights), self.X, self.Y, weights, negligible)

    def off(self, copy: TwoLayer) -> Array:
        """How far off a copy is at each check point, in units of what is allowed."""
        return self.checks.off(copy.values(self.checks.X), copy.pieces(self.checks.X)[:, :, :-1])

    def negligible(self, copy: TwoLayer) -> float:
        """The size of a kink that is rounding."""
        steepness = float(np.linalg.norm(copy.out * np.linalg.norm(copy.into, axis=1)))
        return NEGLIGIBLE * self.checks.coarseness * steepness

    def _another_line(self, most: int) -> TwoLayer:
        """A copy that is right on another line too, of the size of points where it is wrong.

        A line on which probabilities cannot be read is cut, and the first one drawn again where kinks are far out.
        """
        checks, copy = self.checks, self.copy
        self.lines += 1
        if copy is not None:
            wrong = checks.sizes[self.off(copy) > 1]
            some = checks.usual if checks.coarse else self.rng.choice(wrong)  # nearby more kinks are known well
            wanted = float(self.rng.choice([wrong.min(), some]))
            checks.scale = max(checks.usual, min(wanted, checks.steep_up_to()))
        for _ in range(SHRINKS):
            try:
                survey = self._survey(most)
                middle = float(np.median(np.abs(survey.kinks.places))) if len(survey.kinks.places) else 0.0
                if copy is None and middle > OUTLYING and checks.scale == checks.usual:
                    checks.scale *= middle
                    continue
                return self._extended(self._best_of_several(survey, most))
            except Illegible:
                usual = checks.scale == checks.usual
                checks.scale, self.reach = checks.usual, self.reach / (SHRINK if usual else 1)
        raise Unsuitable(ILLEGIBLE)

    def _best_of_several(self, survey: Survey, most: int) -> Survey:
        """Another line, if there slopes are less crude.

        Where answers are coarse, two kinks that are close may be taken for one, on fewer than half of the lines.
        """
        if self.checks.coarse:
            surveys = [survey]
            while len(surveys) < SURVEYS:
                surveys.append(self._survey(most, FEWER * max(len(one.kinks.places) for one in surveys)))
            usual = np.median([len(one.kinks.places) for one in surveys])
            return min((one for one in surveys if len(one.kinks.places) >= usual), key=Survey.crudeness)
        for _ in range(EXTRA_LINES if self.copy is None and self.checks.dimension >= WIDE else 0):
            if survey.crudeness() > CRUDE:
                survey = min(survey, self._survey(most), key=Survey.crudeness)
        return survey

    def _survey(self, most: int, starts: int = 0) -> Survey:
        """The kinks on a fresh line, looked for from so many places at least if answers are coarse."""
        checks = self.checks
        line, low, high = self._line()

        def ask(t: Array) -> Array:
            return checks.value(line.at(t))

        near = min(1.0, -low / 10, high / 10)
        noise = measure_noise(ask, near * np.array(PLACES), checks.least_noise())
        self._refuse(noise)
        checks.coarse |= LOSS * noise.level / checks.spread > EXACT
        if checks.coarse:
            places = near * np.tan(self.rng.uniform(-STEEPEST, STEEPEST, LEVELS))
            noise = measure_coarse_noise(ask, places, checks.spread, checks.least_noise(measured=True))
            self._refuse(noise)
        checks.coarseness = max(checks.coarseness, noise.level / checks.spread)
        try:
            reach = FAR * checks.spread / noise.level
            ends, starts = (max(low, -reach), min(high, reach)), max(starts, STARTS) if checks.coarse else 0
            return Survey(line, find_kinks(ask, ends, noise, checks.spread, most, starts), noise, checks.spread)
        except TooManyKinks as error:
            self._refuse_rounded()
            raise Unsuitable(
                f"the slope changes more than {error.kinks} times on one line: the model is curved, or has more units"
            ) from None
        except Broken:
            self._refuse_rounded()
            raise Unsuitable("the answers jump from one value to another: the model is not continuous") from None

    def _line(self) -> tuple[FramedLine, float, float]:
        """A fresh line, and from where to where to look along it."""
        checks = self.checks
        if not checks.legibility.lossy:
            return FramedLine.random(checks.dimension, checks.scale, self.rng), -self.reach, self.reach
        line, low, high = legible_line(
            checks.answers, checks.legibility, checks.dimension, checks.scale, self.reach, self.rng
        )
        if not low < 0 < high:
            raise Illegible
        return line, low, high

    def _extended(self, survey: Survey) -> TwoLayer:
        outputs = self.checks.A.shape[1]
        start = self.copy or TwoLayer.affine(np.zeros((outputs, self.checks.dimension)), np.zeros(outputs))
        try:
            return extended(
                start, self.checks.value, survey, CLOSER * self.checks.accuracy_along, self.rng, self.checks.value_or_nan
            )
        except Deeper as error:
            raise Unsuitable(f"the model has more than one hidden layer: {error}") from None

    def _refuse(self, noise: Noise) -> None:
        share = noise.level / self.checks.spread
        if share > COARSE:
            why = "they are rounded, or large numbers cancel"
            if self.checks.legibility.noise >= noise.level:
                why = "they are logits of probabilities in single precision, which lose digits near 1"
            if self.checks.noisy:
                why = "asked twice, one point gives two values"
            raise Unsuitable(f"the answers are exact to {share:.0e} of their spread only, {COARSE:.0e} is needed: {why}")
        if noise.curved:
            self._refuse_rounded()
            raise Unsuitable(
                f"the model is not piecewise linear: values leave a straight line within a step of {noise.short:.0e}, "
                "wherever one looks"
            )

    def _refuse_rounded(self) -> None:
        """Where values jump, or leave a line, because digits were cut, say that."""
        digits, link = self.checks.digits, self.checks.link
        if digits.step and link is not affine.IDENTITY:
            raise Unsuitable(
                f"the answers are rounded to {digits.step:.0e}: where probabilities are small, their logits jump"
            )
        if digits.step:
            raise Unsuitable(f"the answers are rounded to {digits.digits} digits, so that they jump along a line")
