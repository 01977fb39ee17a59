"""A plug-in that takes the name of an attack that comes with divulge."""

from typing import ClassVar

from divulge.contract import Attack, Hyperparameters, TrainingData, option_class


@option_class
class Impostor(Attack[TrainingData, Hyperparameters]):
    """Not what its name says."""

    name: ClassVar[str] = "hyperparameters"
