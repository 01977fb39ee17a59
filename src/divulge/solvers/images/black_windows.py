"""Images of a span that are black outside of a window: linear algebra leaves few directions, ICA of those the images.

A picture a @ L of r directions that is 0 in a set S of pixels has a in the null space of L_S. That space is spanned by the
images of the span that are black on S, and by nothing else where S has more pixels than the other images are many: mixtures
of these are 0 in as many pixels as there are coefficients to choose, and no more. So of 200 digits the 10 to 40 that are
black on S come apart from all others at once, and ICA tells a few images apart where it cannot tell 200. An image that was
found says where others like it may be black, so that one leads to the next. Least squares on the black pixels then finds the
image in the whole span, and whether those pixels leave any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import eigh
from scipy.ndimage import distance_transform_edt

from divulge.arrays import Array
from divulge.solvers.images import clipped_pixels, ica
from divulge.solvers.images.clipped_pixels import ActiveSetFit
from divulge.solvers.images.ica import Differences

KEPT = 40
"Directions that are looked at in a window: of 200 digits ICA tells 11 to 25 apart there, of 20 directions up to 9."
BEYOND = (5, 25)
"Pixels of S more than there are directions; with the second fewer images are black on it, and mixtures less nearly so."
FRESH = 0.2
"Share of the windows that no image chose: without them the search stays among images of one kind."
BRIGHT = 0.3
"Of the box, from the ground, from which a pixel of an image belongs to its strokes."
GROUND = 0.3
"""Share of the live pixels that are nearly black, relative to the brightest, in most of what ICA finds sparse.

For 200 digits, clothes and photographs that is 0.71, 0.66 and 0.01; nearly white are 0.03, 0.02 and 0.01.
"""
SCATTERED = 0.3
"Pixels by which the distance from the strokes is made to vary, so that one image chooses different windows."
NEARLY = 0.05
"Of the box: a pixel this near to the ground is black in a candidate that is not fitted yet."
TRIED = 12
"Candidates of one window that are fitted, the blackest first."
OUTSIDE = 1.0
"Widths of the box that a candidate may lie outside of it before it is fitted."
LIVE = 10.0
"Times the noise: a pixel whose leverage is larger is moved by an image. Others are 0 in all combinations."
RIDGE = 4.0
"Times the noise, by which weak directions weigh less: those that are noise would be black everywhere else."
WIDTHS = (0.15, 0.08, 0.04, 0.02, 0.01, 0.004, 0.0015)
"Of the box: at what distance a pixel counts a quarter, from step to step; the last is less than a grey level."
SHADE = 0.002
"Of the box: half a grey level of 256. An active pixel is within this and the noise of it."
GREY = 1 / 255
"Of the box, by which a pixel may be off that counts as black or white."
NOISY = 3.0
"Deviations of noise that an active pixel may be off."
CHANCE = 40
"Pixels near the ground beyond the rank that a candidate has to have before it is fitted."
SURPLUS = 0.3
"""Share of the live pixels, beyond those that can be chosen to be at an end of the box, that are there in an image.

