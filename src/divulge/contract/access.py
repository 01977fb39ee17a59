"""What an attacker can hold. Each kind checks itself, so no attack has to."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from divulge.arrays import Array, Layer
from divulge.contract.checks import (
    check_input,
    check_labels,
    check_points,
    dense_layers,
    frozen,
    names,
    numbers,
    points,
    start_of,
)
from divulge.contract.display import Shown
from divulge.contract.reading import reader
from divulge.contract.service import Service
from divulge.contract.tables import Preparation, Table, frame_points, is_frame, is_raw, is_sparse, sparse_points
from divulge.errors import BadInput, refuse_unknown
from divulge.explanations import KINDS, Explanation

ASSETS = ("training_data", "membership", "parameters", "integrity", "hyperparameters")
"What a model can give away, and what can be done to it; the first matters most."
LARGEST = sys.float_info.max
"Beyond this a whole number is no floating-point number."


class Access(Shown):
    """Something an attacker holds. Subclasses are values: frozen, checked, and known by their kind's name."""

    kinds: ClassVar[dict[str, type[Access]]] = {}
    kind: ClassVar[str] = "access"
    asset: ClassVar[str] = ""
    "What of the owner's is lost with it, one of `ASSETS`; empty where holding it is no loss."

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        Access.kinds[cls.kind] = cls


@dataclass(frozen=True, eq=False)
class Predictions(Access):
    """Values of a model at points of one's choice: a query answers one row."""

    value: Callable[[Array], Array]
    "Takes points (n, dimension), returns values (n, outputs) or (n,)."
    dimension: int
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    "What model this is. A bare function cannot tell, so by default none is like another and nothing is reused."
    service: Service | None = field(default=None, kw_only=True)
    "The server that answers; None for what is in memory."
    mean: Array | None = field(default=None, kw_only=True)
    "What the model subtracts from every input, where that is known."
    shape: tuple[int, ...] | None = field(default=None, kw_only=True)
    "Of one input when it is a picture: (height, width) or (height, width, 3)."
    first_layer: str = field(default="", kw_only=True)
    "The first layer that has weights, as in `0 (Conv2d)`, where it is known and not dense."
    start: tuple[Layer, ...] | None = field(default=None, kw_only=True)
    "The layers it was trained from, where these are public, as those of a checkpoint that was trained further."

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise BadInput(f"expected a positive input dimension, got {self.dimension}; give the width of one point")
        check_input(self, self.dimension)
        if self.start is not None:
            start = dense_layers(self.start, "the start")
            if start[0][0].shape[1] != self.dimension:
                raise BadInput(
                    f"expected a start with the {self.dimension} inputs of the model, got {start[0][0].shape[1]}; give the "
                    "network that this one was trained from"
                )
            object.__setattr__(self, "start", start)

    @classmethod
    def of(cls, model: object, shape: tuple[int, ...] | None = None, *, start: object = None) -> Self:
        """Query a torch module or a scikit-learn estimator that is in memory.

        A module that takes no rows of numbers is given points of `shape`: (3, 32, 32) for a convolution of colour pictures.
        `start` is the network it was trained from, where that is public.
        """
        found: Self = reader().queries(cls, model, shape)
        return found if start is None else replace(found, start=_layers_of(start))

    @classmethod
    def at(cls, url: str, **options: Any) -> Self:
        """Query a model on a server, with options as in an audit file: `protocol="mlflow"`, `dimension=784` ..."""
        found: Self = reader().connect(cls, url, options)
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Gradients(Predictions):
    """Values and input gradients at points of one's choice, as an explanation service answers."""

    gradient: Callable[[Array], Array]
    "Takes points (n, dimension), returns (n, dimension), or (n, outputs, dimension) for a full Jacobian."
    explanation: Explanation | None = None
    "What kind of explanations these are; None where nobody has looked."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.explanation is not None and getattr(self.explanation, "kind", None) not in KINDS:
            raise BadInput(
                f"expected an Explanation of a kind among {', '.join(KINDS)}, got {str(self.explanation)[:40]!r}; "
                "leave it out where the kind is not known"
            )


