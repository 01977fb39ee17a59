"""A model from its answers (Milli et al. 2018, arXiv:1807.05185; Carlini et al. 2020; Tramèr et al. 2016)."""
