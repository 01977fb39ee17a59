"""One file per leak, its paper in the docstring."""

from divulge.attacks.hyperparameters import (
    AlgorithmIdentification,
    HyperparameterStealing,
    RoundedRelease,
    TrainStealRetrain,
    train_steal_retrain,
)
from divulge.attacks.linear_extraction import LinearExtraction

__all__ = [
    "AlgorithmIdentification",
    "HyperparameterStealing",
    "LinearExtraction",
    "RoundedRelease",
    "TrainStealRetrain",
    "train_steal_retrain",
]
