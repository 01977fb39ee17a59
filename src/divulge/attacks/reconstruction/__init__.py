"""Training data from the weights of a network (Haim et al. 2022, arXiv:2206.07758)."""

from divulge.attacks.reconstruction.baselines import FirstLayerImages, ModelInversion
from divulge.attacks.reconstruction.kkt import KktReconstruction
from divulge.attacks.reconstruction.span import SpanReconstruction

__all__ = ["FirstLayerImages", "KktReconstruction", "ModelInversion", "SpanReconstruction"]
