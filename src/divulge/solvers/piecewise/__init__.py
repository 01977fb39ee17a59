"""Units of a piecewise linear function from its gradients or its values (Milli et al. 2018; Carlini et al. 2020)."""
