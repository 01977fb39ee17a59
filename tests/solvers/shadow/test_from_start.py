"""Members of networks whose start is known: exact after descent, learned from shadows after Adam."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from divulge.arrays import Array
from divulge.solvers.shadow import from_start
from divulge.solvers.shadow.from_start import Inference
from divulge.solvers.shadow.membership import ShadowInference, SpanInference
from divulge.victims import ordinary
from divulge.victims.ordinary import Trained

INPUTS, UNITS = 120, 24
OTHERS = 1000


@cache
def crowd() -> Array:
    """Features after a ReLU, of very different sizes."""
    rng = np.random.default_rng(0)
    sizes = rng.lognormal(0, 0.7, INPUTS)
    X = np.maximum(rng.standard_normal((OTHERS + 60, 60)) @ rng.standard_normal((60, INPUTS)) / 8 + 0.2, 0)
    return np.asarray(X * sizes)


@cache
def network(members: int, optimiser: str = "sgd", weight_decay: float = 0.0) -> Trained:
    options: dict[str, Any] = {"lr": 0.02, "momentum": 0.9} if optimiser == "sgd" else {"lr": 1e-3, "batch": 32}
    y = np.arange(members) % 2
    return ordinary.train(
        crowd()[:members],
        y,
        np.random.default_rng(1),
        hidden=(UNITS,),
        optimiser=optimiser,
        epochs=300,
        weight_decay=weight_decay,
        **options,
    )


def inferred(trained: Trained, X: Array) -> Inference:
    rows = from_start.moved(trained.layers, trained.start)
    rng = np.random.default_rng(2)
    return from_start.infer_from_start(rows, trained.layers, trained.start, X, None, None, rng, shadows=2)


@pytest.mark.parametrize("members", [12, 40])
def test_every_member_is_called_and_nobody_else_with_fewer_points_than_units_and_with_more(members: int) -> None:
    found = inferred(network(members), crowd())
    assert isinstance(found, SpanInference)
    called = found.scores > found.threshold
    assert called[:members].all()
    assert not called[members:].any()
    assert found.scores[:members].min() > 2 * found.scores[members:].max()
    assert not (found.controls > found.threshold).any()
    assert found.recall == 1


@pytest.mark.parametrize("members", [12, 28])
def test_what_decay_left_of_the_start_is_found_out(members: int) -> None:
    found = inferred(network(members, weight_decay=1e-3), crowd())
    called = found.scores > found.threshold
    assert called[:members].all()
    assert not called[members:].any()


def test_units_that_never_moved_do_not_hide_that_there_are_more_points_than_units() -> None:
    trained = network(40)
    rows = from_start.moved(trained.layers, trained.start)
    rows = np.vstack([rows, np.zeros((2, INPUTS + 1))])
    both = [[(np.pad(W, ((0, 2), (0, 0))), np.pad(b, (0, 2))), (np.pad(V, ((0, 0), (0, 2))), c)]
            for (W, b), (V, c) in (trained.layers, trained.start)]  # fmt: skip
    found = from_start.infer_from_start(rows, both[0], both[1], crowd(), None, None, np.random.default_rng(2))
    assert (found.scores[:40] > found.threshold).all()


def test_nobody_is_called_where_no_candidate_is_a_member() -> None:
    for trained in (network(12), network(40), network(20, "adam")):
        found = inferred(trained, crowd()[40:])
        assert np.mean(found.scores > found.threshold) <= 0.002


def test_everybody_may_be_a_member() -> None:
    found = inferred(network(12), crowd()[:12])
    assert (found.scores > found.threshold).all()


def test_members_of_a_network_trained_by_adam_are_told_by_shadows() -> None:
    found = inferred(network(20, "adam"), crowd())
    assert isinstance(found, ShadowInference)
    rare = np.quantile(found.scores[20:], 0.99)
    assert np.mean(found.scores[:20] > rare) > 0.5
    assert found.trained_on == UNITS


def test_adaptive_steps_are_told_from_descent() -> None:
    for members, optimiser in ((12, "sgd"), (40, "sgd"), (20, "adam")):
        trained = network(members, optimiser)
        rows = from_start.moved(trained.layers, trained.start)
        assert from_start.steps_are_adaptive(rows, trained.start, crowd()) == (optimiser == "adam")


@pytest.mark.parametrize("adaptive", [True, False])
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_shadow_begins_at_the_start_and_moves_as_far(adaptive: bool, outputs: int) -> None:
    rng = np.random.default_rng(0)
    X = crowd()[:30]
    y = np.where(np.arange(30) % 2, 1, -1) if outputs == 1 else np.arange(30) % outputs
    start = [
        (rng.normal(0, 0.1, (UNITS, INPUTS)), np.zeros(UNITS)),
        (rng.normal(0, 0.2, (outputs, UNITS)), np.zeros(outputs)),
    ]
    trained = from_start.train_from(start, X, y, 1.0, rng, adaptive=adaptive)
    moved = np.linalg.norm(trained[0][0] - start[0][0])
    assert 1 <= moved < 1.5
    still = from_start.train_from(start, X, y, 1.0, rng, adaptive=adaptive, passes=0)
    assert all(np.allclose(W, V, atol=1e-6) for (W, _), (V, _) in zip(still, start, strict=True))
