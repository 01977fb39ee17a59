"""Training points of networks with one input."""

from divulge.attacks.univariate.reconstruction import UnivariateFromValues, UnivariateReconstruction

__all__ = ["UnivariateFromValues", "UnivariateReconstruction"]
