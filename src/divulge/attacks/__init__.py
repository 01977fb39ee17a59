"""One file per leak, its paper in the docstring."""

from divulge.attacks.hyperparameters import HyperparameterStealing

__all__ = ["HyperparameterStealing"]
