"""A paper's claims, one TOML file each in a folder a paper, and the reader that runs them: published, ours, verdict."""

from divulge.experiments.reader import Cell, Experiment, Outcome, Scale, names, parse, read, run

__all__ = ["Cell", "Experiment", "Outcome", "Scale", "names", "parse", "read", "run"]
