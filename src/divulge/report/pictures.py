"""Pictures as PNG in the page itself, pixel for pixel; the browser enlarges them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from PIL import Image

from divulge.contract import Array, ImagePairs

PAIRS = 100
"Pairs shown of a figure."
POINTS = 45
"Pictures shown of what was won."
ROOM = 600_000
"Characters one gallery may take: large pictures are shown in smaller number, so that the page stays a page."


@dataclass(frozen=True)
class Picture:
    uri: str
    width: int
    height: int
    alt: str


Group = tuple[tuple[Picture, ...], str]
"Pictures side by side, and their caption."


@dataclass(frozen=True)
class Gallery:
    title: str
    groups: tuple[Group, ...]
    note: str = ""


def pairs(figure: ImagePairs, most: int = PAIRS) -> Gallery:
    """A figure's pairs, the first hundred at most."""
    total = min(len(figure.left), len(figure.right))
    sides = ((figure.left, figure.left_name), (figure.right, figure.right_name))
    groups = _that_fit(
        (
            tuple(picture(images[place], f"{name} {place + 1}") for images, name in sides),
            figure.captions[place] if place < len(figure.captions) else "",
        )
        for place in range(min(total, most))
    )
    shown = _shown(len(groups), total, "pairs")
    return Gallery(figure.title, groups, f"Left: {figure.left_name}. Right: {figure.right_name}. {shown}".rstrip())


def points(X: Array, shape: tuple[int, ...], labels: Array | None, what: str, most: int = POINTS) -> Gallery:
    """Rows as pictures, the first 45 at most."""
    within = bool(X[:most].min() >= -0.01 and X[:most].max() <= 1.01)
    named = labels is not None and labels.ndim == 1
    groups = _that_fit(
        (
            (picture((row if within else _stretched(row)).reshape(shape), f"{what} {place + 1}"),),
            _label(labels[place]) if named and labels is not None else "",
        )
        for place, row in enumerate(X[:most])
    )
    stretched = "" if within else "Each picture is stretched to its own darkest and lightest value."
    return Gallery("", groups, f"{_shown(len(groups), len(X), 'pictures')} {stretched}".strip())


def drawable(shape: tuple[int, ...] | None) -> bool:
    """Whether points of this shape are pictures: grey, or red, green and blue last."""
    return shape is not None and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3)))


def picture(values: Array, alt: str) -> Picture:
    """Values from 0 (black) to 1 as a PNG; what lies outside is clipped."""
    values = np.asarray(values, dtype=float)
    pixels = np.round(np.clip(np.nan_to_num(values, nan=0.0), 0, 1) * 255).astype(np.uint8)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    uri = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    return Picture(uri, pixels.shape[1], pixels.shape[0], alt)


def _that_fit(groups: Iterable[Group]) -> tuple[Group, ...]:
    """As many as there is room for, and one at least."""
    kept: list[Group] = []
    room = ROOM
    for group in groups:
        room -= sum(len(one.uri) for one in group[0])
        if room < 0 and kept:
            break
        kept.append(group)
    return tuple(kept)


def _stretched(row: Array) -> Array:
    stretched: Array = (row - row.min()) / (np.ptp(row) or 1.0)
    return stretched


def _shown(shown: int, total: int, what: str) -> str:
    return f"The first {shown} of {total:,} {what}." if shown < total else ""


def _label(label: object) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)
