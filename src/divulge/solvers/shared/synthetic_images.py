"""Synthetic pictures, to train networks on where an attack has to show what it can find.

`strokes` are what pens leave: thin lines, most pixels exactly 0 or 1. `leaves` are what cameras see: flat things of all
sizes, each hiding what is behind it, lit unevenly.
"""

from __future__ import annotations

import numpy as np

from divulge.arrays import Array

PEN = 0.8
"Half the width of a stroke, in pixels of a picture 28 wide: 7 % of it is ink, half as much as in a digit."
FINE = 64  # points of a stroke that are drawn: closer than pixels
SHARPNESS = 2.5
"How steeply a stroke turns from 1 to 0, in pixels of a picture 28 wide: 5 % of them are grey, half as many as in a digit."
LEAVES, SMALLEST = 30, 3.0
"Discs of a picture, and the least radius of one, in pixels: power falls as 1/f^2.4 at 32 × 32, in photographs as 1/f²."
SHADE = 0.25
"By how much the light falls off across a leaf, in its contrast: little enough to leave neighbours alike."


def strokes(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """Pictures (count, pixels) from 0 to 1, each of a few smooth pen strokes on an empty ground."""
    height, width = shape[:2]
    scale = min(height, width) / 28
    rows, columns = np.mgrid[:height, :width]
    found = np.zeros((count, height, width))
    along = np.linspace(0, 1, FINE)[:, None]
    for picture in found:
        end = rng.uniform(0.2, 0.8, 2) * (height, width)
        for _ in range(rng.integers(1, 4)):
            start, bend = end, rng.uniform(0.0, 1.0, 2) * (height, width)
            end = rng.uniform(0.15, 0.85, 2) * (height, width)
            pen = (1 - along) ** 2 * start + 2 * along * (1 - along) * bend + along**2 * end
            away = np.hypot(rows[..., None] - pen[:, 0], columns[..., None] - pen[:, 1]).min(axis=-1) / scale
            thick = PEN * rng.uniform(0.8, 1.6)
            np.maximum(picture, np.clip(0.5 + (thick - away) * SHARPNESS / 2, 0, 1), out=picture)
    return _coloured(found, shape).reshape(count, -1)


def leaves(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """Pictures (count, pixels) from 0 to 1 of discs in front of discs, radii spread as r⁻³, as things in photographs."""
    height, width, channels = (*shape, 1)[:3]
    side = max(height, width)
    rows, columns = np.mgrid[:height, :width] / side
    found = np.zeros((count, height, width, channels))
    for picture in found:
        least, most = SMALLEST / side, 1.0
        radii = (least**-2 + rng.random(LEAVES) * (most**-2 - least**-2)) ** -0.5
        radii[0] = 2.0  # the ground
        base, contrast = rng.uniform(0.25, 0.75), rng.uniform(0.1, 0.22)
        for radius in np.sort(radii)[::-1]:
            centre, slope = rng.uniform(-0.1, 1.1, 2), SHADE * contrast * rng.standard_normal(2)
            inside = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 < radius**2
            shade = (rows - centre[0]) * slope[0] + (columns - centre[1]) * slope[1]
            colour = base + contrast * (rng.standard_normal() + 0.5 * rng.standard_normal(channels))
            picture[inside] = colour + shade[inside][:, None] / radius
        picture += 0.02 * rng.standard_normal(picture.shape)
    return np.asarray(np.clip(found, 0, 1).reshape(count, -1))


def _coloured(grey: Array, shape: tuple[int, ...]) -> Array:
    return grey if len(shape) == 2 else np.repeat(grey[..., None], shape[2], axis=-1)
