"""Which points a network was trained on, where what it was before is known: fine-tuned networks, heads on frozen features.

What training moved, rows R of [W, b] − γ [W, b]_start, is Σ_i g_i [x_i, 1]ᵀ after descent, exactly. Where there are more
units than training points these lie in the span of R and nothing else does. With fewer units some of them have to be known:
those the rows hold as descent would have put them there are added to the span, and the others lie in it (subspace-augmented
MUSIC: Lee, Bresler and Junge 2012, arXiv:1004.3071). Adam divides every weight's gradient by its size, so that nothing lies
in the span exactly; what tells its members is learned on shadows, trained by Adam from the same start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack

from divulge.arrays import Array, Layer, Layers
from divulge.solvers.images.span import span_of_moved, without_rounding
from divulge.solvers.margin import max_margin
from divulge.solvers.shadow.membership import (
    FEW,
    LOWER,
    MIDDLE,
    MOST,
    ShadowInference,
    SpanInference,
    controls_like,
    infer_from_rows,
    made_up,
    several,
)
from divulge.solvers.shared.calibration import CalibratedClassifier

EXACT = 1e-14
"Of a squared length: rounding errors of double precision."
ROUNDED = 1e-6
"Of the largest singular value of rows: below it are rounding errors of single precision, 8e-7 in heads of 256 units."
FAR = 30.0
"""Times that the squared share of a point outside the span has to be smaller than that of any control.

Of heads' members, once the span was whole, it was 1e-3 of that and less, of 4,000 other pictures 0.8 of it and more.
"""
FEWEST = 3
"Points that have to stand out for an augmented span to be whole: one or two may be all but the same as those added."
STEPS = 8
"Into how many parts the directions that points may add are divided: as many sizes of an augmented span are tried."
CROWDED = 0.8
"Share of all directions beyond which a span is not augmented: any point lies in most of it."
LEVELS = (1e-2, 1e-3, 1e-4, 1e-5)
"Of errors in the rows, as shares of their largest squared singular value: of Adam's heads one of these told most members."
COARSE = (1e-3, 1e-4, 1e-5, 1e-6)
"""The same while it is found out how much of the start is left, which is known better after each: to 1e-5 at the end, of 500
points and 256 units whose start had decayed to 0.79."""
RIDGE = 1e-2
"Of the joint regression, in shares of a point's own length. From 1e-4 to 1e-1 as many members were told apart."
JOINT = 8000
"Points regressed jointly, at most: 500 MB and ten seconds."
ADAPTIVE = 0.35
"""Slope of log movement in log gradient below which steps were adaptive.

