"""All pictures that can be found in a span, each with what speaks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from divulge.arrays import Array
from divulge.solvers.images import clipped_pixels, confidence, ica
from divulge.solvers.images.black_windows import BlackWindows
from divulge.solvers.images.ica import Differences

Once = Callable[[str, Callable[[np.random.Generator], Array]], Array]

SAME = 0.95
"NCC of two pictures that are one: no two of 200 digits are more alike than 0.92."
TRIED = 0.99  # NCC from which the clipped pixels of two rows would say the same; saves time only
SETTLED = 0.95
"Share of pictures that two attempts have in common when no more are needed."
ROUNDS = 4
"Attempts made of the best of those before them, at most: 36 pictures of 14 × 14 pixels go on from 15 to 24 in these."
BETTER = 1e-3
"By how much sparser an attempt has to be than those before it, or it is the last: of 36 pictures one more moves it by 3e-3."
MANY = 120
"Directions from which random starts find too little for the best of them to be enough: of 200 photographs 33 each."
BEGUN = 2  # such starts then
SHAKEN = (0.3, 0.7)
"Share of the rows that is kept where the others are separated anew."
SHAKES = 16
"Such rounds, at most: of 200 photographs ten lead from 50 to 100."
TIRED = 3
"Rounds without success after which there are no more."
LOOKS = 30
"At windows, at most; after the first that shows nothing new there are no more."
NEW = 2  # images that a look has to show
CERTIFIED = 0.99
"Confidence in a picture that its clipped pixels certify: above any claim's limit, and it never decides which comes first."
PLAIN = 0.9
"NCC with the mean image, which everyone has, from which a candidate shows nothing else; no image of 120 networks had 0.87."
UNMOVED = 0.1
"""Of its root mean square, what most pixels of a candidate differ from the mean image by, if they are the mean's own.

