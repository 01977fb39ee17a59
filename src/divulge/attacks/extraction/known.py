"""What is known of a model beside its answers goes with the copy that is made of them."""

from __future__ import annotations

from dataclasses import replace

from divulge.contract import Predictions, Weights
from divulge.solvers.directions import known_start

FOUND = "Units were paired with those of the public start by correlation, and brought to their scale."
NOT_FOUND = "The copy's units are unlike those of the start that was given, so that it tells nothing of them."


def with_what_is_known(loot: Weights, held: Predictions) -> tuple[Weights, tuple[str, ...]]:
    """The copy with the shape of an input, what is subtracted from it first, and the start; and what to say of these."""
    (W, b), *rest = loot.layers
    if held.mean is not None:
        b = b + W @ held.mean  # answers do not tell it from the bias
    loot = replace(loot, layers=((W, b), *rest), mean=held.mean, shape=held.shape)
    if held.start is None or not rest:
        return loot, ()
    pair = known_start.matched((W, b), held.start[0])
    if pair is None:
        return loot, (NOT_FOUND,)
    scale, start = pair
    (V, c), *last = rest
    scaled = ((W * scale[:, None], b * scale), (V / scale, c), *last)
    return replace(loot, layers=scaled, start=(start,)), (FOUND,)
