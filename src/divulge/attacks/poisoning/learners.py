"""What a pipeline trains, as the solvers take it: a loss, targets, a regime, and what counts as an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from divulge.contract import Array, Candidates, OwnLearner, Pipeline, Truth
from divulge.errors import BadInput, NotApplicable
from divulge.learners.catalogue import LEARNERS
from divulge.learners.records import Learner
from divulge.solvers.bilevel import inner
from divulge.solvers.bilevel.ascent import Trainer
from divulge.solvers.bilevel.behind import Behind, Scaled
from divulge.solvers.bilevel.implicit import Converged
from divulge.solvers.bilevel.inner import L2, RISKS, Diverged, Penalty, Shared
from divulge.solvers.bilevel.newton import emptying
from divulge.solvers.bilevel.unrolled import EarlyStopped

Regime = Literal["converged", "early-stopped"]
DIFFERENTIATED = {name: learner for name, learner in LEARNERS.items() if learner.differentiated}
NETWORKS = ("two-layer", "convolutional")
LEFT = float(np.log(2))
"How far, as a logarithm, a penalty that is re-tuned stays below the one that takes all weights of an L1 part."
BY_NAME = (
    'learners by name are studied here, and this one is an estimator; give learner = "logistic", or attack it with poisoning'
)
MOST = 5.0
"Loss from which on a validation point counts no more in a climb against an estimator that names classes. Behind a scaler \
points give a few validation points losses of 1e8 otherwise, and leave the error: of 3 or 5 behind one, 13.4 % on average, \
24.1 with 10, 24.4 with 5, 23.8 with 3; of a table, 16.7, 17.5, 17.8 and 18.5."
TOLERANCE = 1e-6
"Of training to the end: a thousandth of what moves a prediction."


@dataclass(frozen=True, eq=False)
class PipelineLearner:
    """A learner and how long it is trained."""

    name: str
    risk: str
    classes: Array | None
    "None for a regression."
    regime: Regime
    epochs: int
    rate: float
    groups: Array | None
    network: Any = None
    "A torch module with the weights that its training starts from."
    penalty: Penalty = L2
    own: OwnLearner | None = None
    "The user's, by which what points do is measured."

    def trainer(self, X: Array, y: Array, X_val: Array, y_val: Array) -> Trainer:
        """Trains on these points and others that come, and judges by the validation points."""
        if self.own is None or self.own.entering is None:
            return self._trainer(X, y, X_val, y_val)
        A, c = self.own.entering
        units = len(self.own.start[0][1]) if self.own.start else 0
        return Behind(lambda X, X_val: self._trainer(X, y, X_val, y_val), A, c, X, X_val, units=units)

    def _trainer(self, X: Array, y: Array, X_val: Array, y_val: Array) -> Trainer:
        Y, Y_val = self.targets(y), self.targets(y_val)
        most = np.inf if self.own is None or self.classes is None else MOST
        if self.network is not None:
            from divulge.solvers.bilevel.torch_inner import NetworkTraining, dense

            module = self.network if self.own is None else dense(self.own.start, self.own.activation)
            return NetworkTraining(module, X, Y, X_val, Y_val, self.risk, steps=self.epochs, rate=self.rate, most=most)
        rescaled = self.own is not None and self.own.rescaled
        groups = np.arange(X.shape[1]) if rescaled else self.groups
        shared = Shared(X, Y, X_val, Y_val, RISKS[self.risk], groups, self.penalty, most)
        train: Trainer = (
            Converged(shared, tolerance=TOLERANCE)
            if self.regime == "converged"
            else EarlyStopped(shared, steps=self.epochs, rate=self.rate)
        )
        return Scaled(train, X, power=1 if self.penalty.l1_ratio else 2) if rescaled else train

    def plain(self, train: Trainer, features: int, strengths: Array) -> inner.Trained:
        """Trained with no points added, once for each row of strengths (problems, penalties)."""
        none = len(strengths), len(self.targets(np.zeros(0) if self.classes is None else self.classes[:0]))
        return train(np.zeros((none[0], 0, features)), np.zeros((*none, 0)), strengths, penalties=False)

    def read_again(self, X: Array, y: Array, strengths: Array) -> tuple[Array, Array] | None:
        """Weights (outputs, features) and intercepts of the user's own, trained on these points; None where it is not read.

        Of a network, its parameters as a torch module has them: (1, parameters) and none.
        """
        if self.own is None or self.own.opaque:
            return None
        told = float(strengths[0])
        try:
            layers = self.own.layers(X, y, None if told == self.own.strength else told)
        except Exception as error:  # an estimator may be anybody's code
            raise Diverged(refused(self.own, error)) from error
        if self.network is None:
            return layers[0]
        return np.concatenate([np.append(W.ravel(), b) for W, b in layers])[None], np.zeros(0)

    def within(self, bounds: tuple[float, float], X: Array, y: Array) -> tuple[float, float]:
        """Bounds of λ that leave weights: from where an L1 part takes them all, no derivative leads back."""
        if not self.penalty.l1_ratio:
            return bounds
        Z = X if self.own is None or self.own.entering is None else X @ self.own.entering[0] + self.own.entering[1]
        Y = self.targets(y)
        most = emptying(Shared(Z, Y, Z, Y, RISKS[self.risk], None, self.penalty)) - LEFT
        return bounds[0], max(min(bounds[1], most), bounds[0])

    def targets(self, y: Array) -> Array:
        return inner.targets(self.risk, y, self.classes)

    def labels(self, targets: Array) -> Array:
        """What targets (outputs, points) stand for."""
        return targets[0] if self.classes is None else inner.named(targets, self.risk, self.classes)

    def wrong(self, W: Array, b: Array, X: Array, y: Array) -> Array:
        """(models, points): whether the class is wrong; of a regression, the squared error in variances of the target."""
        if self.classes is None:
            return np.asarray((self._scores(W, b, X)[:, 0] - y) ** 2 / max(float(np.var(y)), np.finfo(float).tiny))
        return np.asarray(self.named(W, b, X) != y)

    def named(self, W: Array, b: Array, X: Array) -> Array:
        """(models, points): the classes that models name."""
        return inner.named(self._scores(W, b, X), self.risk, np.asarray(self.classes))

    def _scores(self, W: Array, b: Array, X: Array) -> Array:
        if self.network is None:
            return np.asarray(W @ X.T + b[..., None])
        from divulge.solvers.bilevel.torch_inner import NetworkTraining

        Y = self.targets(np.asarray(self.classes)[:1].repeat(len(X)))
        dtype = np.float32 if self.own is None else np.float64  # scikit-learn's
        return NetworkTraining(self.network, X, Y, X, Y, self.risk, steps=1, rate=1.0, dtype=dtype).scores(W, X)

    @property
    def measure(self) -> str:
        return "error" if self.classes is not None else "squared error"

    @property
    def penalties(self) -> int:
        return 1 if self.groups is None else int(self.groups.max()) + 1

    def shown(self, error: float) -> str:
        """An error as a person reads it."""
        return f"{100 * error:.1f} %" if self.classes is not None else f"{error:.3g} variances"


def learner_of(held: Pipeline, regime: Regime, epochs: int, rate: float, width: int, seed: int) -> PipelineLearner:
    """The learner of a pipeline, or why it cannot be poisoned here."""
    known, own, module = (*DIFFERENTIATED, *NETWORKS), held.own, held.module
    if own is not None and own.unfit:
        raise NotApplicable(own.unfit)
    name = held.learner if own is None else own.learner
    if module is None and not (own is not None and own.start) and name not in known:
        raise NotApplicable(f"a {name} is not differentiated here; of the learners {', '.join(known)} are")
    if held.y.ndim > 1:
        raise NotApplicable("one target a point can be attacked, and there are several")
    linear = DIFFERENTIATED.get(name)
    classes = None if linear is not None and linear.regression else _classes(held)
    count = 0 if classes is None else len(classes)
    if count > 2 and linear is not None and not linear.multiclass:
        raise NotApplicable(f"a {name} is attacked with two classes, and there are {count}; use logistic")
    risk = "softmax" if count > 2 else "logistic" if linear is None else linear.loss
    if classes is None and held.y.dtype.kind == "U":
        raise NotApplicable(f"a {name} needs numbers as targets, and these are names")
    if held.groups is not None and (linear is None or own is not None):
        what = "networks are" if linear is None else f"a {own.title} is" if own is not None else ""
        raise NotApplicable(f"{what} attacked with one penalty, and there are groups; leave groups out")
    if linear is not None:
        penalty = _penalty(linear, own)
        if regime != "converged" and penalty != L2:
            raise NotApplicable(f'a {name} with this penalty is trained to the end here; set regime = "converged"')
        return PipelineLearner(name, risk, classes, regime, epochs, rate, _compact(held.groups), None, penalty, own)
    if regime == "converged":
        raise NotApplicable('networks are not trained to the end here; set regime = "early-stopped"')
    outputs = 1 if risk == "logistic" else len(cast(Array, classes))
    network = module if module is not None else _raw(own) if own is not None else _built(held, outputs, width, seed)
    return PipelineLearner(name, risk, classes, regime, epochs, rate, None, network, L2, own)


def refused(own: OwnLearner, error: Exception) -> str:
    """Why the user's own could not be trained with contributed points."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"the {own.title} could not be trained again: {said}"


