"""Make the samples inside the package out of the full sets in the folder that DIVULGE_DATA names.

Beside the full sets of pictures the folder may hold cars.json, as the PyPI package vega_datasets 0.9.0 carries it.

    DIVULGE_DATA=folder python scripts/make_samples.py

The same full sets give the same samples: rows are drawn by a fixed seed, equally many of every class.
"""

from __future__ import annotations

import io
import json
import lzma
import os
from pathlib import Path

import numpy as np

from divulge.contract import Array
from divulge.datasets import pictures

SAMPLES = Path(__file__).parent.parent / "src" / "divulge" / "datasets" / "samples"
SIZES = {"mnist": (8000, 2000), "fashion-mnist": (3500, 700)}
"Training and test pictures: what fits in 3 MB. A picture of clothing takes nearly three times the room of a digit."
SEED = 0
CARS = {
    "cylinders": "Cylinders",
    "displacement": "Displacement",
    "horsepower": "Horsepower",
    "weight": "Weight_in_lbs",
    "acceleration": "Acceleration",
    "year": "Year",
    "miles_per_gallon": "Miles_per_Gallon",
}
"Column of the sample -> name in cars.json."


def main(folder: Path = SAMPLES) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for collection, sizes in SIZES.items():
        rng = np.random.default_rng(SEED)
        arrays = pictures.whole(collection)
        chosen: dict[str, Array] = {}
        X_train, y_train, X_test, y_test = arrays
        for part, size, X, y in (("train", sizes[0], X_train, y_train), ("test", sizes[1], X_test, y_test)):
            rows = in_turns(y, size, rng)
            chosen |= {f"x_{part}": X[rows], f"y_{part}": y[rows]}
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **chosen)
        path = folder / f"{pictures.COLLECTIONS[collection].file}.xz"
        path.write_bytes(lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    cars = Path(os.environ.get(pictures.FOLDER, ".")) / "cars.json"
    if cars.is_file():
        (folder / "cars.csv").write_text(table_of_cars(cars.read_text(encoding="utf-8")), encoding="utf-8")


def in_turns(y: Array, size: int, rng: np.random.Generator) -> Array:
    """Rows such that classes 0 to 9 take turns; any beginning of them is as balanced as can be."""
    return np.stack([rng.permutation(np.flatnonzero(y == label))[: size // 10] for label in range(10)], axis=1).ravel()


def table_of_cars(text: str) -> str:
    """The cars of which everything is known, a line each; of a date the year."""
    cars = [[car[name] for name in CARS.values()] for car in json.loads(text)]
    lines = [[str(value).removesuffix("-01-01") for value in car] for car in cars if None not in car]
    return "\n".join(",".join(line) for line in [[*CARS], *lines]) + "\n"


if __name__ == "__main__":
    main()
