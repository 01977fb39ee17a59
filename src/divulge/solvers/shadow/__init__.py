"""Networks trained like the victim, on known points, and what they tell of membership."""
