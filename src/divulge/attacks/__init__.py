"""One file per leak, its paper in the docstring."""

from divulge.attacks.hyperparameters import AlgorithmIdentification, HyperparameterStealing
from divulge.attacks.linear_extraction import LinearExtraction

__all__ = ["AlgorithmIdentification", "HyperparameterStealing", "LinearExtraction"]