@dataclass(frozen=True, eq=False)
class Directions(Access):
    """Directions [g, β] in which training moved a first layer: its own rows, or combinations of them that answers show.

    Every input gradient of a network is a combination of the rows of its first layer, at any depth.
    """

    asset: ClassVar[str] = "training_data"

    rows: Array
    "(k, dimension + 1); the last column belongs to the bias."
    mean: Array | None = field(default=None, kw_only=True)
    "Subtracted from every input before the first layer, as people centre pictures."
    shape: tuple[int, ...] | None = field(default=None, kw_only=True)
    "Of one input when it is a picture: (height, width) or (height, width, 3)."
    precision: float | None = field(default=None, kw_only=True)
    "Errors of the rows, relative to their largest singular value; None where nobody knows them."
    answers: int = field(default=0, kw_only=True)
    "From how many answers of a model the rows are; 0 where they are a first layer's own."

    def __post_init__(self) -> None:
        rows = numbers(self.rows, "directions", dimensions=2)
        if len(rows) < 1 or rows.shape[1] < 2:
            raise BadInput(f"expected directions (rows, inputs and one for the bias), got shape {rows.shape}; correct rows")
        if self.precision is not None and not 0 <= self.precision < 1:
            raise BadInput(f"expected a relative precision from 0 to 1, got {self.precision}; leave it out if unknown")
        object.__setattr__(self, "rows", rows)
        check_input(self, self.dimension)

    @property
    def dimension(self) -> int:
        return int(self.rows.shape[1]) - 1


@dataclass(frozen=True, eq=False)
class Weights(Directions):
    """A fully connected ReLU network, read in full: x -> W_k relu(... relu(W_1 x + b_1) ...) + b_k.

    Who holds one holds the directions in which training moved it: the rows of its first layer.
    """

    asset: ClassVar[str] = "parameters"

    rows: Array = field(init=False, repr=False, metadata={"stored": False})
    precision: float | None = field(default=None, init=False, repr=False, metadata={"stored": False})
    answers: int = field(default=0, init=False, repr=False, metadata={"stored": False})
    layers: tuple[Layer, ...]
    exact: bool = True
    "False when the weights are a copy whose agreement was measured."
    agreement: float = 1.0
    "Share of check points on which a copy and the original agree."
    link: str = field(default="", kw_only=True)
    "What the model makes of the last scores, left off here: `sigmoid`, `softmax`, `log-softmax`; empty for nothing."
    folded: tuple[str, ...] = field(default=(), kw_only=True)
    "Layers and steps that scale and were folded into these: BatchNorm, a scaler. Training moved the layers in other units."
    start: tuple[Layer, ...] | None = field(default=None, kw_only=True)
    """The layers before training, where these are public, as those of a checkpoint that was trained further. Only the first
    ones where the head is new."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", dense_layers(self.layers, "a network"))
        object.__setattr__(self, "rows", np.column_stack(self.layers[0]))
        object.__setattr__(self, "folded", tuple(self.folded))
        super().__post_init__()
        if self.start is not None:
            object.__setattr__(self, "start", start_of(self.layers, dense_layers(self.start, "the start")))

    @classmethod
    def of(cls, model: object, *, start: object = None) -> Self:
        """Read a torch module of Linear, BatchNorm and ReLU layers, or a scikit-learn network, alone or behind scalers.

        `start` is the network it was trained from, where that is public.
        """
        return cls(**reader().weights(model), start=None if start is None else _layers_of(start))

    def predict(self, X: Array) -> Array:
        """Outputs (n, outputs) at points (n, dimension), before the `link`."""
        X = self.centred(X)
        for number, (W, b) in enumerate(self.layers):
            X = (np.maximum(X, 0) if number else X) @ W.T + b
        return X

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is not as in the model that this network was read from, a sentence each."""
        said = []
        if self.link:
            said.append(f"The network was read up to its scores, before the {self.link} that the model ends with.")
        if self.folded:
            said.append(
                f"Folded into the layers of the network: {', '.join(self.folded)}. It answers as before, but training moved "
                "layers in other units, and what rests on how they moved may miss it; read them alone where they can be."
            )
        return tuple(said)

    def centred(self, X: Array) -> Array:
        """Inputs as the first layer sees them."""
        return X if self.mean is None else X - self.mean


