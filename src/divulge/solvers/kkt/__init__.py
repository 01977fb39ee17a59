"""Points whose gradients add up to the weights, as the KKT conditions say of training points (Haim et al. 2022)."""
