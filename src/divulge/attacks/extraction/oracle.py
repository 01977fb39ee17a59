"""A service that explains as a function that tells its affine pieces, as far as its answers can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from divulge.attacks.extraction import undoing
from divulge.attacks.extraction.readout import DifferenceBound, Readout
from divulge.contract import Array, Explanation, Gradients, Weights
from divulge.errors import NotApplicable
from divulge.solvers.piecewise import explanation_kind, layer_kind, links
from divulge.solvers.piecewise.breakpoints_by_gradient import Tolerance
from divulge.solvers.piecewise.exactness import CONFIDENCE, share_that_may_differ
from divulge.solvers.piecewise.links import Local
from divulge.solvers.piecewise.regions import Ball, Box, Everywhere, Region, segment
from divulge.solvers.piecewise.residual_search import ResidualExtraction
from divulge.solvers.piecewise.two_layer import TwoLayer

NEAR = 100.0  # times the noise: where gradients change so much within a hundredth of a point's size, kinks are near
FARTHER = 10.0  # times as far they are looked for next
NEARBY = 10.0  # times the usual size: so far kinks are looked for before the search for all of them, nine in ten lie there
TRIES = 3  # points looked at before the answers are refused: a kink may lie beside one of them
COARSE = 1e-5  # noise, relative to slopes, above which kinks cannot be told from it: six decimals leave 5e-6
DIGITS = 0.01  # of the usual size: so precisely places are still known at the far end of a line
SHRINKING = 4.0  # by how much points move nearer to 0 until all probabilities can be read
READABLE = 12  # times at most
PATIENCE, EACH = 300, 10  # queries, and so many more a kink: plain networks take about 160 and 2 to 4
DRIFT = 10.0  # times the distance: explanations that change by less between neighbours follow the point, kinks change more
HUGE = 1e100  # squares of larger numbers, or of smaller than its inverse, are lost


class Oracle:
    """The target as a function that tells its affine pieces, as far as the answers can be read."""

    def __init__(self, held: Gradients, region: Region, rng: np.random.Generator) -> None:
        self.service, self.held, self.region, self.rng = held, held, region, rng
        self.link, self.single, self.asked, self.outputs = links.IDENTITY, False, 0, 1
        self.classes = 1
        self.around = np.zeros((0, held.dimension))
        "The points at which answers were looked at first."
        self.explanation: Explanation | None = None
        "What kind of explanations these are, where it was told or had to be found."
        self.doubted = False
        if held.explanation is not None:
            self._read_as(held.explanation)

    def ask(self, X: Array) -> tuple[Array, Array]:
        """Values (n, outputs) and Jacobians (n, outputs, d), from one query a point."""
        self.asked += len(X)
        A = np.asarray(self.held.value(X), dtype=float).reshape(len(X), -1)
        J = np.asarray(self.held.gradient(X), dtype=float)
        J = J[:, None, :] if J.ndim == 2 else J.reshape(len(X), -1, X.shape[1])
        if J.shape[1] != A.shape[1]:
            if self.explanation is not None or J.shape[1] > 1:
                raise NotApplicable(f"explanations are of {J.shape[1]} outputs and values of {A.shape[1]}; ask for the same")
            self._read_as(self._probed())
            return self.ask(X)
        return A, J

    def _read_as(self, said: Explanation) -> None:
        """Take explanations for what they are, or refuse them by their name."""
        self.explanation = said
        high = self.region.high if isinstance(self.region, Box) else np.inf
        self.held = undoing.readable(self.service, said, getattr(self.region, "scale", 1.0), high)

    def _probed(self) -> Explanation:
        box = {"low": self.region.low, "high": self.region.high} if isinstance(self.region, Box) else {}
        scale = getattr(self.region, "scale", 1.0)
        value, gradient = self._counted(self.service.value), self._counted(self.service.gradient)
        return explanation_kind.probe(value, gradient, self.held.dimension, self.rng, scale=scale, **box)

    def _counted(self, ask: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def asked(X: Array) -> Array:
            self.asked += len(X)
            return ask(X)

        return asked

    def pieces(self, X: Array) -> Array:
        X = X.astype(np.float32).astype(float) if self.single else X  # as a server of single precision will see them
        A, J = self.ask(X)
        if not self.link.suits(A):
            raise NotApplicable(f"some answers are no probabilities that a {self.link.name} link gives; ask nearer to 0")
        return links.pieces(self.link, X, A, J)

    def identify(self) -> Local:
        """Which link the answers come through and how precise they are; refuses what has no pieces."""
        best: Local | None = None
        others = self.region.points(TRIES, self.rng)
        opposite = -others if self.unbounded else others[:0]  # where a unit is on that is off at all others
        places = [*(self.region.usual(self.rng) for _ in range(TRIES)), *others, *opposite]
        for number, place in enumerate(places):
            if best is not None and number >= TRIES:
                break
            X = links.around(place, self.rng)
            A, J = self.ask(X)
            self.single = links.single(A, J)
            if self.single:
                X = X.astype(np.float32).astype(float)
                A, J = self.ask(X)
            if not J[0].any():
                continue  # where no unit is on, there is nothing to see
            looks = [links.looked_at(link, X, A, J) for link in links.LINKS if link.suits(A)]
            best = min(looks, key=lambda look: (not (look.flat and look.matches), not look.flat, look.bends[0]))
            self.around = X
            if best.flat:
                break
        if best is None or not best.flat or not best.matches:
            self._look_again(best)
            return self.identify()
        again, slopes = self.ask(X[:1])
        best = links.repeated(best, X[:1], (A[:1], J[:1]), (again, slopes))
        rise = float(np.linalg.norm(J[0]) * np.linalg.norm(X[0]))  # values near 0 are sums of larger numbers
        if np.abs(again[0] - A[0]).max() > COARSE * max(np.abs(A).max(), rise):
            raise NotApplicable(
                f"the same point got {A[0, 0]:.6g} among others and {again[0, 0]:.6g} alone: answers are noisy, or depend "
                "on what else is asked"
            )
        size = np.linalg.norm(J[0])
        if not 1 / HUGE < size < HUGE:
            raise NotApplicable(
                f"gradients of size {size:.0e} are beyond what can be computed with; give the scale of inputs"
            )
        if best.noise > COARSE and best.noisy:
            raise NotApplicable(self._noisy(best))
        if best.noise > COARSE:
            raise NotApplicable(
                f"answers are precise to {best.noise:.0e} of the slopes, but kinks need {COARSE:.0e} to be told apart"
            )
        if isinstance(self.region, Everywhere):
            self.region = replace(self.region, far=min(self.region.far, DIGITS / best.noise))
        self.link, self.classes = best.link, A.shape[1]
        self.outputs = 1 if best.link is links.SOFTMAX and A.shape[1] == 2 else A.shape[1]
        if self.link is not links.IDENTITY:
            self.region = self._readable()
        return best

    def refuse_other_layers(self, local: Local) -> Local:
        """Refuse deep, convolutional and curved networks by a few of their kinks; returns what is known of answers then."""
        near = local.bends[-1] > NEAR * local.noise
        first, last = self.around[0], self.around[-1]
        lines = [segment(first, last), segment(last, first + FARTHER * (last - first))] if near else []
        lines = [line for line in lines if self.region.holds(line.start + line.direction)]
        lines += [self.region.line(self.rng).cut(NEARBY), self.region.line(self.rng)]
        seen = layer_kind.probe(self.pieces, lines, self.region, Tolerance(local.noise), self.rng)
        where = f"{seen.changed} of {seen.kinks} kinks looked for are not the same elsewhere on their hyperplanes" + (
            ", slopes at opposite points far away do not add up to the same" if seen.unequal else ""
        )
        if seen.kind == "one layer" or seen.kind == "unsettled":
            return local
        if 2 * local.noise < local.bends[1] < DRIFT * links.STEPS[2] and self._read_anew():
            return self.refuse_other_layers(self.identify())
        if seen.kind == "curved":
            raise NotApplicable(
                "the function is curved, as no ReLU network is: its gradient keeps changing however near two points are"
            )
        if seen.kind == "several layers" and seen.patches:
            raise NotApplicable(
                "the function is no two-layer ReLU network: its units look at patches of the input only, as those of a "
                f"convolutional layer do, and others come behind them ({where})"
            )
        raise NotApplicable(
            "the function is not a two-layer ReLU network: where its gradient changes is no set of hyperplanes, its "
            f"kinks bend as those of a network with several hidden layers do ({where})"
        )

    def doubt(self, kinks: int) -> None:
        """Look what is explained, once, where a search takes many more queries than it finds kinks."""
        if not self.doubted and self.asked > PATIENCE + EACH * kinks:
            self.doubted = True
            if self._read_anew():
                raise NotApplicable(f"the explanations turned out to be {self.explanation}; say so, and they will be undone")

    def _read_anew(self) -> bool:
        """Whether explanations, looked at for the first time, are of another kind that can be undone."""
        if self.explanation is None:
            found = self._probed()
            if not found.raw:
                self._read_as(found)
                return True
        return False

    def network(self, copy: TwoLayer, level: float, *, exact: bool, agreement: float = 1.0) -> tuple[Weights, bool]:
        """The copy as weights; of two classes told by one logit, each has half of it."""
        (hidden, (out, constant)), plain = copy.layers(max(level, 1e-9))
        if self.outputs < self.classes:
            out, constant = np.concatenate([-out, out]) / 2, np.concatenate([-constant, constant]) / 2
        if not copy.units and self.outputs == self.classes:
            return Weights(((np.asarray(copy.linear), copy.constant),), exact=exact, agreement=agreement), True
        layers = hidden, (out, constant)
        return Weights(layers, exact=exact, agreement=agreement), plain

    @property
    def unbounded(self) -> bool:
        return not self.region.bounded

    @property
    def shifted(self) -> bool:
        """Whether logits are known but for a number that all share."""
        return self.link is links.SOFTMAX

    @property
    def readout(self) -> Readout:
        return Readout(self.link.name, self.shifted, explanation=self.explanation)

    def bound(self, extraction: ResidualExtraction) -> DifferenceBound:
        """In how much of the region the copy may be wrong."""
        fresh, words = extraction.fresh, self.region_in_words()
        sizes: tuple[tuple[float, float], ...] = ()
        if isinstance(self.region, Everywhere):
            sizes = tuple(self.region.sizes.items())
            largest = max(self.region.sizes)
            words = f" N(0, s²), half of them with s = {self.region.scale:g} and others up to s = {largest:g},"
        share = share_that_may_differ(fresh, max(extraction.attempts, 1))
        return DifferenceBound(share, CONFIDENCE, fresh, len(extraction.X) - fresh, words, sizes)

    def region_in_words(self) -> str:
        if isinstance(self.region, Box):
            return f" in the box from {self.region.low:g} to {self.region.high:g}"
        return f" where inputs are of size {self.region.radius:g}" if isinstance(self.region, Ball) else ""

    def _readable(self) -> Region:
        """As far from 0 as all probabilities can be told."""
        if isinstance(self.region, Box):
            return self.region
        radius = SHRINKING * getattr(self.region, "scale", 1.0)
        for _ in range(READABLE):
            A, _ = self.ask(radius * self.rng.standard_normal((4, self.held.dimension)))
            if self.link.suits(A) and (self.link is links.SOFTMAX or np.abs(A - 0.5).max() < 0.5 - 1e-7):
                return Ball(self.held.dimension, radius / 2)
            radius /= SHRINKING
        raise NotApplicable("probabilities are 0 and 1 wherever they were asked for: nothing can be read off them")

    def _look_again(self, look: Local | None) -> None:
        """Read answers that have no pieces as what they are, if that can be undone; else say why there are none."""
        if look is None:
            raise NotApplicable(f"the gradient is 0 at all {self.asked} points asked: there is nothing to find")
        measured = self._bends(look)
        told, found = self.explanation, self._probed()
        if told is not None and not found.raw and found.kind != told.kind:
            raise NotApplicable(f"the explanations were said to be {told}, but look like {found} ({measured})")
        if not look.flat and look.noisy and found.kind in ("gradient", "smoothed gradient", "unknown"):
            raise NotApplicable(self._noisy(look))
        if told is None and not found.raw and found.kind != "unknown":
            return self._read_as(found)
        if not look.flat and found.kind != "unknown":
            raise NotApplicable(
                f"the function is not piecewise linear: its gradient keeps changing between kinks ({measured})"
            )
        if not look.flat:
            undoing.refuse(found)
        raise NotApplicable(
            f"the gradients are not those of the values, which rise otherwise by {look.mismatch:.0%}: these are {found}"
        )

    def _noisy(self, look: Local) -> str:
        return (
            "the gradients are noisy, or means over random neighbours as smoothing takes them: two neighbouring points get "
            f"different ones ({self._bends(look)}); value-extraction needs no explanations"
        )

    def _bends(self, look: Local) -> str:
        steps = ", ".join(f"{bend:.1g} at {step:.0e}" for bend, step in zip(look.bends, links.STEPS[1:], strict=True))
        return f"by how much the gradient changes with the distance, both relative: {steps}"
