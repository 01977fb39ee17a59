"""The types of numbers that every room shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

Layer = tuple[Array, Array]
"Weights (units, previous units) and bias (units,) of a dense layer."

Layers = Sequence[Layer]
"A fully connected network, first layer first."

TwoLayers = tuple[Layer, Layer]
"A network with one hidden layer."
