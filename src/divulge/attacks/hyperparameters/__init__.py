"""Hyperparameters of the objective, from what the training left behind (Wang and Gong 2018, arXiv:1802.05351)."""
