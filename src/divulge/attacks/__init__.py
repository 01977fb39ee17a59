"""One leak a folder, its paper in the docstring. Attacks are imported when they are used."""

from typing import TYPE_CHECKING

from divulge.lazy import importer

_HOMES = {
    "AlgorithmIdentification": "hyperparameters.identification",
    "FeatureReconstruction": "reconstruction.features",
    "GradientExtraction": "extraction.gradients",
    "HyperparameterStealing": "hyperparameters.stealing",
    "ImportedMembership": "membership.imported",
    "KktReconstruction": "reconstruction.kkt",
    "LinearExtraction": "extraction.linear",
    "MarginMembership": "membership.margin",
    "Poisoning": "poisoning.attack",
    "SpanMembership": "membership.span",
    "SpanReconstruction": "reconstruction.span",
    "Surrogate": "extraction.surrogate",
    "UnivariateFromValues": "univariate.reconstruction",
    "UnivariateReconstruction": "univariate.reconstruction",
    "ValueExtraction": "extraction.values",
}
__all__ = sorted(_HOMES)
__getattr__ = importer(__name__, _HOMES)

if TYPE_CHECKING:
    from divulge.attacks.extraction.gradients import GradientExtraction as GradientExtraction
    from divulge.attacks.extraction.linear import LinearExtraction as LinearExtraction
    from divulge.attacks.extraction.surrogate import Surrogate as Surrogate
    from divulge.attacks.extraction.values import ValueExtraction as ValueExtraction
    from divulge.attacks.hyperparameters.identification import AlgorithmIdentification as AlgorithmIdentification
    from divulge.attacks.hyperparameters.stealing import HyperparameterStealing as HyperparameterStealing
    from divulge.attacks.membership.imported import ImportedMembership as ImportedMembership
    from divulge.attacks.membership.margin import MarginMembership as MarginMembership
    from divulge.attacks.membership.span import SpanMembership as SpanMembership
    from divulge.attacks.poisoning.attack import Poisoning as Poisoning
    from divulge.attacks.reconstruction.features import FeatureReconstruction as FeatureReconstruction
    from divulge.attacks.reconstruction.kkt import KktReconstruction as KktReconstruction
    from divulge.attacks.reconstruction.span import SpanReconstruction as SpanReconstruction
    from divulge.attacks.univariate.reconstruction import (
        UnivariateFromValues as UnivariateFromValues,
        UnivariateReconstruction as UnivariateReconstruction,
    )
