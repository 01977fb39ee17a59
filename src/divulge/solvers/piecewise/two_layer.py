"""Functions of one layer of kinks, x -> linear·x + constant + out·relu(into·x + bias), and the network that computes one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog, lsq_linear
from scipy.spatial import cKDTree

from divulge.arrays import Array, TwoLayers

BATCH = 2**24  # numbers of one intermediate array: 128 MiB
PARALLEL = 1e-7  # two hyperplanes whose normalised coefficients differ by less are one
OPPOSITE = 1e-4  # of a unit's direction and jump: so nearly alike two units are one that saturates; errors are below 1e-6
WHOLE = 0.1  # how far from 0 and 1 the share of a unit may come out before it counts as unknown
NEGLIGIBLE = 1e-6  # of the slopes: a linear part no larger is rounding, and dropped
SEARCHABLE = 2500  # units for which a linear programme is solved


@dataclass(frozen=True, eq=False)
class TwoLayer:
    """Units as rows of `into` (h, d) with `bias` (h,), their weights `out` (o, h), and what is linear: (o, d) and (o,)."""

    into: Array
    bias: Array
    out: Array
    linear: Array
    constant: Array

    @classmethod
    def affine(cls, linear: Array, constant: Array) -> TwoLayer:
        """No units yet."""
        outputs, dimension = linear.shape
        return cls(np.zeros((0, dimension)), np.zeros(0), np.zeros((outputs, 0)), linear, constant)

    @property
    def units(self) -> int:
        return len(self.bias)

    def values(self, X: Array) -> Array:
        """(n, o) at points (n, d)."""
        return np.asarray(X @ self.linear.T + self.constant + np.maximum(X @ self.into.T + self.bias, 0) @ self.out.T)

    def pieces(self, X: Array) -> Array:
        """The affine map (n, o, d + 1) that holds around each point: its slope, then its intercept."""
        flat = np.concatenate([self.linear, self.constant[:, None]], axis=1)
        if not self.units:
            return np.repeat(flat[None], len(X), axis=0)
        unit = np.concatenate([self.into, self.bias[:, None]], axis=1)
        outputs, rows = len(self.out), max(1, BATCH // (len(self.out) * self.units))
        found = np.empty((len(X), outputs, flat.shape[1]))
        for start in range(0, len(X), rows):
            active = (X[start : start + rows] @ self.into.T + self.bias > 0)[:, None, :] * self.out
            found[start : start + rows] = (active.reshape(-1, self.units) @ unit).reshape(-1, *flat.shape)
        found += flat
        return found

    def with_units(self, into: Array, bias: Array, out: Array, linear: Array, constant: Array) -> TwoLayer:
        """The sum of this function and another one."""
        return TwoLayer(
            np.concatenate([self.into, into]),
            np.concatenate([self.bias, bias]),
            np.concatenate([self.out, out], axis=1),
            self.linear + linear,
            self.constant + constant,
        )

    def merged(self, negligible: float, parallel: float = PARALLEL) -> TwoLayer:
        """The same function with one unit a hyperplane, and none whose kink is no larger than `negligible`."""
        lengths = np.linalg.norm(self.into, axis=1)
        flat = lengths == 0  # noise alone may be a jump without a slope: a constant
        linear, constant = self.linear.copy(), self.constant + self.out[:, flat] @ np.maximum(self.bias[flat], 0)
        lengths = lengths[~flat]
        into, bias, out = self.into[~flat] / lengths[:, None], self.bias[~flat] / lengths, self.out[:, ~flat] * lengths
        for first, second in _coincident(into, bias, parallel):
            out[:, first] += out[:, second]
            if into[first] @ into[second] < 0:  # relu(-z) = relu(z) - z
                linear -= np.outer(out[:, second], into[first])
                constant -= out[:, second] * bias[first]
            out[:, second] = 0
        kept = np.linalg.norm(out, axis=0) > negligible
        return TwoLayer(into[kept], bias[kept], out[:, kept], linear, constant)

    def saturating(self) -> tuple[TwoLayer, int]:
        """The same function with units that take back what another one adds, v relu(z) - v relu(z - c), exactly parallel.

        Such a pair is one unit of an activation that saturates, as ReLU6 and hard tanh do; also how many there are. Without
        this, errors of the two directions would grow with the distance where both are on and the sum is constant.
        """
        lengths = np.linalg.norm(self.into, axis=1)
        into, bias, out = self.into.copy(), self.bias.copy(), self.out.copy()
        linear, constant = self.linear.copy(), self.constant.copy()
        pairs = _opposite(into, out)
        for first, second in pairs:
            jump = (out[:, first] * lengths[first] - out[:, second] * lengths[second]) / 2
            normal, other = into[first] / lengths[first], into[second] / lengths[second]
            normal = (normal + np.copysign(1, normal @ other) * other) / 2
            for unit, rise in ((first, jump), (second, -jump)):
                sign = np.copysign(1, into[unit] @ normal)
                into[unit], bias[unit], out[:, unit] = normal, sign * bias[unit] / lengths[unit], rise
                if sign < 0:  # v relu(-z) = v relu(z) - v z
                    linear -= np.outer(rise, normal)
                    constant -= rise * bias[unit]
        steepest = float((np.linalg.norm(out, axis=0) * np.linalg.norm(into, axis=1)).max(initial=0))
        if pairs and np.abs(linear).max() <= NEGLIGIBLE * steepest:
            linear = np.zeros_like(linear)
        return TwoLayer(into, bias, out, linear, constant), len(pairs)

    def layers(self, tolerance: float = NEGLIGIBLE) -> tuple[TwoLayers, bool]:
        """A ReLU network that computes this, balanced, and whether its units alone do, as in one that was trained.

        A unit is flipped by v relu(z) = v relu(-z) + v z. Those are that leave nothing linear; where that cannot be done,
        pairs of units add what is: u z = u relu(z) - u relu(-z).
        `tolerance` is the largest share of the slopes that may be dropped as rounding.
        """
        into, bias, out, linear, constant = self.into, self.bias.copy(), self.out, self.linear, self.constant.copy()
        flipped = self._flips(tolerance)
        if flipped is not None:
            linear = np.zeros_like(linear)
            constant += out[:, flipped] @ bias[flipped]
            sign = np.where(flipped, -1.0, 1.0)
            into, bias = into * sign[:, None], bias * sign
        left, size, right = np.linalg.svd(linear, full_matrices=False)
        rank = int((size > 0).sum())
        left, right = left[:, :rank] * size[:rank], right[:rank]
        into, bias = np.concatenate([into, right, -right]), np.concatenate([bias, np.zeros(2 * rank)])
        out = np.concatenate([out, left, -left], axis=1)
        return balanced(((into, bias), (out, constant))), not rank

    def _flips(self, tolerance: float) -> Array | None:
        """Which units (h,) to flip so that nothing linear remains: s_i in {0, 1} with linear + Σ s_i out_i ⊗ into_i = 0."""
        outputs, dimension = self.linear.shape
        scale = np.linalg.norm(self.out, axis=0) * np.linalg.norm(self.into, axis=1)
        if not np.abs(self.linear).max(initial=0) > tolerance * scale.max(initial=0):
            return np.zeros(self.units, dtype=bool)
        if not self.units or self.units >= 2 * outputs * dimension:
            return None
        slopes = np.einsum("oh,hd->odh", self.out, self.into).reshape(-1, self.units) / scale
        target = -self.linear.ravel()
        if self.units <= len(slopes):
            share = np.linalg.lstsq(slopes, target, rcond=None)[0] / scale
        elif self.units <= SEARCHABLE:
            found = linprog(np.zeros(self.units), A_eq=slopes, b_eq=target, bounds=[(0.0, float(one)) for one in scale])
            # Rounding may leave no exact solution.
            share = (lsq_linear(slopes, target, (np.zeros(self.units), scale)).x if found.x is None else found.x) / scale
        else:
            return None
        whole = np.round(share)
        residual = slopes @ (whole * scale) - target
        sure = np.isin(whole, (0, 1)).all() and np.abs(share - whole).max() < WHOLE
        return whole == 1 if sure and np.abs(residual).max() <= tolerance * scale.max() else None


def balanced(layers: TwoLayers) -> TwoLayers:
    """The same network with ‖(into_i, bias_i)‖ = ‖out_i‖ for every unit i, as training from a small start leaves them.

    relu is homogeneous: v relu(z) = (v / a) relu(a z) for a > 0, here a² = ‖v‖ / ‖(w, b)‖.
    """
    (into, bias), (out, constant) = layers
    inside, outside = np.sqrt((into**2).sum(1) + bias**2), np.linalg.norm(out, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt(outside / inside)
    scale = np.where((inside > 0) & (outside > 0), scale, 1.0)
    return (into * scale[:, None], bias * scale), (out / scale, constant)


@dataclass(frozen=True)
class UnitMatch:
    """Which hidden units of a network have a counterpart in a copy, and how far those are off."""

    found: int
    units: int
    "Those that pass something on; others are none."
    error: float
    "max |θ̂ - θ| over what was found, in max |θ|, both networks balanced; 1 where nothing was."


def match_units(copy: TwoLayers, true: TwoLayers, *, oriented: bool = True) -> UnitMatch:
    """Each unit beside the nearest of the copy's, if that is nearer than half its own length; no unit of the copy twice.

    Where a copy is not `oriented`, units may be the other way round, v relu(z) = v relu(-z) + v z, and what is linear is
    elsewhere.
    """
    (W, b), (V, c) = balanced(copy)
    (W0, b0), (V0, c0) = balanced(true)
    units, copies = np.column_stack([W0, b0, V0.T]), np.column_stack([W, b, V.T])
    units = units[(np.linalg.norm(W0, axis=1) > 0) & (np.linalg.norm(V0, axis=0) > 0)]
    largest = float(np.abs(units).max(initial=0)) or 1.0
    if not len(units):
        return UnitMatch(0, 0, float(np.abs(c - c0).max()) / largest)
    if not len(copies):
        return UnitMatch(0, len(units), 1.0)
    choices = copies if oriented else np.concatenate([copies, np.column_stack([-W, -b, V.T])])
    distance, nearest = (np.atleast_1d(it) for it in cKDTree(choices).query(units))
    order = np.argsort(distance, kind="stable")
    _, first = np.unique(nearest[order] % len(copies), return_index=True)
    own = order[first]
    own = own[distance[own] < np.linalg.norm(units[own], axis=1) / 2]
    if not len(own):
        return UnitMatch(0, len(units), 1.0)
    error = float(np.abs(units[own] - choices[nearest[own]]).max())
    if oriented and len(own) == len(units):
        error = max(error, float(np.abs(c - c0).max()))
    return UnitMatch(len(own), len(units), error / largest)


def _opposite(into: Array, out: Array) -> list[tuple[int, int]]:
    """Pairs of units (first, second), each unit at most once, with parallel hyperplanes and opposite jumps."""
    lengths = np.linalg.norm(into, axis=1)
    jumps = (out * lengths).T
    sizes = np.linalg.norm(jumps, axis=1)
    normals = into / np.maximum(lengths, np.finfo(float).tiny)[:, None]
    free, found = sizes > 0, []
    for first in np.flatnonzero(free):
        others = np.flatnonzero(free & (np.arange(len(sizes)) > first))
        others = others[np.linalg.norm(jumps[others] + jumps[first], axis=1) <= OPPOSITE * sizes[first]]
        if not free[first] or not len(others):
            continue
        signs = np.copysign(1, normals[others] @ normals[first])
        apart = np.linalg.norm(signs[:, None] * normals[others] - normals[first], axis=1)
        if apart.min() <= OPPOSITE:
            second = int(others[apart.argmin()])
            free[[first, second]] = False
            found.append((int(first), second))
    return found


def _coincident(into: Array, bias: Array, parallel: float) -> Iterator[tuple[int, int]]:
    """Pairs of units (first, second) with one hyperplane, every second once; rows of `into` have norm 1."""
    planes = np.column_stack([into, bias])
    planes /= np.linalg.norm(planes, axis=1, keepdims=True)
    seen: set[int] = set()
    both = np.concatenate([planes, -planes])
    count = len(planes)
    # Sorting along one random direction leaves few neighbours to compare.
    key = both @ np.random.default_rng(0).standard_normal(planes.shape[1])
    order = np.argsort(key, kind="stable")
    for place, one in enumerate(order):
        for other in order[place + 1 :]:
            if key[other] - key[one] > parallel * 64:
                break
            first, second = sorted((one % count, other % count))
            near = first != second and second not in seen and first not in seen
            if near and np.linalg.norm(both[one] - both[other]) <= parallel:
                seen.add(second)
                yield int(first), int(second)