@dataclass(frozen=True, eq=False)
class Copy(Access):
    """A classifier trained to answer like another one: its architecture by name, and what it learned."""

    asset: ClassVar[str] = "parameters"

    architecture: str
    arrays: Mapping[str, Array]
    "What it learned, by torch's names."
    shape: tuple[int, ...]
    "Of one point; a picture is (height, width) or (height, width, 3), and flat when it is asked about."
    classes: int
    "How many outputs; 1 for a score that is positive for the second of two classes."
    agreement: float = 1.0
    "Share of check points on which the copy and the original name the same class."

    def __post_init__(self) -> None:
        if not self.arrays:
            raise BadInput("expected what a copy learned, got no arrays; pass them by their names in the network")
        kept = {name: numbers(value, f"{name!r} of the copy") for name, value in self.arrays.items()}
        object.__setattr__(self, "arrays", kept)
        object.__setattr__(self, "shape", tuple(int(side) for side in self.shape))

    def predict(self, X: Array) -> Array:
        """Logits (n, classes) at points (n, dimension)."""
        return Predictions.of(self).value(points(X, "query")).reshape(len(X), -1)

    def weights(self) -> Weights:
        """The same network as layers, for attacks that read weights; only a dense one has them."""
        values = list(self.arrays.values())
        if any(value.ndim != 2 - number % 2 for number, value in enumerate(values)):
            raise BadInput(f"expected a copy with dense layers only, got a {self.architecture} one; it has no such weights")
        return Weights(tuple(zip(values[::2], values[1::2], strict=True)), exact=False, agreement=self.agreement)


@dataclass(frozen=True)
class Kernel:
    """A kernel function by name, as scikit-learn spells it."""

    name: str
    gamma: float | None = None
    "None where the attacker does not know it."
    degree: float = 3
    coef0: float = 1


@dataclass(frozen=True, eq=False)
class Parameters(Access):
    """What a linear or kernel model learned, with nothing said about what learned it."""

    asset: ClassVar[str] = "parameters"

    coef: Array | None = None
    "(features,), or (outputs, features)"
    intercept: Array | None = None
    "None when nothing is known of one, or there is none."
    dual_coef: Array | None = None
    "One for each training point: (points,), or (points, outputs)."
    kernel: Kernel | None = None
    precision: float = 0.0
    "How far they may be off, in units of the largest coefficient: what an extraction from few digits leaves."

    def __post_init__(self) -> None:
        _check_learned(self, "model")


