"""Training data from the weights of a network (Haim et al. 2022, arXiv:2206.07758)."""

from divulge.attacks.reconstruction.baselines import FirstLayerImages, ModelInversion

__all__ = ["FirstLayerImages", "ModelInversion"]
