"""λ from the stationarity of a regularised objective: ∇L(w) + λ ∇R(w) = 0 (Wang and Gong 2018)."""
