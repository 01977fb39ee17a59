"""What values and gradients say about the piecewise linear function behind them: through which link, and how precisely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from divulge.arrays import Array
from divulge.solvers.shared.affine import adds_to_one, resolution

STEPS = (0.0, 1e-6, 1e-4, 1e-2)  # of its size: how far from a point its piece is looked for
LOOKED_AT = 4000  # numbers are enough to see how finely they are given
FINEST = 1e-14  # no answers are taken to be more precise: they are sums of thousands of rounded numbers
MARGIN = 4.0  # times the rounding of a number, and
SEEN = 8.0  # times the differences seen between answers that should be the same
EQUAL = 16.0  # times the rounding of a number: sums of many differ no more
GROWING = 10.0  # times as much at 100 times the distance: a curve bends 100 times as much there, noise does as before
SCATTER = 8.0  # times the first difference: so much may the others of noise alone be, in one dimension too, 19 times in 20
MATCHING = 0.02  # of a rise: a gradient further from the rise of the values is not theirs
FLOOR = 1e-290  # smaller probabilities have lost digits


@dataclass(frozen=True)
class JacobianLink:
    """How answers come from the function that has the pieces."""

    name: str
    suits: Callable[[Array], bool]
    "Whether answers (n, outputs) can have come through it."
    scores: Callable[[Array, Array], tuple[Array, Array]]
    "Answers (n, outputs) and their Jacobian (n, outputs, d) -> the function's own values and Jacobian."


def _softmax_scores(A: Array, J: Array) -> tuple[Array, Array]:
    """z = log p - mean(log p) and dz = dp / p - mean(dp / p): logits with sum 0; of two classes z₂ - z₁, which decides."""
    Z, D = np.log(A), J / A[:, :, None]
    if A.shape[1] == 2:
        return Z[:, 1:] - Z[:, :1], D[:, 1:] - D[:, :1]
    return Z - Z.mean(1, keepdims=True), D - D.mean(1, keepdims=True)


def _logistic_scores(A: Array, J: Array) -> tuple[Array, Array]:
    """z = log p - log(1 - p) and dz = dp / (p (1 - p))."""
    return np.log(A) - np.log1p(-A), J / (A * (1 - A))[:, :, None]


IDENTITY = JacobianLink("identity", lambda A: True, lambda A, J: (A, J))
SOFTMAX = JacobianLink("softmax", lambda A: A.shape[1] > 1 and bool((A > FLOOR).all()) and adds_to_one(A), _softmax_scores)
LOGISTIC = JacobianLink("logistic", lambda A: A.shape[1] == 1 and bool(((A > 0) & (A < 1)).all()), _logistic_scores)
LINKS = (IDENTITY, SOFTMAX, LOGISTIC)


def pieces(link: JacobianLink, X: Array, A: Array, J: Array) -> Array:
    """The affine maps [D, z - Dx] (n, o, d + 1) that answers A (n, outputs) and J (n, outputs, d) at points X tell of."""
    Z, D = link.scores(A, J)
    return np.concatenate([D, (Z - np.einsum("nod,nd->no", D, X))[:, :, None]], axis=2)


@dataclass(frozen=True)
class Local:
    """What the answers at a point and at growing distances from it look like, through one link."""

    link: JacobianLink
    bends: tuple[float, ...]
    "By how much the slope has changed at each distance, relative to its size."
    mismatch: float
    "How far the rise of the values is from what the slope says, relative to that, as far as the slope is the same."
    noise: float
    "Rounding, relative to the size of slopes."

    @property
    def flat(self) -> bool:
        return self.bends[0] <= 2 * self.noise

    @property
    def noisy(self) -> bool:
        """Whether answers of neighbours differ by as much at any distance, as those of no smooth function do."""
        return self.bends[0] > 0 and self.bends[1] < GROWING * self.bends[0]

    @property
    def matches(self) -> bool:
        return self.mismatch <= MATCHING


def looked_at(link: JacobianLink, X: Array, A: Array, J: Array) -> Local:
    """Judge answers at the points x + step v that `around` gives."""
    found = pieces(link, X, A, J)
    slopes, sizes = found[:, :, :-1], np.linalg.norm(X, axis=1)
    scale = float(np.linalg.norm(slopes[0])) or 1.0
    bends = np.linalg.norm(slopes[1:] - slopes[0], axis=(1, 2)) / scale
    number, cut = _rounding(A, J, slopes, scale, sizes)
    scatter = float(bends[0]) if bends[1] < GROWING * bends[0] else 0.0
    same = np.flatnonzero(bends <= max(EQUAL * number, SCATTER * scatter))
    if not len(same):
        return Local(link, tuple(bends), 0.0, max(number, cut))
    drift = np.linalg.norm(found[1:, :, -1] - found[0, :, -1], axis=1)[same]
    rise = np.linalg.norm(np.einsum("od,nd->no", slopes[0], X[1:] - X[0]), axis=1)[same]
    unit = scale * sizes[0] + float(np.linalg.norm(found[0, :, -1]))
    # Slopes of few digits are rounded only if the values do not rise exactly by them, as far as that can be seen.
    rises_exactly = drift.max() <= EQUAL * number * unit < cut * rise[-1]
    rounding = number if rises_exactly else max(number, cut)
    # Over the longest step with the same slope, rounding weighs least.
    blur = max(EQUAL * rounding, SEEN * scatter) * unit
    worst = float(max(0.0, drift[-1] - blur) / max(rise[-1], 1e-300))
    noise = max(FINEST, rounding, SEEN * float(bends[same].max()), SEEN * float((drift / unit).max()))
    return Local(link, tuple(bends), worst, noise)


def repeated(look: Local, x: Array, first: tuple[Array, Array], second: tuple[Array, Array]) -> Local:
    """The same look, with the noise that two answers at one point (1, d) show."""
    one, other = (pieces(look.link, x, *answers)[0] for answers in (first, second))
    scale = float(np.linalg.norm(one[:, :-1])) or 1.0
    unit = scale * float(np.linalg.norm(x)) + float(np.linalg.norm(one[:, -1]))
    slope, drift = np.linalg.norm((other - one)[:, :-1]) / scale, np.linalg.norm((other - one)[:, -1]) / unit
    return replace(look, noise=max(look.noise, SEEN * float(slope), SEEN * float(drift)))


def around(x: Array, rng: np.random.Generator) -> Array:
    """A point and others near and nearer to it."""
    direction = rng.standard_normal(len(x))
    direction *= (np.linalg.norm(x) or 1.0) / np.linalg.norm(direction)
    return np.asarray(x + np.array(STEPS)[:, None] * direction)


def single(A: Array, J: Array) -> bool:
    """Whether all answers are numbers of single precision."""
    with np.errstate(over="ignore"):
        return bool((A.astype(np.float32) == A).all() and (J.astype(np.float32) == J).all())


def _rounding(A: Array, J: Array, slopes: Array, scale: float, sizes: Array) -> tuple[float, float]:
    """How finely slopes and values are given, relative to slopes: by their floating-point numbers, and by their digits."""
    of_slopes, of_values = resolution(J.ravel()[:LOOKED_AT]), resolution(A.ravel()[:LOOKED_AT])
    single_precision = single(A, J)
    number = MARGIN * float(np.finfo(np.float32 if single_precision else np.float64).eps)
    grid = of_slopes.step * np.sqrt(slopes[0].size) / scale
    digits = 0.5 * 10.0 ** (1 - min(of_slopes.digits, of_values.digits))
    return number, float(max(grid, digits, of_values.step / (scale * max(sizes[0], 1e-300))))
