"""How a dense ReLU network was trained, in the numbers that decide whether its images come back."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from divulge.contract import option_class
from divulge.errors import BadInput

Share = Annotated[float, Field(ge=0, lt=1)]
PIXELS = {"mnist": 784, "fashion-mnist": 784, "cifar10": 3072}
"Pixels of a picture, by the kind of picture."


@option_class
class Recipe:
    """Dense layers with ReLU between, a mean image taken from the inputs, the first layer drawn at random."""

    lr: PositiveFloat = 0.1
    "Learning rate."
    steps: PositiveInt = 1000
    "Updates of the weights."
    epochs: PositiveInt | None = None
    "Passes over the images, in the place of `steps`."
    weight_decay: NonNegativeFloat = 0.0
    "As torch's optimisers take it."
    momentum: Share = 0.0
    "Of `sgd`."
    optimiser: Literal["sgd", "adam", "adamw", "rmsprop"] = "sgd"
    "Of torch's."
    images: Annotated[int, Field(ge=4)] = 40
    "How many pictures it was trained on."
    batch: PositiveInt | None = None
    "Pictures an update; all unless given."
    hidden: Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = (200,)
    "Units of the hidden layers, the first first."
    start: PositiveFloat = 1.0
    "Size of the first layer's weights before training, torch's own being 1."
    classes: Annotated[int, Field(ge=2)] = 10
    "Two have one output and the logistic loss, more have one each and cross-entropy."
    label_noise: Share = 0.0
    "Share of the labels that are wrong."
    dropout: Share = 0.0
    "Behind every hidden layer."
    augmentation: Literal["none", "shift", "noise"] = "none"
    "What every step does to its pictures: moves each by up to a pixel, or adds noise of deviation 0.1."
    biases: bool = True
    "Whether layers have biases; `--biases=false` on the command line where they have none."
    precision: Literal["float32", "float64"] = "float32"
    "Of the training."
    data: Literal["mnist", "fashion-mnist", "cifar10"] = "mnist"
    "What the pictures are most like: strokes on black, grey things on black, photographs."

    def __post_init__(self) -> None:
        if self.momentum and self.optimiser != "sgd":
            raise BadInput(f"expected momentum for sgd alone, got it for {self.optimiser}; leave momentum out")
        if self.classes > self.images:
            raise BadInput(f"expected no more classes than images, got {self.classes} and {self.images}; correct classes")

    @property
    def passes(self) -> int:
        """Epochs, the last one full."""
        return -(-self.steps // self._an_epoch) if self.epochs is None else self.epochs

    @property
    def updates(self) -> int:
        return self.steps if self.epochs is None else self.epochs * self._an_epoch

    @property
    def travelled(self) -> float:
        """lr · steps / (1 − momentum): how far a unit slope moves a weight."""
        return self.lr * self.updates / (1 - self.momentum)

    @property
    def decay(self) -> float:
        """lr · weight decay · steps / (1 − momentum): the start is e to the minus this of what it was.

        0 for Adam and RMSprop, which rescale the penalty's slope with the loss's: no formula says what they leave.
        """
        return 0.0 if self.rescaled else self.travelled * self.weight_decay

    @property
    def left(self) -> float:
        """What is left of the start of a weight that training does not move, torch's own start being 1."""
        return self.start * math.exp(-self.decay)

    @property
    def adaptive(self) -> bool:
        return self.optimiser != "sgd"

    @property
    def rescaled(self) -> bool:
        """Whether weight decay is part of the slope that the optimiser rescales, as it is not of AdamW."""
        return self.optimiser in ("adam", "rmsprop")

    @property
    def pixels(self) -> int:
        return PIXELS[self.data]

    @property
    def _an_epoch(self) -> int:
        return -(-self.images // min(self.batch or self.images, self.images))

    @property
    def words(self) -> str:
        """What is not as `Recipe` has it, and what always counts."""
        usual = {field.name: field.default for field in fields(self)}
        always = ("optimiser", "lr", "weight_decay", "images", "hidden")
        told = {name: getattr(self, name) for name in usual if name not in ("steps", "epochs")}
        told = {name: value for name, value in told.items() if name in always or value != usual[name]}
        return ", ".join((*(f"{name} {spell(value)}" for name, value in told.items()), f"{self.updates} steps"))

    def training(self) -> dict[str, Any]:
        """As `divulge.victims.ordinary.train` takes it, but for what augments."""
        return {
            "hidden": self.hidden,
            "optimiser": self.optimiser,
            "lr": self.lr,
            "momentum": self.momentum,
            "weight_decay": self.weight_decay,
            "epochs": self.passes,
            "batch": None if self.batch is None or self.batch >= self.images else self.batch,
            "start": self.start,
            "dropout": self.dropout,
            "single": self.precision == "float32",
            "biases": self.biases,
        }


def spell(value: object) -> str:
    """A value of a recipe as people write it."""
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