Of 200 digits images had 0.26 and more, the median 0.64, and mixtures 0.04; a span of 90 mixtures without an image had 0.2.
"""
APART = 1e-3
"Least share of a change that shows at the active pixels. Where two images are black their mean is, and none of it shows."
SLIGHTLY = 0.1
"Of the box: an image that is fitted lies outside of it by noise alone, which grows where few pixels settle a direction."
SAME = 0.95
"NCC of two pictures that are one."


@dataclass(eq=False)
class BlackWindows:
    """The search of a span with axes (rank, d), of which training points have bias 1."""

    pictures: Array
    bias: Array
    uncertainty: Array
    shape: tuple[int, ...]
    box: tuple[float, float]
    windows: int = 40
    "In one look: 14 seconds for 200 digits."
    white: bool = False
    "Whether images are white outside of the window, and not black."
    live: Array = field(init=False)
    "(d,): pixels that an image moves."

    def __post_init__(self) -> None:
        end = self.box[1] if self.white else self.box[0]
        self.low, self.high, self.wide = self.box[0] - end, self.box[1] - end, self.box[1] - self.box[0]
        P = self.pictures - end * self.bias[:, None]  # the ground is 0
        weak = np.diag(RIDGE * P.shape[1] * self.uncertainty**2)
        values, vectors = np.linalg.eigh(P @ P.T + weak)
        self.back = np.ascontiguousarray((vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1]))).T)
        "(rank, rank): rows of the span in which pixels are uncorrelated, times `back`, are rows of the axes."
        self.rows = self.back @ P
        self.slope = self.back @ self.bias
        noise = float(((self.back * self.uncertainty) ** 2).sum())
        leverage = (self.rows**2).sum(axis=0)
        self.live = leverage > max(LIVE * noise, clipped_pixels.LIVE**2 * float(leverage.max()))
        self.active = np.ascontiguousarray(self.rows[:, self.live])
        self.free = np.linalg.svd(self.slope[None])[2][1:]

    def suit(self, rows: Array) -> bool:
        """Whether there are pixels enough, and most rows (k, rank) of the axes show a ground."""
        enough = len(self.rows) > KEPT and int(self.live.sum()) > len(self.rows) + 2 * CHANCE
        X = np.abs((rows @ np.linalg.inv(self.back) @ self.rows)[:, self.live])
        return enough and float(np.median((NEARLY * X.max(axis=1, keepdims=True) > X).mean(axis=1))) >= GROUND

    def look(self, known: Array, rng: np.random.Generator) -> Array:
        """(k, rank): rows of bias 1 that are known, and those of images that so many windows more show."""
        found = [row @ np.linalg.inv(self.back) for row in known]
        shown = [row @ self.rows for row in found]
        waiting = [(place, more) for place in rng.permutation(len(shown)) for more in BEYOND]
        for _ in range(self.windows):
            if waiting and rng.random() >= FRESH:
                place, more = waiting.pop(0)
                depth = self._around(shown[place], rng)
            else:
                depth, more = self._anywhere(rng), int(rng.choice(BEYOND))
            for row in self._in_window(depth, len(self.rows) + more, np.array(shown), rng):
                x = row @ self.rows
                if not len(shown) or _alike(x[None], np.array(shown))[0] <= SAME:
                    waiting += [(len(shown), extra) for extra in BEYOND]
                    found.append(row)
                    shown.append(x)
        return np.asarray(np.array(found).reshape(-1, len(self.rows)) @ self.back)

    def certificate(self, row: Array) -> ActiveSetFit:
        """What active pixels say of a row of the axes that a window showed."""
        return self._certificate(row @ np.linalg.inv(self.back), row)

    def _around(self, x: Array, rng: np.random.Generator) -> Array:
        """How far every pixel is from what is bright in an image."""
        strokes = np.abs(x) >= BRIGHT * self.wide
        picture = strokes.reshape((*self.shape, 1)[:3]).any(axis=2)
        distance = np.asarray(distance_transform_edt(np.logical_not(picture)))
        distance = distance + SCATTERED * rng.standard_normal(distance.shape)
        return self._every_colour(distance)

    def _anywhere(self, rng: np.random.Generator) -> Array:
        """How far every pixel is inside of some half-planes, or of a disc."""
        height, width = self.shape[:2]
        unit = max(height, width) / 28
        y, x = (np.mgrid[:height, :width] - np.array([[[height - 1]], [[width - 1]]]) / 2) / unit
        depth = np.full((height, width), -np.inf)
        for _ in range(rng.integers(2, 5)):
            angle = rng.uniform(0, 2 * np.pi)
            depth = np.maximum(depth, x * np.cos(angle) + y * np.sin(angle) - rng.uniform(0, 8))
        if rng.random() < 0.6:
            depth = np.maximum(depth, rng.uniform(1, 5) - np.hypot(y - rng.uniform(-6, 6), x - rng.uniform(-6, 6)))
        return self._every_colour(depth)

    def _every_colour(self, plane: Array) -> Array:
        return np.asarray(np.broadcast_to(plane[..., None], (*self.shape, 1)[:3]).ravel())

    def _in_window(self, depth: Array, pixels: int, shown: Array, rng: np.random.Generator) -> list[Array]:
        """Rows of images that are at the ground in so many live pixels, the deepest first."""
        chosen = np.argsort(-np.where(self.live, depth, -np.inf), kind="stable")[:pixels]
        seen = self.rows[:, chosen]
        few = eigh(seen @ seen.T, subset_by_index=(0, KEPT - 1))[1].T
        rows = ica.separate(Differences.of(few @ self.rows, self.shape), rng) @ few
        scale = rows @ self.slope
        rows = rows[np.abs(scale) > 1e-9 * np.abs(scale).max()]
        rows = rows / (rows @ self.slope)[:, None]
        X = rows @ self.rows
        black = (np.abs(X[:, self.live]) < NEARLY * self.wide).sum(axis=1)
        inside = (X.min(axis=1) > self.low - OUTSIDE * self.wide) & (X.max(axis=1) < self.high + OUTSIDE * self.wide)
        likely = inside & (black > len(self.rows) + CHANCE) & (_alike(X, shown) <= SAME)
        order = np.argsort(-black, kind="stable")
        fits = [self._fitted(rows[place]) for place in order[likely[order]][:TRIED]]
        return [row for row in fits if row is not None and self.accepted(self._certificate(row, row @ self.back), row)]

    def accepted(self, fit: ActiveSetFit, row: Array) -> bool:
        """Whether active pixels leave no other picture than that of a whitened row, and it is one."""
        x = row @ self.active
        outside = max(self.low - float(x.min()), float(x.max()) - self.high)
        many = fit.active > len(row) + SURPLUS * (len(x) - len(row))
        return many and fit.apart >= APART and outside <= SLIGHTLY * self.wide

    def _fitted(self, row: Array) -> Array | None:
        low, high = self.low, self.high
        for width in WIDTHS:
            for _ in range(2):
                x = row @ self.active
                ends = np.where(x < (low + high) / 2, low, high)
                weight = ((width * self.wide) ** 2 / ((width * self.wide) ** 2 + (x - ends) ** 2)) ** 2
                if weight.sum() < len(row):
                    return None
                moved = clipped_pixels.least_squares(self.active, weight, ends, self.slope)
                if moved is None:
                    return None
                still = float(np.abs((moved - row) @ self.active).max()) < 1e-3 * width * self.wide
                row = moved
                if still:
                    break
        return row

    def _certificate(self, row: Array, in_axes: Array) -> ActiveSetFit:
        x = row @ self.active
        low, high = self.low, self.high
        noise = max(SHADE * self.wide / NOISY, clipped_pixels.deviation(in_axes, self.uncertainty))
        away = x - np.where(x < (low + high) / 2, low, high)
        active = np.abs(away) <= NOISY * noise
        seen, whole = self.free @ self.active[:, active], self.free @ self.active
        apart = float(eigh(seen @ seen.T, whole @ whole.T, eigvals_only=True, subset_by_index=(0, 0))[0])
        off = float(np.linalg.norm(away[active]))
        norm = float(np.linalg.norm(in_axes @ self.pictures)) or 1.0
        count = int(active.sum())
        shades = GREY * self.wide * np.sqrt(count)  # a pixel that is nearly black counts as black
        error = float(np.hypot(off, shades)) / np.sqrt(apart) / norm if apart > 0 else np.inf
        scatter = off / np.sqrt(max(count, 1)) / noise
        return ActiveSetFit(in_axes, count, max(apart, 0.0), error, scatter, noise / self.wide)


def _alike(X: Array, others: Array) -> Array:
    """(k,): largest NCC of each picture with one of the others."""
    if not len(others):
        return np.zeros(len(X))
    units = []
    for one in (X, others):
        centred = one - one.mean(axis=1, keepdims=True)
        units.append(centred / (np.linalg.norm(centred, axis=1, keepdims=True) + np.finfo(float).tiny))
    return np.asarray(np.abs(units[0] @ units[1].T).max(axis=1))