@dataclass(frozen=True, eq=False)
class Fitted(Access):
    """What a fitted classical learner gives away, and none of the hyperparameters it was fitted with.

    `Fitted.of(estimator)` reads a scikit-learn estimator; `Fitted("ridge", coef=w, intercept=c)` takes plain arrays.
    """

    asset: ClassVar[str] = "hyperparameters"

    learner: str
    coef: Array | None = None
    intercept: Array | None = None
    "None when the learner was fitted without one."
    dual_coef: Array | None = None
    kernel: Kernel | None = None
    more: Mapping[str, Array] = field(default_factory=dict)
    "What else was learned, by scikit-learn's names without their underscore: `support` of an SVM, `scale` of Huber's."
    layers: tuple[tuple[Array, Array], ...] = ()
    "Of a network: (W, b) with W of shape (units, previous units)."
    settings: Mapping[str, Any] = field(default_factory=dict)
    precision: float = 0.0
    "How far the coefficients may be off, in units of the largest; 0 where they are as they were learned."
    "What is commonly known of the training: solver, tolerance, positivity; never a hyperparameter."
    prepare: tuple[tuple[str, Array], ...] = ()
    "What a pipeline does to the data first, step by step: (`subtract`, mean), (`divide`, width), (`matmul`, axes) ..."
    steps: Preparation | None = None
    "The same where it is more than sums and products, as encoding text and filling gaps are."
    targets: Preparation | None = None
    "What is done to the targets first, as a TransformedTargetRegressor does."

    def __post_init__(self) -> None:
        if not isinstance(self.learner, str):
            raise BadInput(
                f"expected the name of a learner, got {type(self.learner).__name__}; read a model with Fitted.of(model)"
            )
        _check_learned(self, f"{self.learner} model")
        object.__setattr__(
            self, "more", {name: numbers(value, f"the {self.learner} model's {name}") for name, value in self.more.items()}
        )
        layers = tuple((numbers(W, "a layer's weights", 2), numbers(b, "a layer's bias", 1)) for W, b in self.layers)
        object.__setattr__(self, "layers", layers)
        prepare = tuple((kind, numbers(value, f"the step {kind!r} before the model")) for kind, value in self.prepare)
        object.__setattr__(self, "prepare", prepare)

    @classmethod
    def of(cls, model: object) -> Self:
        """Read a fitted scikit-learn estimator, a pipeline that ends in one, or a torch module of dense layers."""
        return cls(**reader().learned(model))

    def without_gamma(self) -> Self:
        """The same model for an attacker who knows the kind of kernel but not its bandwidth."""
        if self.kernel is None:
            raise BadInput(f"expected a model with a kernel, got a {self.learner} model; it has no gamma to hide")
        return replace(self, kernel=replace(self.kernel, gamma=None))

    def prepared(self, data: TrainingData) -> TrainingData:
        """The data as the learner saw it, after every step of its pipeline; sparse where it was given so."""
        X, y = data.X, data.y
        if self.steps is not None:
            X = self.steps.apply(X if isinstance(X, Table) or data.columns is None else Table(tuple(X.T), data.columns))
        if isinstance(X, Table):
            raise BadInput(
                f"expected numbers for a {self.learner} model, got {X.unfit} of the training points; pass the pipeline that "
                "prepares them, or the data as it enters the model"
            )
        if self.targets is not None and y is not None:
            y = self.targets.apply(y)
        return TrainingData(self._computed(X), y, data.sample_weight)

    def _computed(self, X: Array) -> Array:
        """Points after sums and products."""
        steps = {"subtract": np.subtract, "divide": np.divide, "add": np.add, "multiply": np.multiply, "matmul": np.matmul}
        refuse_unknown([kind for kind, _ in self.prepare], steps, "prepare")
        for kind, value in self.prepare:
            if (len(value) if kind == "matmul" else value.shape[-1]) != X.shape[1]:
                raise BadInput(
                    f"expected data of width {len(value)} for the step {kind!r} before the {self.learner} model, "
                    f"got {X.shape[1]}; pass the data as it entered the pipeline"
                )
            if is_sparse(X):
                X = _computed_sparse(X, kind, value)
            else:
                X = steps[kind](X, value)
        return X


@dataclass(frozen=True, eq=False)
class TrainingData(Access):
    """The points a model was trained on, with their labels where they are known."""

    asset: ClassVar[str] = "training_data"

    X: Array
    """Rows of numbers. A matrix of scipy.sparse stays one, and a pandas table with text or gaps becomes a `Table`: attacks
    that are `raw` take them."""
    y: Array | None = None
    sample_weight: Array | None = None
    shape: tuple[int, ...] | None = None
    "The shape of one point when it is a picture: (height, width) or (height, width, 3)."
    columns: tuple[str, ...] | None = None
    "What the features are called, where they have names."

    def __post_init__(self) -> None:
        X: Any = self.X
        columns = self.columns
        if is_frame(X):
            X, columns = frame_points(X, "training")
        elif is_sparse(X):
            X = sparse_points(X, "training")
        elif not is_raw(X):
            X = points(X, "training", or_else=", or pass a pandas DataFrame where the model's own pipeline prepares them")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "columns", None if columns is None or is_sparse(X) else tuple(columns))
        check_labels(self, "training")


