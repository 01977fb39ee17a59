"""What Haim et al. 2022 (arXiv:2206.07758) compare with, and their own loss and optimiser as published."""
