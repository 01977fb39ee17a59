"""Points that someone could contribute to a training set (Carnerero-Cano et al. 2021, arXiv:2105.10948)."""
