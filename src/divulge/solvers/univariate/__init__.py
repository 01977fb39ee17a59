"""Networks with one input as polylines, and the points that lie on their margin (Smorodinsky et al. 2024)."""