Descent moves a weight in proportion to its gradient: slopes of 0.5 to 1.0 in 7 heads. Adam does not: −0.2 to 0.0 in 6.
"""
RATE, BATCH, PASSES = 1e-3, 32, 200
"Of a shadow trained by Adam: what most people take, until its first layer has moved as far as the network's."
LOSS = 1e-8

Inference = SpanInference | ShadowInference


def infer_from_start(
    rows: Array,
    layers: Layers,
    start: Layers,
    X: Array,
    mean: Array | None,
    shape: tuple[int, ...] | None,
    rng: np.random.Generator,
    *,
    count: int | None = None,
    shadows: int = 3,
    false_positives: float = 0.001,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Inference:
    """Of points X (n, d) to the network x -> layers(x − mean) that began as `start`; no mean is 0.

    `rows` (units, d + 1) is what training moved in the first layer. By the span alone where it is exact, else by shadows
    that are trained from the start on some of the points. Pictures are told without: where a network knew its task before,
    the shadows' threshold let 28 of 2,000 others pass.
    """
    clean = without_rounding(rows)
    exact = infer_from_moved_span(clean, layers, start, X, mean, shape, rng)
    if (exact.scores > exact.threshold).sum() >= FEWEST or not crowded(clean):
        return exact
    if shape is not None:
        return infer_from_rows(span_of_moved(rows, None).axes, X, mean, shape, rng)
    told: dict[str, Any] = {"count": count, "shadows": shadows, "false_positives": false_positives, "progress": progress}
    return infer_by_shadows(rows, layers, start, X, mean, shape, rng, **told)


def crowded(rows: Array) -> bool:
    """Whether every unit that moved shows a direction of its own: there may be more than units can show."""
    sizes = np.linalg.norm(rows, axis=1)
    return bool(len(_axes(rows)) >= np.sum(sizes > ROUNDED * sizes.max()))


def infer_from_moved_span(
    rows: Array,
    layers: Layers,
    start: Layers,
    X: Array,
    mean: Array | None,
    shape: tuple[int, ...] | None,
    rng: np.random.Generator,
) -> SpanInference:
    """By the share of each point outside the span of rows, augmented by those points that the rows hold most surely."""
    count = max(len(X), FEW)
    # Combinations of few points may all lie in the span, where all are members: there every input is of another point.
    others = controls_like(X, count, shape, rng) if len(X) > X.shape[1] else _mixed(X, count, rng)
    points = _with_bias(np.concatenate([X, others]), mean)
    backwards = _backwards(layers, start, points[:, :-1])
    outside, axes = _least_outside(rows, backwards, points, len(X))
    if _standing_out(outside, len(X)) < FEWEST and crowded(rows):
        better = _without_start(rows, np.column_stack(start[0]), backwards, points)
        outside, axes = _least_outside(better, backwards, points, len(X))
    level = -np.log(outside)
    middle = float(np.median(level[len(X) :]))
    spread = 1.4826 * float(np.median(np.abs(level[len(X) :] - middle))) or 1.0
    within = points[len(X) :] @ axes.T @ axes
    moved = -np.log(_outside(axes, _with_bias(within[:, :-1] / _divisor(within[:, -1:]), None)))
    scores, controls, inside = ((one - middle) / spread for one in (level[: len(X)], level[len(X) :], moved))
    return SpanInference(scores, float(controls.max()) + np.log(FAR) / spread, controls, inside)


def infer_by_shadows(
    rows: Array,
    layers: Layers,
    start: Layers,
    X: Array,
    mean: Array | None,
    shape: tuple[int, ...] | None,
    rng: np.random.Generator,
    *,
    count: int | None = None,
    shadows: int = 3,
    false_positives: float = 0.001,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ShadowInference:
    """By what tells members apart on shadows that began as the network did and learned some of the points."""
    asked, origin = len(X), np.arange(len(X))
    if asked < FEW:
        made, source = made_up(X, FEW - asked, shape, rng)
        X, origin = np.concatenate([X, made]), np.append(origin, source)
    others = controls_like(X, FEW, shape, rng)
    points = _with_bias(np.concatenate([X, others]), mean)
    inputs, far = points[:, :-1], float(np.linalg.norm(rows))
    called = several(_decided(layers, inputs[: len(X)]), len(layers[-1][1]))
    adaptive = steps_are_adaptive(rows, start, inputs[: len(X)])
    many = min(count or len(rows), max(len(X) // MOST, 2))
    theirs, inside, outside = [], [], []
    for done in range(shadows):
        progress(done, shadows)
        chosen = _drawn(origin, many, rng)
        trained = train_from(start, inputs[chosen], called[chosen], far, rng, adaptive=adaptive)
        theirs.append(_measures(moved(trained, start), trained, start, points, len(X))[: len(X)])
        inside.append(np.isin(np.arange(len(X)), chosen))
        outside.append(~np.isin(origin, origin[chosen]))
    progress(shadows, shadows)
    measures, known, members = np.concatenate(theirs), np.concatenate(inside), np.concatenate(outside)
    classifier = CalibratedClassifier.fit(measures[known | members], known[known | members].astype(float))
    yes, no = (classifier.log_odds(measures[one]) for one in (known, members))
    mine = classifier.log_odds(_measures(rows, layers, start, points, len(X)))
    threshold = float(np.quantile(no, 1 - false_positives, method="higher"))
    clear = float(np.quantile(yes, LOWER if len(X) == asked else MIDDLE))
    threshold = max(threshold, (threshold + clear) / 2)
    return ShadowInference(mine[:asked], threshold, yes, no, mine[len(X) :], many, len(X) - asked)


def moved(layers: Layers, start: Layers) -> Array:
    """(units, d + 1): by how much the rows [w, b] of the first layer differ."""
    return np.asarray(np.column_stack(layers[0]) - np.column_stack(start[0]))


def steps_are_adaptive(rows: Array, start: Layers, X: Array) -> bool:
    """Whether rows moved as Adam moves them, by as much where gradients are small.

    Gradients are larger of a unit that the next layer weighs more, and of an input that is larger: log sizes of movement
    are regressed on either, and the slope that is known more surely counts.
    """
    far = rows[:, :-1]
    pairs = [
        (np.linalg.norm(start[1][0], axis=0), np.linalg.norm(far, axis=1)),
        (np.sqrt((X**2).mean(axis=0)), np.linalg.norm(far, axis=0)),
    ]
    slopes = [_slope(*(np.log(one[(by > 0) & (size > 0)]) for one in (by, size))) for by, size in pairs]
    slope, _ = min(slopes, key=lambda one: one[1])
    return slope < ADAPTIVE


def train_from(
    start: Layers, X: Array, y: Array, far: float, rng: np.random.Generator, *, adaptive: bool, passes: int = PASSES
) -> list[Layer]:
    """A network trained from `start` on X (n, d) until its first layer has moved by `far`, or for so many passes.

    Labels y are −1 and 1 for one output, else numbers of outputs; by Adam in batches, or down the gradient of all points.
    """
    W = start[0][0]
    if adaptive:
        return _adam(start, X, y, rng, lambda now: bool(np.linalg.norm(now[0][0] - W) >= far), passes)
    before = max_margin.Span.of(X, W).rows
    return max_margin.train(
        list(start),
        X,
        y,
        target=LOSS,
        passes=passes,
        biases=True,
        dtype=np.float32,
        enough=lambda now: bool(np.linalg.norm(now[0][0] - before) >= far),
    ).layers


def _adam(
    start: Layers, X: Array, y: Array, rng: np.random.Generator, enough: Callable[[list[Layer]], bool], passes: int
) -> list[Layer]:
    """Kingma and Ba 2015, with their constants, in batches: w ← w − RATE · m̂/(√v̂ + ε)."""
    first, second, small = 0.9, 0.999, 1e-8
    points = X.astype(np.float32)
    layers = [(W.astype(np.float32), b.astype(np.float32)) for W, b in start]
    m, v = ([(np.zeros_like(W), np.zeros_like(b)) for W, b in layers] for _ in range(2))
    step = 0
    for _ in range(passes):
        for some in np.array_split(rng.permutation(len(X)), -(-len(X) // BATCH)):
            step += 1
            values = max_margin.forward(layers, points[some])
            slopes = max_margin.backward(layers, values, _residuals(values[-1], y[some]), biases=True)
            rate, scale = np.float32(RATE / (1 - first**step)), np.float32(1 / np.sqrt(1 - second**step))
            for parts, slope, mean, square in zip(layers, slopes, m, v, strict=True):
                for w, dw, mw, vw in zip(parts, slope, mean, square, strict=True):
                    mw += np.float32(1 - first) * (dw - mw)
                    vw += np.float32(1 - second) * (dw * dw - vw)
                    w -= rate * mw / (np.sqrt(vw) * scale + np.float32(small))
        if enough(layers):
            break
    return [(W.astype(float), b.astype(float)) for W, b in layers]


def _residuals(outputs: Array, y: Array) -> Array:
    """(n, outputs): derivative of the mean log-loss or cross-entropy in the outputs."""
    if outputs.shape[1] == 1:
        return np.asarray(-y[:, None] / (1 + np.exp(y[:, None] * outputs)) / len(y), dtype=outputs.dtype)
    back = _softmax(outputs)
    back[np.arange(len(y)), y] -= 1
    return np.asarray(back / len(y), dtype=outputs.dtype)


def _softmax(outputs: Array) -> Array:
    powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _decided(layers: Layers, X: Array) -> Array:
    """(n,): what the network itself says, −1 and 1 or the number of an output."""
    outputs = max_margin.forward(list(layers), X)[-1]
    return np.where(outputs[:, 0] > 0, 1, -1) if outputs.shape[1] == 1 else outputs.argmax(axis=1)


def _drawn(origin: Array, many: int, rng: np.random.Generator) -> Array:
    """Places of `many` points; where some were made of others, of those made of one half."""
    sources = np.unique(origin)
    if len(sources) < len(origin):
        sources = rng.permutation(sources)[: -(-len(sources) // 2)]
    return np.asarray(rng.permutation(np.flatnonzero(np.isin(origin, sources)))[:many])


def _mixed(X: Array, count: int, rng: np.random.Generator) -> Array:
    """Points whose every input is that of some point."""
    return np.asarray(X[rng.integers(len(X), size=(count, X.shape[1])), np.arange(X.shape[1])])


def _with_bias(X: Array, mean: Array | None) -> Array:
    return np.column_stack([X if mean is None else X - mean, np.ones(len(X))])


def _divisor(bias: Array) -> Array:
    return np.where(np.abs(bias) > EXACT, bias, 1.0)


def _slope(x: Array, y: Array) -> tuple[float, float]:
    """Of a least-squares line, and its standard error."""
    centred = x - x.mean() if len(x) else x
    size = float(centred @ centred)
    if len(x) < 3 or size < EXACT:
        return 1.0, np.inf
    slope = float(centred @ y / size)
    rest = y - y.mean() - slope * centred
    return slope, float(np.sqrt(rest @ rest / (len(x) - 2) / size))


def _backwards(layers: Layers, start: Layers, X: Array) -> Array:
    """(n, units): how descent from the start to the end would have changed what enters each unit, for its last label.

    The mean of what the two ends say, as it is in between.
    """
    first, last = (max_margin.forward(list(one), X) for one in (start, layers))
    if last[-1].shape[1] == 1:
        back = np.sign(last[-1])
    else:
        back = -(_softmax(first[-1]) + _softmax(last[-1])) / 2
        back[np.arange(len(X)), last[-1].argmax(axis=1)] += 1
        back /= np.maximum(np.linalg.norm(back, axis=1, keepdims=True), EXACT)
    ends = []
    for one, values in ((start, first), (layers, last)):
        through = back
        for number in range(len(one) - 1, 0, -1):
            through = (through @ one[number][0]) * (values[number] > 0)
        ends.append(through)
    return np.asarray(ends[0] + ends[1]) / 2


def _matched(rows: Array, backwards: Array, points: Array, levels: tuple[float, ...]) -> Array:
    """(3 · levels, n): what points leave outside the rows, the share of rows they account for, and that in deviations.

    With errors of covariance RᵀR + level in every row, a point that moved the rows by s · b xᵀ is seen in bᵀ R C⁻¹ x, which
    is s xᵀC⁻¹x with it, and has deviation √(xᵀC⁻¹x).
    """
    U, s, axes = np.linalg.svd(rows, full_matrices=False)
    share, inside = (s / max(s[0], EXACT)) ** 2, points @ axes.T
    lengths = (points**2).sum(axis=1)
    beyond = np.maximum(lengths - (inside**2).sum(axis=1), EXACT * lengths)
    along = (backwards / np.maximum(np.linalg.norm(backwards, axis=1, keepdims=True), EXACT)) @ U
    found = []
    for level in levels:
        weight = 1 / (share + level)
        whole = inside**2 @ weight + beyond / level
        part = (inside * along) @ (np.sqrt(share) * weight)
        found += [np.log(lengths / whole), part / whole, part / np.sqrt(whole)]
    return np.array(found)


def _least_outside(rows: Array, backwards: Array, points: Array, asked: int) -> tuple[Array, Array]:
    """What share of each point (n, d + 1) is outside of the rows, augmented until most points lie inside; and the axes.

    The first `asked` points are in question, the others are controls; both may be added, and are treated alike.
    """
    axes = _axes(rows)
    surest = np.argsort(-_matched(rows, backwards, points, (EXACT,))[2])
    room = max(int(CROWDED * rows.shape[1]) - len(axes), 0) if crowded(rows) else 0
    best, most = (_outside(axes, points), axes), 0
    for many in np.unique(np.linspace(0, min(room, len(points) // 2), STEPS + 1).astype(int)):
        outside, wider = _augmented(axes, points, surest[:many])
        found = _standing_out(outside, asked)
        if found >= max(FEWEST, most + 1):
            best, most = (outside, wider), found
    return best


def _standing_out(outside: Array, asked: int) -> int:
    return int(np.sum(outside[:asked] * FAR < outside[asked:].min()))


def _without_start(rows: Array, start: Array, backwards: Array, points: Array) -> Array:
    """Rows without a share of the start that is left in them, as where it is not known what weight decay left of it.

    Outside of all points that the network may have been trained on, the start is the only thing that rows can have.
    """
    most = min(int(CROWDED * rows.shape[1]), len(points) // 2)
    for level in COARSE:
        surest = np.argsort(-_matched(rows, backwards, points, (level,))[2])[:most]
        axes = np.linalg.qr(points[surest].T)[0].T
        before, now = (one - one @ axes.T @ axes for one in (start, rows))
        rows = rows - float(np.vdot(before, now) / max(float(np.vdot(before, before)), EXACT)) * start
    return rows


def _augmented(axes: Array, points: Array, added: Array) -> tuple[Array, Array]:
    """Shares outside of the span of axes and of points added, each of these beside the others; and the axes of that."""
    if not len(added):
        return _outside(axes, points), axes
    own = points[added] / np.linalg.norm(points[added], axis=1, keepdims=True)
    rest = own - own @ axes.T @ axes
    _, sizes, more = np.linalg.svd(rest, full_matrices=False)
    wider = np.vstack([axes, more[sizes > np.sqrt(EXACT) * len(own)]])
    outside = _outside(wider, points)
    # ‖x_i outside of all others‖² = 1/(G⁻¹)_ii for products G of what is outside of the axes
    products = rest @ rest.T
    products[np.diag_indices(len(own))] += EXACT * len(own)
    outside[added] = np.minimum(1 / np.diag(np.linalg.inv(products)), 1.0)
    return outside, wider


def _axes(rows: Array) -> Array:
    """Directions of the rows, orthonormal, without those of rounding."""
    _, sizes, axes = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(axes[sizes > ROUNDED * sizes[0]])


def _outside(axes: Array, points: Array) -> Array:
    lengths = (points**2).sum(axis=1)
    rest = points - points @ axes.T @ axes
    return np.asarray(np.maximum((rest**2).sum(axis=1) / lengths, EXACT))


def _measures(rows: Array, layers: Layers, start: Layers, points: Array, asked: int) -> Array:
    """(n, measures): in deviations of the controls, which are the points beyond the first `asked`."""
    backwards = _backwards(layers, start, points[:, :-1])
    size = np.sqrt((points**2).mean(axis=0))
    found = np.vstack(
        [
            _matched(rows, backwards, points, LEVELS),
            _matched(rows * size, backwards, points, LEVELS),  # as if Adam had not divided by the size of gradients
            _regressed(rows, backwards, points),
        ]
    )
    controls = found[:, asked:]
    middle = np.median(controls, axis=1, keepdims=True)
    spread = 1.4826 * np.median(np.abs(controls - middle), axis=1, keepdims=True)
    return np.asarray(((found - middle) / np.where(spread > 0, spread, 1.0)).T)


def _regressed(rows: Array, backwards: Array, points: Array) -> Array:
    """(1, n): multiples s of b_i x_iᵀ in the rows, all at once, in deviations.

    Least squares min_s ‖R − Σ_i s_i b_i x_iᵀ‖² + ridge; (b_i·b_j)(x_i·x_j) are the first layer's tangent kernel.
    """
    held = np.einsum("ij,ij->i", backwards @ rows, points)
    sizes = np.maximum(np.linalg.norm(backwards, axis=1) * np.linalg.norm(points, axis=1), EXACT)
    found = np.zeros(len(points))
    blocks = -(-len(points) // JOINT)
    for first in range(blocks):
        own = slice(first, None, blocks)
        b, x = (part[own].astype(np.float32) for part in (backwards, points))
        products = (b @ b.T) * (x @ x.T) / np.outer(sizes[own], sizes[own]).astype(np.float32)
        products[np.diag_indices(len(b))] += np.float32(RIDGE)
        factor, failed = lapack.spotrf(products, lower=1)
        inverse, _ = lapack.spotri(factor, lower=1)
        if failed:
            continue
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        found[own] = (inverse @ (held[own] / sizes[own])) / np.sqrt(np.diag(inverse))
    return found[None]
