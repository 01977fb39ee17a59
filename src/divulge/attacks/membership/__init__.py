"""Who was in the training set (Smorodinsky et al. 2024, arXiv:2410.07632)."""
