"""Answers that show no image are not taken for any: too few directions, noise, a service that stops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.ndimage import gaussian_filter

from divulge import Context, Finding, Gradients, Verdict, Weights
from divulge.attacks.directions.answers import AnswerDirections
from divulge.contract import Directions
from divulge.defences import defended

SHAPE, OUTPUTS = (20, 20), 8


def service(pictures: int, noise: float = 0.0, units: int = 60) -> Gradients:
    """A network whose first layer so many smooth pictures moved, and noise."""
    rng = np.random.default_rng(7)
    X = gaussian_filter(rng.random((pictures, *SHAPE)) - 0.5, (0, 1, 1)).reshape(pictures, -1)
    W = rng.standard_normal((units, pictures)) @ X + noise * rng.standard_normal((units, 400))
    layers = ((W, rng.standard_normal(units)), (rng.standard_normal((OUTPUTS, units)), rng.standard_normal(OUTPUTS)))
    return replace(Gradients.of(Weights(layers)), shape=SHAPE)


def asked(held: Gradients) -> Finding[Directions]:
    return AnswerDirections()(held, context=Context(0))


def test_no_more_directions_than_outputs_are_what_tells_classes_apart() -> None:
    found = asked(service(OUTPUTS - 2))
    assert found.verdict is Verdict.NONE_FOUND
    assert "classes" in found.summary


def test_a_noisy_layer_is_not_called_linear() -> None:
    assert "linear" not in asked(service(OUTPUTS, noise=0.01)).summary


def test_what_a_service_answered_before_it_stopped_is_used() -> None:
    found = asked(defended(service(30), "query-limit", points=6))
    assert found.loot is not None
    assert found.loot.answers < 6
    assert "more answers" in found.summary
