"""The span of the points a dense layer was trained on, read from its weights.

Descent moves every row of [W, b] by multiples of the training points [x, 1] and by nothing else. So the rows lie in the
span of those points, up to what was there before: noise, which has a spectrum of its own that ends at a known edge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from divulge.arrays import Array
from divulge.solvers.images.layouts import Layout

ROUNDING = 1e-13
"Of the largest singular value: below it are rounding errors of double precision, which an extraction leaves at 1e-14."
SINGLE = 1e-6
"The same where all weights are numbers of single precision, whose rounding is at 1e-7."
GAP = 1e3
"Times that a singular value falls where errors begin: those of an extraction by 4e7, images by 74 at most (20 digits)."
FAINT = 1e-6
"Of the largest singular value, below which such a fall may be: the weakest of 40 digits was at 2e-5, with weight decay."
TINY = 1e-3
"Of the largest row, below which one is left out: it adds nothing, and an extraction may have made it up."
BEYOND = 1.03
"Times the edge of the noise: only in this far a direction is not noise. Largest values of noise scatter by 1 %."
ROUNDS = 50  # never reached
NOTHING = 1e-9  # share of the bias's direction that lies in the span where biases are rounding errors
WHOLE = 0.9
"The same share where points were centred: it was 0.997 and more, and 0.14 and less where they were not (40 digits)."
MOVED = 2.0
"Times the noise: a pixel whose weights are larger, in root mean square, was moved. Noise of 20 rows has up to 1.8."
LIVE = 1e-3
"Of the most moved pixel: one that was moved by less is as good as unmoved."
FULL = 0.5
"""Share of the pixels that directions may come to.

A span of r directions has pictures that are 0 in any r − 1 pixels; with half of them it has some as sparse as an image. Of
scikit-learn's digits, 60 directions of 64 pixels, blank pictures were claimed.
"""
WEAKEST = 5  # one in so many directions: the weakest alone scatters from draw to draw
FEW = 4
"Singular values of which nothing can be said: their quartiles are two of them."
FEWER = 0.85
"Rows are levelled, because units may be known up to their scale only, where so few directions are left; it errs by one."
REGRESSED = 2
"Times as many inputs as rows that explain one another: with as many, 36 directions were seen of 30, with four times 32."
SMOOTH = 0.15
"""Correlation of neighbouring pixels from which a direction shows pictures and no noise.

Of 24 sets of rows, of first layers and of 5 to 40 answers each, noise had 0.06 at most, the weakest direction that is mostly
of the span 0.22, and those between less, the more noise is in them.
"""
SURELY = 4.0  # deviations of the correlation that noise has, 1/√(2 d): of 300 directions the largest has 3
ALL = 0.8
"Share of a layer's directions that are pictures, from which it has too few units for noise to be told beside them."
BURIED = 0.77
"""Edge of the noise over the weakest directions, from which combinations of rows do not show all of a span.

Of 50 digits, clothes or photographs in 36 sets of answers, up to 0.78 nearly all claims were right, from 0.8 on 31 of 122:
there the start had not decayed, or noise of 1 % or rounding to 2 digits hid it.
"""
SMALL, BURIED_SMALL = 25, 0.3
"The same of fewer directions than these: six of 63 claims from such spans were right, where the start had not decayed."
CLIFF = 100.0
"""Times that singular values fall at once where rounding begins under what training added.

