"""Training points of networks with one input (Smorodinsky et al. 2024, arXiv:2410.07632, section 3)."""
