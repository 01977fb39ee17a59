"""One file per leak, its paper in the docstring."""

from divulge.attacks.gradient_extraction import GradientExtraction
from divulge.attacks.hyperparameters import (
    AlgorithmIdentification,
    HyperparameterStealing,
    RoundedRelease,
    TrainStealRetrain,
    train_steal_retrain,
)
from divulge.attacks.linear_extraction import LinearExtraction
from divulge.attacks.published_extraction import PublishedExtraction
from divulge.attacks.reconstruction import FirstLayerImages, KktReconstruction, ModelInversion, SpanReconstruction
from divulge.attacks.surrogate import BlindSurrogate, Surrogate
from divulge.attacks.value_extraction import ValueExtraction

__all__ = [
    "AlgorithmIdentification",
    "BlindSurrogate",
    "FirstLayerImages",
    "GradientExtraction",
    "HyperparameterStealing",
    "KktReconstruction",
    "LinearExtraction",
    "ModelInversion",
    "PublishedExtraction",
    "RoundedRelease",
    "SpanReconstruction",
    "Surrogate",
    "TrainStealRetrain",
    "ValueExtraction",
    "train_steal_retrain",
]