So are pictures of filters that look at a part of the image only. Of 150 training images (digits, clothes, photographs) the
least had 0.47: where one of them is dark others are not.
"""
VARIED = 0.01
"Of the box: a pixel whose mean is as near to an end is there in nearly all training images, and tells nothing."
CLEAN = 3.0
"Standard deviations of noise within which a pixel is taken to be at an end of the box."


@dataclass(frozen=True, eq=False)
class Found:
    """Candidates, the surest first."""

    X: Array
    "(k, d)"
    confidence: Array
    "(k,)"
    certified: Array
    "(k,): whether clipped pixels leave no other picture of the span."
    error: Array
    "(k,): largest error relative to the picture's norm, where certified."
    raw: Array
    "(k, d): X before it was moved into the box."

    def if_only(self, possible: bool) -> Found:
        """The same, or with no confidence in any where it is not possible."""
        return self if possible else replace(self, confidence=0 * self.confidence)


@dataclass(eq=False)
class SpanSearch:
    """Pictures (height, width) or (height, width, 3) among the combinations of axes (rank, d) of a span."""

    pictures: Array
    bias: Array | None
    "(rank,); none where it does not tell the scale of a picture."
    uncertainty: Array
    shape: tuple[int, ...]
    box: tuple[float, float] | None
    mean: Array | None
    "What has to be added to pictures whose scale no bias tells."
    starts: int
    once: Once
    step: Callable[[str], None] = lambda done: None
    certifiable: bool = True
    "False where the mean is an estimate, so that pixels certify nothing."
    hidden: float = 0.0
    "Edge of the noise over the weakest directions."
    attempts: list[Array] = field(default_factory=list)
    fits: list[clipped_pixels.ActiveSetFit] = field(default_factory=list)
    samples: Differences = field(init=False)
    "Of neighbouring pixels; once the search runs."
    features: Array = field(init=False)
    "(rank, 4): what confidence in the rows of the last attempt was computed from; once the search has run."

    def __post_init__(self) -> None:
        self.tried = np.zeros((0, len(self.pictures)))

    def run(self, rng: np.random.Generator) -> Found:
        self.samples = samples = Differences.of(self.pictures, self.shape)
        for number in range(self.starts):
            self.attempts.append(self.once(f"start {number}", lambda own: ica.separate(samples, own)))
            self.step(f"attempt {number + 1} from a random start")
            if self._settled or (self._many and number + 1 >= BEGUN):
                break
        independent = len(self.attempts)
        if self._many and not self._settled:
            self._look_through_windows()
            rows, independent = self._shake(samples), len(self.attempts)
            self.attempts.append(rows)
        else:
            self._combine(samples)
            rows = self.attempts[-1]
        found = confidence.measure(
            rows,
            self.attempts[: min(independent, len(self.attempts) - 1)],
            samples,
            self.shown,
            self.box,
            self.hidden,
            rng,
        )
        self.features = found.features
        boxed = self.box is not None and self.certifiable
        return self._together(rows, found.confidence(boxed) * ~self.plain(rows))

    @property
    def most(self) -> int:
        """Steps of the search, at most."""
        return BEGUN + LOOKS + SHAKES if self._many else self.starts + ROUNDS

    @property
    def _many(self) -> bool:
        return len(self.pictures) >= MANY

    @property
    def _settled(self) -> bool:
        return len(self.attempts) > 1 and self._agreed(self.attempts[-2], self.attempts[-1]) >= SETTLED

    def so_far(self) -> Array:
        """(k, d): pictures of the last attempt, those with the sparsest differences first: what the search looks for."""
        rows = self.attempts[-1]
        return self.shown(rows[np.argsort(ica.contrast(rows, self.samples), kind="stable")])[0]

    def plain(self, rows: Array) -> Array:
        """Which rows show the mean image and nothing else, or nothing else in most pixels."""
        if self.mean is None or not np.ptp(self.mean) or not len(rows):
            return np.zeros(len(rows), dtype=bool)
        X = self.shown(rows)[0]
        low, high = self.box or (-np.inf, np.inf)
        varied = np.minimum(self.mean - low, high - self.mean) > VARIED * (high - low if self.box else 1)
        moved = np.abs(X - self.mean)[:, varied]
        most = np.median(moved, axis=1) > UNMOVED * np.sqrt((moved**2).mean(axis=1)) if varied.any() else True
        return np.asarray((_correlations(X, self.mean[None])[:, 0] > PLAIN) | ~most)

    def _combine(self, samples: Differences) -> None:
        """Attempts made of the best of all before, with what clipped pixels have made exact."""
        least = min(float(ica.contrast(rows, samples).mean()) for rows in self.attempts)
        certified = self._certify(np.concatenate(self.attempts[-1:]))
        settled = self._settled
        for number in range(0 if settled or len(self.attempts) == 1 else ROUNDS):
            known = [one.row[None] for one in self.fits]
            pool = np.concatenate([*known, *self.attempts])
            rows = self.once(
                f"round {number}",
                lambda own, pool=pool: ica.separate_from(pool, samples),  # type: ignore[misc]  # bound for this round
            )
            self.attempts.append(rows)
            more, now = self._certify(rows), float(ica.contrast(rows, samples).mean())
            self.step(f"the best of {len(self.attempts) - 1} attempts")
            if now > least - BETTER and more <= certified:
                break
            least, certified = min(now, least), max(more, certified)
        if certified and not settled:
            for rows in self.attempts[:-1]:
                self._certify(rows)

    def _shake(self, samples: Differences) -> Array:
        """The best rows of iterated local search from the attempts so far; every round of it is one more attempt."""
        begun = len(self.attempts)
        best = self.once("basis", lambda _: ica.separate_from(np.concatenate(self.attempts), samples))
        least, tired = float(ica.contrast(best, samples).mean()), 0
        for number in range(SHAKES):
            both = self.once(f"shake {number}", lambda own, best=best: self._shaken(best, own))  # type: ignore[misc]
            self.attempts.append(both[0])
            now = float(ica.contrast(both[1], samples).mean())
            self.step(f"what {number + 1} rounds of shaking have loosened")
            tired = 0 if now < least - BETTER else tired + 1
            if now < least:
                best, least = both[1], now
            if tired >= TIRED:
                break
        self.attempts = self.attempts[begun:]
        return self.once("finest", lambda _: ica.refined(best, samples, ica.FINEST))

    def _shaken(self, best: Array, rng: np.random.Generator) -> Array:
        """(2, rank, rank): rows separated anew beside some of the best, and the best of both."""
        new = ica.shaken(best, self.samples, int(rng.uniform(*SHAKEN) * len(best)), rng)
        pool = np.concatenate([best, new])
        return np.stack([new, ica.refined(ica.best_basis(pool, self.samples), self.samples, ica.ENDING)])

    def _look_through_windows(self) -> None:
        """Certify images that are black, or white, outside of a window."""
        if self.box is None or self.bias is None or not self.certifiable:
            return
        for white in (False, True):
            windows = BlackWindows(self.pictures, self.bias, self.uncertainty, self.shape, self.box, white=white)
            known = np.zeros((0, len(self.pictures)))
            sparse = self.attempts[-1][np.argsort(ica.contrast(self.attempts[-1], self.samples))][: len(self.pictures) // 4]
            for number in range(LOOKS if windows.suit(sparse) else 0):
                before, ground = len(known), "white" if white else "black"
                known = self.once(
                    f"{ground} windows {number}",
                    lambda own, known=known, windows=windows: windows.look(known, own),  # type: ignore[misc]
                )
                self.step(f"{len(known)} images that are {ground} outside of a window")
                if len(known) < before + NEW:
                    break
            known = known[~self.plain(known)]
            self.fits = self._distinct([*self.fits, *(windows.certificate(row) for row in known)])

    def _certify(self, rows: Array) -> int:
        """How many pictures are certified now that these rows were looked at."""
        if self.box is not None and self.bias is not None and self.certifiable:
            rows = rows[~self._known(rows, self._certified_rows, SAME)]
            rows = rows[~self._known(rows, self.tried, TRIED)]
            self.tried = np.concatenate([self.tried, rows])
            looked = clipped_pixels.fit(rows, self.pictures, self.bias, self.uncertainty, self.box)
            certified = [one for one in looked if one.certified]
            plain = self.plain(np.array([one.row for one in certified]).reshape(-1, len(self.pictures)))
            self.fits = self._distinct([*self.fits, *(one for one, bare in zip(certified, plain, strict=True) if not bare)])
        return len(self.fits)

    @property
    def _certified_rows(self) -> Array:
        return np.array([one.row for one in self.fits]).reshape(-1, len(self.pictures))

    def _known(self, rows: Array, others: Array, level: float) -> Array:
        """Which rows show nearly the picture of another one."""
        if not len(rows) or not len(others):
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(_correlations(self.shown(rows)[0], self.shown(others)[0]).max(axis=1) > level)

    def _distinct(self, some: list[clipped_pixels.ActiveSetFit]) -> list[clipped_pixels.ActiveSetFit]:
        if not some:
            return some
        some = sorted(some, key=lambda one: one.error)
        kept = _distinct(self.shown(np.array([one.row for one in some]))[0])
        return [some[place] for place in kept]

    def _together(self, rows: Array, confidence: Array) -> Found:
        certified = self._certified_rows
        X, _ = self.shown(np.concatenate([certified, rows]))
        confidence = np.concatenate([np.full(len(certified), CERTIFIED), confidence])
        error = np.concatenate([[one.error for one in self.fits], np.full(len(rows), np.inf)])
        noise = [clipped_pixels.deviation(row, self.uncertainty) for row in certified]
        order = np.lexsort([error, -confidence, np.isinf(error)])
        X, confidence, error = X[order], confidence[order], error[order]
        clean = self._clean(X, np.concatenate([noise, np.zeros(len(rows))])[order])
        kept = _distinct(clean)
        return Found(clean[kept], confidence[kept], np.isfinite(error[kept]), error[kept], X[kept])

    def _clean(self, X: Array, noise: Array) -> Array:
        """Inside the box, and without noise where pixels are at its ends."""
        if self.box is None:
            return X
        low, high = self.box
        near = CLEAN * noise[:, None]
        X = np.where(np.abs(X - low) < near, low, np.where(np.abs(X - high) < near, high, X))
        return np.asarray(np.clip(X, low, high))

    def shown(self, rows: Array) -> tuple[Array, Array]:
        """Pictures (k, d) of rows (k, rank), and the factors (k,) by which the rows were multiplied."""
        if self.bias is not None:
            return confidence.scaled_by_bias(rows, self.pictures, self.bias)
        if self.box is not None:
            return confidence.scaled_to_box(rows, self.pictures, self.mean, self.box)
        return confidence.scaled_to_unit_deviation(rows, self.pictures)

    def _agreed(self, one: Array, other: Array) -> float:
        return float(np.mean(_correlations(self.shown(one)[0], self.shown(other)[0]).max(axis=1) > SAME))


def _distinct(X: Array) -> list[int]:
    """Places of rows unlike all rows kept before them."""
    alike = np.abs(_correlations(X, X))
    kept: list[int] = []
    for place in range(len(X)):
        if not kept or alike[place, kept].max() <= SAME:
            kept.append(place)
    return kept


def _correlations(A: Array, B: Array) -> Array:
    units = []
    for X in (A, B):
        centred = X - X.mean(axis=1, keepdims=True)
        units.append(centred / (np.linalg.norm(centred, axis=1, keepdims=True) + np.finfo(float).tiny))
    return np.asarray(units[0] @ units[1].T)