@dataclass(frozen=True, eq=False)
class Candidates(Access):
    """Points whose membership in the training set is in question."""

    X: Array
    y: Array | None = None
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_points(self, "candidate")


@dataclass(frozen=True, eq=False)
class Hyperparameters(Access):
    """Settings of a learner's objective in its own units, each with an interval where one is known."""

    asset: ClassVar[str] = "hyperparameters"

    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.values:
            raise BadInput('expected at least one hyperparameter, got none; pass values={"alpha": 0.1}')
        for name, value in self.values.items():
            if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not abs(value) <= LARGEST:
                raise BadInput(
                    f"expected a finite number for hyperparameter {name!r}, got {str(value)[:40]!r}; correct its value"
                )
        object.__setattr__(self, "values", {name: float(value) for name, value in self.values.items()})

    @classmethod
    def of(cls, estimator: object) -> Self:
        """Read the hyperparameters an estimator was fitted with: the truth for an audit of it."""
        return cls(reader().secrets(estimator))


@dataclass(frozen=True, eq=False)
class Membership(Access):
    """How much each candidate looks like a member, and who is called one."""

    asset: ClassVar[str] = "membership"

    scores: Array
    decisions: Array
    records: Array | None = None
    "What the candidates are called: numbers or text, each once; None where rows have no names."

    def __post_init__(self) -> None:
        _check_scores(self)
        decisions = np.asarray(self.decisions)
        if not np.isin(decisions, (0, 1)).all():
            raise BadInput("expected true or false as membership decisions, got other values; decide by a threshold first")
        object.__setattr__(self, "decisions", frozen(decisions.astype(bool)))
        if len(self.scores) != len(self.decisions):
            raise BadInput(f"got {len(self.scores)} scores and {len(self.decisions)} decisions; give one of each a record")


@dataclass(frozen=True, eq=False)
class Scores(Access):
    """Membership scores that another tool made, of records that are called as in `Membership`."""

    scores: Array
    records: Array | None = None
    source: str = ""
    "What made them."

    def __post_init__(self) -> None:
        _check_scores(self)
        if not len(self.scores):
            raise BadInput("expected at least one membership score, got none; check where they were saved")


def _layers_of(network: object) -> tuple[Layer, ...]:
    """The layers of a start, given as a network or read already."""
    if isinstance(network, Weights):
        return network.layers
    return tuple(network) if isinstance(network, list | tuple) else tuple(reader().weights(network)["layers"])


def _computed_sparse(X: Any, kind: str, value: Array) -> Any:
    """One step of a pipeline on sparse points: what keeps a zero a zero."""
    if kind not in ("divide", "multiply"):
        raise BadInput(
            f"expected dense points for the step {kind!r} before the model, which leaves no entry 0, got sparse ones; "
            "pass them as .toarray()"
        )
    factor = 1 / value if kind == "divide" else value
    made = X.copy()
    made.data = X.data * factor[X.indices]
    return made


def _check_scores(access: Membership | Scores) -> None:
    object.__setattr__(access, "scores", numbers(access.scores, "membership scores", dimensions=1))
    if access.records is not None:
        object.__setattr__(access, "records", names(access.records, len(access.scores), "scores"))


def _check_learned(access: Any, what: str) -> None:
    for name in ("coef", "intercept", "dual_coef"):
        value = getattr(access, name)
        if value is not None:
            array = numbers(value, f"the {what}'s {name}")
            object.__setattr__(access, name, array.reshape(-1) if array.ndim == 0 else array)
    if access.coef is None and access.dual_coef is None and not getattr(access, "layers", ()):
        raise BadInput(f"expected coef or dual_coef of the {what}, got neither; pass what was learned")
