"""Superfluous candidates are left out at a price, and what is left goes on with new ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

from divulge.arrays import Array
from divulge.solvers.images.span import span
from divulge.solvers.kkt import descent as kkt_descent, pool as kkt_pool, rounds
from divulge.solvers.kkt.descent import Coordinates, Setup, State, Stationarity
from divulge.solvers.kkt.pool import SearchSpace
from divulge.solvers.margin import max_margin
from divulge.solvers.shared import synthetic_images

RNG = np.random.default_rng


def small(biases: bool = False, outputs: int = 1) -> tuple[Stationarity, torch.Tensor, torch.Tensor]:
    rng = RNG(0)
    frame = np.linalg.qr(rng.standard_normal((9, 5)))[0].T
    space = Coordinates(rng.standard_normal((5, 5)) @ frame, rng.uniform(0.5, 2, 5), frame)
    layers = max_margin.initial(rng, (9, 7, 6, outputs), first=None, biases=biases)
    aim = Stationarity(layers, space, (1, 0.5, 0.2), torch.float64)
    return aim, torch.tensor(rng.standard_normal((4, 5))), torch.tensor(rng.uniform(0.5, 1, (4, outputs)))


@pytest.mark.parametrize(("biases", "outputs"), [(False, 1), (True, 3)])
def test_inner_products_of_gradients_say_what_the_objective_says(biases: bool, outputs: int) -> None:
    aim, Z, C = small(biases, outputs)
    products, right = aim.shares(Z, C, 3.0)
    if right.sum() < 0:
        C, right = -C, -right
    loss, scale, _, _ = aim(Z, C, 3.0)
    assert 1 - 2 * scale * float(right.sum()) + scale**2 * float(products.sum()) == pytest.approx(loss)


def problem(many: int = 30) -> tuple[Array, Array, Array]:
    A = RNG(1).standard_normal((40, many))
    return A, A @ np.where(np.arange(many) % 3, 0.0, 1.0) + 0.1 * RNG(2).standard_normal(40), A.T @ A


def test_at_no_price_multipliers_are_those_of_non_negative_least_squares() -> None:
    A, b, products = problem()
    found, loss = rounds.priced(torch.tensor(products), torch.tensor(A.T @ b), 0.0)
    best, left = nnls(A, b)
    assert found == pytest.approx(best, abs=1e-3)
    assert loss - 1 + b @ b == pytest.approx(left**2, rel=1e-2)


def test_a_price_leaves_those_whose_correlation_with_the_rest_reaches_it() -> None:
    A, b, products = problem()
    price = 0.5
    found, _ = rounds.priced(torch.tensor(products), torch.tensor(A.T @ b), price)
    rest = (A.T @ (b - A @ found)) / np.linalg.norm(A, axis=0)
    assert rest[found > 0] == pytest.approx(np.full(np.sum(found > 0), price), abs=1e-3)
    assert rest[found == 0].max() <= price + 1e-3
    free, _ = rounds.priced(torch.tensor(products), torch.tensor(A.T @ b), 0.0)
    assert 0 < np.sum(found > 0) < np.sum(free > 0)


def test_a_candidate_without_a_gradient_is_left_out() -> None:
    products, right = torch.diag(torch.tensor([1.0, 0.0, 4.0])), torch.tensor([0.5, 0.0, 2.0])
    assert rounds.priced(products, right, 0.0)[0] == pytest.approx([0.5, 0, 0.5])


def pictured(n: int = 10) -> tuple[SearchSpace, Array]:
    X = synthetic_images.leaves(RNG(3), n, (8, 8))
    X, y = X - X.mean(axis=0), np.where(np.arange(n) % 2, 1, -1)
    layers = max_margin.train(max_margin.initial(RNG(4), [64, 60, 1]), X, y, target=1e-8).layers
    return SearchSpace.of(layers, span(*layers[0]), (8, 8)), X


def searched(space: SearchSpace, setup: Setup, *pieces: int) -> State:
    name = kkt_pool.IN_ROUNDS
    state = space.begin(name, setup, space.signs(20), RNG(5))
    for piece in pieces:
        state = space.advance(name, space.objective(name), setup, state, piece, lambda: None)
    return state


def test_rounds_in_pieces_are_the_rounds_at_once_and_end_with_fewer_candidates() -> None:
    space, _ = pictured()
    setup = space.menu(30, 3.0)[kkt_pool.IN_ROUNDS]
    assert (setup.steps, setup.rounds) == (60, 6)
    whole, parts = searched(space, setup, 60), searched(space, setup, 7, 20, 100)
    np.testing.assert_array_equal(whole["points"], parts["points"])
    assert whole["step"] == parts["step"] == 60
    assert whole["name"] == kkt_pool.IN_ROUNDS
    assert 0 < len(whole["points"]) < 20
    assert len(whole["points"]) == len(whole["multipliers"]) == len(whole["signs"])
    assert (whole["multipliers"] > 0).any(axis=1).all()
    assert whole["loss"] < 0.5


def test_what_is_needed_of_points_and_noise_is_mostly_points() -> None:
    space, X = pictured()
    axes = space.axes(kkt_pool.IN_ROUNDS).axes
    noise = 0.3 * RNG(6).standard_normal((30, len(axes)))
    points = np.concatenate([X @ np.linalg.pinv(axes), noise])
    signs = np.concatenate([np.where(np.arange(10) % 2, 1.0, -1.0), space.signs(30)[:, 0]])[:, None]
    state: State = {"points": points.astype(np.float32), "multipliers": np.ones((40, 1), np.float32), "step": 0}
    state |= {"signs": signs.astype(np.float32), "first signs": np.zeros((20, 1), np.float32)}
    kept = rounds.needed(space.objective(kkt_pool.IN_ROUNDS), state, 30.0)
    distance = np.linalg.norm(kept["points"][:, None] - state["points"][None, :10], axis=2).min(axis=1)
    right, wrong = np.sum(distance == 0), np.sum(distance > 0)
    assert right >= 5
    assert wrong / 30 < right / 10
    assert kept["loss"] < 0.5


def test_in_whitened_coordinates_photographs_are_white() -> None:
    frame = np.linalg.qr(RNG(0).standard_normal((64, 12)))[0].T
    covariance = kkt_pool.spectrum(frame, (8, 8))
    space = kkt_pool.whitened(frame, *np.linalg.eigh(covariance))
    into = space.axes @ frame.T
    assert into.T @ into == pytest.approx(covariance)
    assert space.weights * np.linalg.norm(space.axes, axis=1) == pytest.approx(np.linalg.norm(space.axes[0]))
    assert space.frame @ space.frame.T == pytest.approx(np.eye(12))


@pytest.mark.parametrize("shape", [(12, 10), (12, 10, 3)])
def test_waves_are_orthonormal_slowest_first_and_as_large_as_photographs(shape: tuple[int, ...]) -> None:
    frame, deviations = kkt_pool.waves(shape)
    assert frame @ frame.T == pytest.approx(np.eye(len(frame)), abs=1e-12)
    assert len(frame) == 100 * (shape[2] if len(shape) == 3 else 1)
    assert np.ptp(frame[0]) == pytest.approx(0, abs=1e-12)
    assert np.sum(deviations**2) == pytest.approx(kkt_pool.SHADE**2 * frame.shape[1])
    grey = deviations[:: len(frame) // 100]
    assert (np.diff(grey) <= 1e-12).all()
    assert grey[0] > 5 * grey[-1]


def test_beside_a_start_layers_count_by_its_variance() -> None:
    """Noise of a start counts 1 for each number, whatever layer it is in."""
    layers = max_margin.initial(RNG(0), [300, 400, 200, 1], first=None)
    space = SearchSpace.beside(layers, (10, 10, 3))
    setup = space.menu(10, 3.0)[kkt_pool.BESIDE_START]
    numbers = len(space.plain.frame) * 400, 400 * 200, 200
    assert setup.layers == pytest.approx(numbers, rel=0.2)
    assert setup.prior == pytest.approx(1 / sum(setup.layers))


@pytest.mark.parametrize(("first", "torch_like"), [(None, True), (1e-4, False)])
def test_torchs_own_start_is_told_by_its_size(first: float | None, torch_like: bool) -> None:
    W, b = max_margin.initial(RNG(0), [300, 200, 1], first=first)[0]
    assert kkt_pool.starts_as_torch(W, span(W, b).noise) == torch_like


def test_a_prior_makes_coordinates_smaller() -> None:
    space, _ = pictured()
    sizes = []
    for prior in (0.0, 0.1):
        setup = Setup(50, softness=(30, 30), layers=(1.0, 0.1), prior=prior)
        state = kkt_descent.begin(setup, space.signs(20), len(space.plain.axes), RNG(0))
        aim = Stationarity(space.layers, space.plain, setup.layers)
        sizes.append(float(np.linalg.norm(kkt_descent.advance(aim, setup, state, 50)["points"])))
    assert sizes[1] < 0.8 * sizes[0]
