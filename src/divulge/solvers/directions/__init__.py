"""Combinations of the rows of a network's first layer, from what it answers."""
