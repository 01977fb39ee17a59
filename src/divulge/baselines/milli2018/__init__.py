"""Algorithm 1 of Milli et al. 2018 (arXiv:1807.05185), as published."""
