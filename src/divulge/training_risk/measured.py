"""The trainings that were measured, as they lie in the package."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from divulge.training_risk.recipe import Recipe

HALF = 0.5
"Share of the images from which a training counts as one that gives its images back."


@dataclass(frozen=True)
class Measured:
    """Trainings by one recipe, each on images of its own."""

    recipe: Recipe
    shares: tuple[float, ...]
    "Of the images that came back, a training each: claimed and at NCC > 0.9, one to one."
    nulls: tuple[float, ...]
    "The same claims against as many images that were not trained on."
    cell: str
    "`plane` and `axis` vary one recipe by a factor or two; `random` are drawn from anywhere."

    @property
    def share(self) -> float:
        return sum(self.shares) / len(self.shares)


@dataclass(frozen=True)
class Fit:
    """A logistic regression of the share on features, and what it said of each recipe when it did not know it."""

    names: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    constant: float
    left_out: tuple[float, ...]
    "In the order of `measured()`: the log-odds of its share, fitted on other recipes."
    half: tuple[float, float]
    "Slope and offset by which those log-odds become the log-odds of half the images or more."
    away: float
    "How far from the nearest other recipe those are that are furthest from it: 99 of 100 are nearer."


@cache
def measured() -> tuple[Measured, ...]:
    """Every recipe once, in the order of the file."""
    found: dict[Recipe, list[Mapping[str, str]]] = {}
    with (files("divulge.training_risk") / "measured.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["verdict"] != "unfinished":
                found.setdefault(_recipe(row), []).append(row)
    return tuple(
        Measured(recipe, _shares(rows, "back"), _shares(rows, "null"), rows[0]["cell"]) for recipe, rows in found.items()
    )


@cache
def fit() -> Fit:
    text = (files("divulge.training_risk") / "fitted.json").read_text(encoding="utf-8")
    told: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()
    }
    return Fit(**told)


def _shares(rows: list[Mapping[str, str]], part: str) -> tuple[float, ...]:
    return tuple(int(row[part]) / int(row["images"]) for row in rows)


def _recipe(row: Mapping[str, str]) -> Recipe:
    return Recipe(
        lr=float(row["lr"]),
        steps=int(row["steps"]),
        epochs=int(row["epochs"]) if row["epochs"] else None,
        weight_decay=float(row["weight_decay"]),
        momentum=float(row["momentum"]),
        optimiser=row["optimiser"],  # type: ignore[arg-type]  # pydantic checks what the file says
        images=int(row["images"]),
        batch=int(row["batch"]) if row["batch"] else None,
        hidden=tuple(map(int, row["hidden"].split())),
        start=float(row["start"]),
        classes=int(row["classes"]),
        label_noise=float(row["label_noise"]),
        dropout=float(row["dropout"]),
        augmentation=row["augmentation"],  # type: ignore[arg-type]
        biases=row["biases"] == "True",
        precision=row["precision"],  # type: ignore[arg-type]
        data=row["data"],  # type: ignore[arg-type]
    )
