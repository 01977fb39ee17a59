"""Directions in which training moved a first layer, from answers of a model."""