def test_points(truth: Truth, held: Pipeline, learner: PipelineLearner) -> tuple[Array, Array] | None:
    """Points that neither side saw, with their labels, or None where the auditor gave none."""
    test = truth.get(Candidates)
    if test is None or test.y is None:
        return None
    if test.X.shape[1] != held.X.shape[1]:
        raise BadInput(
            f"expected test points with {held.X.shape[1]} features, got {test.X.shape[1]}; prepare them like the others"
        )
    if learner.classes is not None and len(np.setdiff1d(test.y, learner.classes)):
        raise BadInput("expected test points of the classes of the training points, got others; correct their labels")
    return test.X, test.y


def _classes(held: Pipeline) -> Array:
    classes = np.unique(held.y)
    if len(classes) < 2:
        raise NotApplicable("the training points have one class only, and nothing to confuse it with")
    unknown = np.setdiff1d(held.y_val, classes)
    if len(unknown):
        raise NotApplicable(f"validation points have a class {unknown[0]} that no training point has; give both the same")
    if len(np.unique(held.y_val)) < 2:
        raise NotApplicable("the validation points have one class only, so no model can be judged; add others")
    if held.y.dtype.kind == "f" and len(classes) > max(20, len(held.y) / 10):
        raise NotApplicable(f"a {held.learner} names classes, and the targets have {len(classes)} values; use ridge")
    return classes


def _penalty(linear: Learner, own: OwnLearner | None) -> Penalty:
    """As the user's own has it; by name, as scikit-learn sets it up."""
    if own is not None:
        return Penalty(own.l1_ratio, own.averaged)
    return Penalty({"l2": 0.0, "l1": 1.0, "elasticnet": 0.5}[linear.penalty], linear.averaged)


def _raw(own: OwnLearner) -> Any:
    """A network of the user's own, from raw points on."""
    from divulge.solvers.bilevel.torch_inner import dense

    (W, b), *rest = own.start
    if own.entering is not None:
        A, c = own.entering
        W, b = W @ A.T, b + W @ c
    return dense([(W, b), *rest], own.activation)


def _compact(groups: Array | None) -> Array | None:
    """The same groups, numbered without gaps."""
    return None if groups is None else np.unique(groups, return_inverse=True)[1]


def _built(held: Pipeline, outputs: int, width: int, seed: int) -> Any:
    from divulge.solvers.shared import architectures

    shape = held.shape or (held.X.shape[1],)
    problem = architectures.unfit(held.learner, shape)
    if problem:
        raise NotApplicable(problem)
    return architectures.build(held.learner, shape, outputs, seed, width)
