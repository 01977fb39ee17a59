"""Points that maximise a validation loss subject to training having converged, or stopped (Carnerero-Cano et al. 2021)."""
