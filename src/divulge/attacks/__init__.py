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
from divulge.attacks.membership import ImportedMembership, MarginMembership, MarginRehearsal, SpanMembership
from divulge.attacks.poisoning import Poisoning, PoisoningDefences, PoisonMap
from divulge.attacks.published_extraction import PublishedExtraction
from divulge.attacks.reconstruction import FirstLayerImages, KktReconstruction, ModelInversion, SpanReconstruction
from divulge.attacks.surrogate import BlindSurrogate, Surrogate
from divulge.attacks.univariate import UnivariateFromValues, UnivariateReconstruction
from divulge.attacks.value_extraction import ValueExtraction

__all__ = [
    "AlgorithmIdentification",
    "BlindSurrogate",
    "FirstLayerImages",
    "GradientExtraction",
    "HyperparameterStealing",
    "ImportedMembership",
    "KktReconstruction",
    "LinearExtraction",
    "MarginMembership",
    "MarginRehearsal",
    "ModelInversion",
    "PoisonMap",
    "Poisoning",
    "PoisoningDefences",
    "PublishedExtraction",
    "RoundedRelease",
    "SpanMembership",
    "SpanReconstruction",
    "Surrogate",
    "TrainStealRetrain",
    "UnivariateFromValues",
    "UnivariateReconstruction",
    "ValueExtraction",
    "train_steal_retrain",
]
