"""Training data from the weights of a network (Haim et al. 2022, arXiv:2206.07758)."""