By 395 to 15,000 where a network was trained in single precision on points new to it, and by 3 at most from one of 40 to 50
points to the next.
"""
IN_A_ROW = 3
"Directions that are no pictures, after which none is: one among pictures may be rough, two or three among rounding smooth."
SPREAD = 1.5
"Times the quartiles of noise are apart: a tail that is wider is none. Noise of 20 rows has at most 1.2 (60 draws)."


@dataclass(frozen=True, eq=False)
class Span:
    """Directions in which training has moved the rows of a layer, strongest first."""

    axes: Array
    "(rank, d + 1), orthonormal; the last column belongs to the bias."
    sizes: Array
    "All singular values."
    noise: float
    "Standard deviation of one weight that training has not moved; 0 where there is none."
    edge: float
    "Largest singular value of such noise."
    blur: Array | None = None
    "(rank,): deviation of noise in one entry of an axis, where it is not the same in all rows."

    @property
    def rank(self) -> int:
        return len(self.axes)

    @property
    def uncertainty(self) -> Array:
        """(rank,): standard deviation of one entry of an axis."""
        found: Array = self.noise / self.sizes[: self.rank] if self.blur is None else self.blur
        return found

    def strongest(self, most: int | None) -> Span:
        """The same with `most` axes at most."""
        blur = self.blur if self.blur is None or most is None else self.blur[:most]
        return self if most is None else replace(self, axes=self.axes[:most], blur=blur)

    def pictures(self, mean: Array | None) -> Array:
        """(rank, d): what the axes are in units of raw inputs, where `mean` is subtracted from those."""
        axes, bias = self.axes[:, :-1], self.axes[:, -1:]
        return axes if mean is None else axes + bias * mean

    @property
    def hidden(self) -> float:
        """Edge of the noise over the weakest fifth of the directions: near 1, others may be hidden below it.

        It is 1 where all rows were directions, so that more rows may have shown more of them; and where combinations of
        rows show all directions there are, and no noise: as many as the layer has units, for all that is known of these.
        """
        unknown = self.blur is not None and (self.rank == len(self.sizes) or not self.blur.any())
        return 1.0 if unknown else self.ending

    @property
    def ending(self) -> float:
        """Edge of the noise over the weakest fifth of the directions."""
        weakest = self.sizes[self.rank - max(1, self.rank // WEAKEST) : self.rank]
        return float(self.edge / np.median(weakest)) if self.rank else 1.0

    @property
    def buried(self) -> bool:
        """Whether directions of combinations end where noise begins, so that others are below it.

        Without them what is left are projections of images, which look like images and are none.
        """
        limit = BURIED if self.rank >= SMALL else BURIED_SMALL
        return self.blur is not None and self.rank < len(self.sizes) and self.ending > limit

    @property
    def pixels(self) -> int:
        """How many inputs training has moved the weights of."""
        rows = self.sizes[: self.rank, None] * self.axes[:, :-1]
        moved = np.sqrt((rows**2).sum(axis=0) / max(self.rank, 1))
        return int(np.sum(moved > max(MOVED * self.noise, LIVE * float(moved.max()))))

    @property
    def crowded(self) -> bool:
        """Whether there are so many directions that any picture can be made of them."""
        return self.rank > FULL * self.pixels

    @property
    def bias(self) -> Array:
        return self.axes[:, -1]

    @property
    def has_bias(self) -> bool:
        """Whether there are biases, which tell the scale of points."""
        return float(self.bias @ self.bias) > NOTHING

    @property
    def centred(self) -> bool:
        """Whether the bias alone is a direction of the span, as the sum of points is whose mean was subtracted.

        It is one as well where biases were not trained, or not as long as the weights.
        """
        return float(self.bias @ self.bias) > WHOLE


def pictured(seen: Span, layout: Layout) -> Span:
    """The span up to its last direction in which neighbouring pixels have to do with each other.

    Rows that are combinations of a first layer's, as answers are, have noise that is mixed by the same combinations: its
    singular values have no edge. But it is white along the pixels, in every combination, and pictures are not. Where the
    singular values told of the noise already, nothing changes. Where more rows than directions end in rounding errors and
    hardly a direction is noise, none can excuse what a picture lacks: all units of a narrow layer look like that.
    """
    if seen.noise > 0:
        return seen
    axes = seen.axes[:, :-1]
    alike = layout.correlations(axes)
    limit = max(SMOOTH, SURELY / np.sqrt(2 * axes.shape[1]))
    rank = 1 + int(np.flatnonzero(alike > limit).max(initial=-1))
    found = replace(seen, axes=seen.axes[:rank])
    if not rank:
        return found
    edge = float(seen.sizes[rank]) if rank < len(seen.sizes) else 0.0
    narrow = seen.rank < len(seen.sizes) and rank > ALL * seen.rank
    blur = np.zeros(rank) if narrow else layout.noise(axes[:rank])
    return replace(found, edge=edge, blur=blur)


def span_of_combinations(rows: Array, precision: float) -> Span:
    """All directions of rows (k, d + 1) but those as small as their errors, relative to the largest singular value.

    What noise the rows have is mixed as they are, and shows in no singular value: see `pictured`.
    """
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    return Span(axes[sizes > precision * sizes[0]], sizes, 0.0, 0.0)


def span(W: Array, b: Array) -> Span:
    """The directions of the rows of [W, b] (units, d + 1) that stand out of the noise.

    Singular values of noise of deviation σ end at σ(√units + √(d + 1)); σ is read from the median of those below
    (Marchenko and Pastur 1967).
    """
    rows = _trusted(np.column_stack([W, b]).astype(float))
    found = _above_noise(rows)
    scale = _row_noise(rows) if found.noise > 0 or found.rank == len(found.sizes) else None
    if scale is not None:
        level = _above_noise(rows / scale[:, None])
        if level.noise > 0 and level.rank < FEWER * found.rank:
            found = level
    return found


def span_of_moved(rows: Array, layout: Layout | None) -> Span:
    """Directions of what training added (units, d + 1) to a start that is known: nothing is left of that but rounding.

    Rounding adds up where weights moved, and has no edge as noise has. But it lies far below what points have added; where
    some points have added as little, because the network knew them already, the first directions that are no pictures tell.
    """
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    rank = _cliff(sizes)
    if not rank and layout is not None:
        unlike = layout.correlations(axes[:, :-1]) <= max(SMOOTH, SURELY / np.sqrt(2 * (rows.shape[1] - 1)))
        several = unlike[: 1 - IN_A_ROW] if len(unlike) >= IN_A_ROW else unlike[:0]
        for step in range(1, IN_A_ROW):
            several = several & unlike[step : len(unlike) - IN_A_ROW + 1 + step]
        rank = int(several.argmax()) if several.any() else 0
    if not rank:
        return span(rows[:, :-1], rows[:, -1])
    edge = float(sizes[rank]) if rank < len(sizes) else 0.0
    return Span(axes[:rank], sizes, edge / (np.sqrt(rows.shape[0]) + np.sqrt(rows.shape[1])), edge)


def without_rounding(rows: Array) -> Array:
    """What training added to a known start, in the directions before singular values fall at once; all where they do not."""
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    rank = _cliff(sizes)
    return np.asarray(rows @ axes[:rank].T @ axes[:rank]) if rank else rows


def _cliff(sizes: Array) -> int:
    """After how many singular values they fall at once to rounding; 0 where they do not."""
    falls = sizes[:-1] / np.maximum(sizes[1:], ROUNDING * sizes[0])
    return 1 + int(falls.argmax()) if len(falls) and falls.max() >= CLIFF else 0


def _trusted(rows: Array) -> Array:
    """Rows without tiny ones and those whose opposite is there too: pairs by which a copy adds what is linear."""
    opposites = {row.tobytes() for row in 0.0 - rows}
    paired = [row.tobytes() in opposites for row in rows + 0.0]  # so that no 0 has a sign
    rows = rows if all(paired) else rows[~np.array(paired)]
    sizes = np.linalg.norm(rows, axis=1)
    return np.asarray(rows[sizes >= TINY * sizes.max()])


def _above_noise(rows: Array) -> Span:
    """What stands out of noise that is the same in all rows."""
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    rank, noise = _rank(sizes, rows.shape, _least(rows, sizes))
    return Span(axes[:rank], sizes, noise, float(noise * (np.sqrt(rows.shape[0]) + np.sqrt(rows.shape[1]))))


def _row_noise(rows: Array) -> Array | None:
    """How much of each row (units,) the others do not explain, on average 1; none where that is rounding or nothing."""
    units, inputs = rows.shape
    groups = -(-REGRESSED * units // inputs)
    scale = np.zeros(units)
    for first in range(groups):
        some = rows[first::groups]
        products = some @ some.T
        if np.linalg.cond(products) > 1 / ROUNDING:
            return None
        scale[first::groups] = np.abs(np.diag(np.linalg.inv(products))) ** -0.5
    return np.asarray(scale / scale.mean())


def _least(rows: Array, sizes: Array) -> float:
    """Singular values that rounding has, or errors of another kind that leave a gap below everything else."""
    rounding = float((SINGLE if (rows == rows.astype(np.float32)).all() else ROUNDING) * sizes[0])
    seen = sizes[sizes > rounding]
    falls = np.where(seen[1:] < FAINT * sizes[0], seen[:-1] / seen[1:], 0)
    return float(seen[1 + falls.argmax()]) if falls.max(initial=0) > GAP else rounding


def _rank(sizes: Array, shape: tuple[int, int], least: float) -> tuple[int, float]:
    """How many singular values are signal, and the deviation of what the others are made of."""
    quarter, middle, upper = _bulk(shape)
    visible = int(np.sum(sizes > least))
    if visible <= len(sizes) - FEW:
        return visible, float(np.median(sizes[visible:]) / middle)
    rank = _standing_out(sizes, shape)
    tail = sizes[rank:]
    if len(tail) >= FEW:
        low, noise, high = np.quantile(tail, [0.25, 0.5, 0.75]) / middle
        if high - low <= SPREAD * (upper - quarter) / middle * noise:
            return rank, float(noise)
    return visible, 0.0  # not noise but weak signal: there are as many directions as rows


def _standing_out(sizes: Array, shape: tuple[int, int]) -> int:
    """How many singular values are beyond the edge of the noise that the others are, if they are noise."""
    edge, middle, rank = np.sqrt(shape[0]) + np.sqrt(shape[1]), _bulk(shape)[1], 0
    for _ in range(ROUNDS):
        before, rank = rank, int(np.sum(sizes > BEYOND * edge * np.median(sizes[rank:]) / middle))
        if rank == before or rank > len(sizes) - FEW:
            break
    return rank


def _bulk(shape: tuple[int, int]) -> tuple[float, ...]:
    """Quartiles of the singular values of a matrix of independent entries of variance 1 (Marchenko and Pastur 1967)."""
    short, long = min(shape), max(shape)
    low, high = (1 - np.sqrt(short / long)) ** 2, (1 + np.sqrt(short / long)) ** 2
    x = np.linspace(low, high, 4003)[1:-1]
    mass = np.cumsum(np.sqrt((high - x) * (x - low)) / x)
    return tuple(float(np.sqrt(long * value)) for value in np.interp([0.25, 0.5, 0.75], mass / mass[-1], x))
