"""What training moved in a dense layer whose start is public, as that of a checkpoint that people train further.

Descent adds multiples of the layer's inputs to each row, weight decay shrinks what was there: with A (units, n) for n
inputs, [W, b] = γ [W₀, b₀] + A [X, 1]. Once γ is known the rest is exact, however large the start was (Loo et al. 2024 and
Tansley et al. 2026 use the same difference). Three places tell γ:

    an input that is the same for all points moves nothing     W[:, p] = γ W₀[:, p]
    n < the shorter side k of W₀, of rank k                    W W₀⁺ = γ I + A X W₀⁺ has γ as eigenvalue k − n times
    nothing decayed, or the start is another network's         γ = 1, γ = 0
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from divulge.arrays import Array, Layer

FOLDED = "{} was folded into the layers, so that the start is in other units than what training moved; give plain layers"
"Why a layer and its start are not compared."
STILL = 1e-5
"Of an input's weights, that may differ beyond the factor where it moved nothing: rounding of single precision adds up."
SAME = 1e-9
"Of a layer, by which it may differ from the start where training left it alone: rounding, and far less than any step."
CONDITIONED = 1e-2
"Of the start's largest singular value: directions with less would blow rounding up a hundred times and more."
TENTH = 10
"One in so many: of the eigenvalues that have to agree, and of the weakest directions that have to be rounding."
NARROW = 1e-2
"How much nearer those eigenvalues have to lie than if all were spread evenly."
SETTLED = 1e-12
"Of a row's scale, that a round of matching still moves when it has settled."
ROUNDS = 200  # of matching; it settles in 3 to 30
ALIKE = 0.5
"Least correlation of a unit with its start: of rows of a hundred inputs none has half of that by chance."


@dataclass(frozen=True, eq=False)
class Moved:
    """What training added to a layer."""

    rows: Array
    "(units, inputs + 1): [W, b] less what is left of the start."
    factor: float
    "What is left of the start's weights."
    shift_factor: float
    "The same of its biases, which people often leave without decay."
    rest: float
    "How much of the layer the weakest tenth of its directions still has: rounding, unless more was moved than it has units."

    @property
    def exact(self) -> bool:
        """Whether fewer directions were moved than the layer has, as by descent on fewer points."""
        return self.rest <= STILL

    @property
    def words(self) -> str:
        if self.factor == 0:
            return "Nothing of the start that was given is in the layer: it has decayed, or is another network's."
        left = f"The public start was taken off, of which {self.factor:.4g} was left"
        left += "." if self.shift_factor == self.factor else f" ({self.shift_factor:.4g} of its biases)."
        many = " Training moved as many directions as the layer has: by an adaptive optimiser, or on more points than units."
        return left if self.exact else left + many


def frozen(layer: Layer, start: Layer) -> bool:
    """Whether training left a layer as it was."""
    pairs = zip(layer, start, strict=True)
    return all(bool(np.abs(now - before).max() <= SAME * np.abs(before).max()) for now, before in pairs)


def moved(layer: Layer, start: Layer) -> Moved:
    """What training added to a layer (W (units, inputs), b (units,)) that started as `start`."""
    (W, b), (before, shift) = layer, start
    still = _still(W, before)
    if still is not None:
        factor = still
    else:  # what leaves the weakest directions weakest
        factor = min(_factors(W, before), key=lambda one: _weakest(W - one * before))
    rest = W - factor * before
    bias_factor = _of_biases(rest, b, shift, factor)
    whole = float(np.linalg.norm(W, 2)) or 1.0
    return Moved(np.column_stack([rest, b - bias_factor * shift]), factor, bias_factor, _weakest(rest) / whole)


def matched(layer: Layer, start: Layer) -> tuple[Array, Layer] | None:
    """Factors (units,) that bring units to the scale of those they started as, and that start in their order; or none.

    An extraction knows units but for order and a positive factor s_j: s_j [w_j, b_j] = γ [w₀_j, b₀_j] + Σ a_ji [x_i, 1].
    Nearest rows are paired. Then s and the span of what was added are fitted in turn: outside of that span only the start is
    left, s_j w_j N = γ w₀_j N. As only the span counts, γ is taken for 1.
    """
    (W, _), (before, shift) = layer, start
    if len(W) > len(before) or W.shape[1] != before.shape[1]:
        return None
    alike = _unit(W) @ _unit(before).T
    units, places = linear_sum_assignment(-alike)
    if np.median(alike[units, places]) < ALIKE:
        return None
    return _scales(W, before[places]), (before[places], shift[places])


def _still(W: Array, before: Array) -> float | None:
    """The factor that inputs tell which training never moved; none where there are no such inputs."""
    sizes = (before**2).sum(axis=0)
    live = sizes > 0
    if not live.any():
        return None
    W, before, sizes = W[:, live], before[:, live], sizes[live]
    factors = (W * before).sum(axis=0) / sizes
    off = np.linalg.norm(W - factors * before, axis=0) / np.sqrt(sizes)
    least = float(off.min())
    # A layer of few units agrees with any start: n numbers are proportional to n others by chance of precision^(n − 1).
    if len(W) < 3 or least > STILL:
        return None
    return float(np.median(factors[off <= 10 * max(least, np.finfo(float).eps)]))


def _factors(W: Array, before: Array) -> Iterator[float]:
    """What the start may have been multiplied by: 1 without decay, 0 if another's, or the eigenvalue of many directions."""
    yield from (1.0, 0.0)
    left, size, right = np.linalg.svd(before, full_matrices=False)
    kept = size > CONDITIONED * size[0]
    found = np.linalg.eigvals((left[:, kept].T @ W @ right[kept].T) / size[kept])
    real = np.sort(found.real)
    many = max(len(real) // TENTH, 3)
    if len(real) > many:
        widths = real[many - 1 :] - real[: 1 - many]
        first = int(widths.argmin())
        if widths[first] <= NARROW * (real[-1] - real[0]) * many / len(real):
            yield float(np.median(real[first : first + many]))


def _weakest(rows: Array) -> float:
    """The middle one of the weakest tenth of the singular values."""
    sizes = np.linalg.svd(rows, compute_uv=False)
    return float(np.median(sizes[-max(len(sizes) // TENTH, 1) :]))


def _of_biases(rest: Array, b: Array, shift: Array, factor: float) -> float:
    """What the biases' start was multiplied by: outside of the units that training moved together nothing else is left."""
    left = np.linalg.svd(rest, full_matrices=len(rest) <= rest.shape[1])[0]
    outside = left[:, -max(len(rest) // TENTH, 1) :].T
    now, before = outside @ b, outside @ shift
    size = float(before @ before)
    if size == 0:
        return factor
    found = float(now @ before) / size
    off = float(np.linalg.norm(now - found * before)) / max(float(np.linalg.norm(now)), np.finfo(float).tiny)
    return found if len(outside) > 1 and off <= NARROW else factor


def _scales(W: Array, before: Array) -> Array:
    """(units,): factors s with s_j w_j = w₀_j outside of a span that has as few directions as can be.

    W W₀⁺ = diag(1/s) + L with L of that low rank gives a guess. Then the span is taken for known, which gives s, and so on.
    """
    scale = _diagonal(W, before)
    for _ in range(ROUNDS):
        rest = scale[:, None] * W - before
        _, sizes, axes = np.linalg.svd(rest, full_matrices=False)
        inside = axes[: _standing(sizes)]
        outer, was = W - W @ inside.T @ inside, before - before @ inside.T @ inside
        new = np.maximum((outer * was).sum(axis=1) / np.maximum((outer**2).sum(axis=1), 1e-300), 1e-300)
        change = float(np.abs(new / scale - 1).max())
        scale = new
        if change < SETTLED:
            break
    return np.asarray(scale)


def _diagonal(W: Array, before: Array) -> Array:
    """1 / D (units,) of W W₀⁺ = D + L, D diagonal and L of low rank: L_jj = L_jJ L_IJ⁺ L_Ij, where D has no part.

    I and J are halves of the units; j is in neither where another split puts it elsewhere, so that thirds are taken.
    """
    both = W @ np.linalg.pinv(before, rcond=CONDITIONED)
    plain = (W**2).sum(axis=1) / np.maximum((W * before).sum(axis=1), 1e-300)
    found = np.zeros(len(W))
    parts = np.arange(len(W)) % 3
    for part in range(3):
        own, rows, columns = (np.flatnonzero(parts == (part + step) % 3) for step in range(3))
        left, sizes, right = np.linalg.svd(both[np.ix_(rows, columns)])
        rank = _standing(sizes)
        inner = (right[:rank].T / sizes[:rank]) @ left[:, :rank].T
        low = np.einsum("ij,jk,ki->i", both[np.ix_(own, columns)], inner, both[np.ix_(rows, own)])
        found[own] = np.diag(both)[own] - low
    return np.asarray(1 / np.where(found > 0, found, np.where(plain > 0, plain, 1.0)))


def _standing(sizes: Array) -> int:
    """Where singular values fall most, leaving at least a tenth of them: beyond is what scales not yet right leave."""
    some = sizes[: max(len(sizes) - len(sizes) // TENTH, 2)]
    return int(np.argmax(some[:-1] / np.maximum(some[1:], np.finfo(float).tiny))) + 1


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))
