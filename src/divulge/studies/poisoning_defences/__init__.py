"""Defences against contributed points, each met by an attack that knows it."""
