"""Inputs whose gradients add up to the weights: the objective, its derivatives, and the descent on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from divulge.arrays import Array, Layer
from divulge.baselines.haim2022 import published_kkt
from divulge.solvers.images.span import span
from divulge.solvers.kkt import descent as kkt_descent, pool as kkt_pool
from divulge.solvers.kkt.descent import Coordinates, Setup, Stationarity
from divulge.solvers.margin import kkt_residual, max_margin as md, weight_decay

RNG = np.random.default_rng


def network(*sizes: int, biases: bool = False) -> list[Layer]:
    return md.initial(RNG(0), sizes, first=None, biases=biases)


def objective(layers: list[Layer], counts: tuple[float, ...]) -> tuple[Stationarity, Coordinates]:
    rng = RNG(1)
    frame = np.linalg.qr(rng.standard_normal((layers[0][0].shape[1], 5)))[0].T
    space = Coordinates(rng.standard_normal((5, 5)) @ frame, rng.uniform(0.5, 2, 5), frame)
    return Stationarity(layers, space, counts, torch.float64), space


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "counts", "biases"),
    [((9, 7, 1), (1, 0.5), False), ((9, 7, 6, 1), (1, 0, 0.2), False), ((9, 7, 6, 3), (1, 0.5, 0.2), True)],
)
def test_the_hand_written_gradient_is_that_of_automatic_differentiation(
    sizes: tuple[int, ...], counts: tuple[float, ...], biases: bool
) -> None:
    stationarity, _ = objective(network(*sizes, biases=biases), counts)
    rng = RNG(2)
    Z = torch.tensor(rng.standard_normal((4, 5)), requires_grad=True)
    C = torch.tensor(rng.standard_normal((4, sizes[-1])), requires_grad=True)
    loss = by_torch(stationarity, Z, C, 3.0)
    if loss.item() >= 1:  # the sum points away from the weights: turn it round
        C = (-C).detach().requires_grad_()
        loss = by_torch(stationarity, Z, C, 3.0)
    slopes = torch.autograd.grad(loss, (Z, C))
    found, scale, dZ, dC = stationarity(Z.detach(), C.detach(), 3.0)
    assert found == pytest.approx(loss.item())
    assert scale > 0
    torch.testing.assert_close(dZ, slopes[0])
    torch.testing.assert_close(dC, slopes[1])


def by_torch(o: Stationarity, Z: torch.Tensor, C: torch.Tensor, alpha: float) -> torch.Tensor:
    """The same objective, differentiated by torch: forward passes have sigmoid slopes, as published."""
    z, values, slopes = Z @ o.into.T + o.shift, [Z], []
    for number, (W, b) in enumerate(o.deeper):
        slopes.append(torch.sigmoid(alpha * z))
        values.append(published_kkt._soft(z, alpha))
        if number < len(o.deeper) - 1:
            z = values[-1] @ W.T + b
    back = [C]
    for (W, _), slope in zip(reversed(o.deeper), reversed(slopes), strict=True):
        back.append((back[-1] @ W) * slope)
    back = back[::-1]
    sums = [back[0].T @ torch.cat([Z @ o.change, torch.full_like(Z[:, :1], o.bias)], dim=1)]
    sums += [o._row_sums(D, A, number) for number, (D, A) in enumerate(zip(back[1:], values[1:], strict=True), 1)]
    along = torch.stack([w * (T * g).sum() for w, T, g in zip(o.counts, o.targets, sums, strict=True)]).sum()
    square = torch.stack([w * (g * g).sum() for w, g in zip(o.counts, sums, strict=True)]).sum()
    return 1 - along**2 / square if along > 0 else 1 + 0 * along


def test_the_wish_for_a_margin_pulls_outputs_to_their_side() -> None:
    layers = network(9, 7, 1)
    stationarity, space = objective(layers, (1, 0.5))
    Z, C = torch.zeros((2, 5), dtype=torch.float64), torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    without = stationarity(Z, C, 500.0)[2]
    pulled = stationarity(Z, C, 500.0, margin=2.0, pull=1.0)[2] - without
    moved = (-0.1 * pulled / pulled.norm()).numpy() @ space.axes
    change = (md.forward(layers, moved)[-1] - md.forward(layers, 0 * moved)[-1])[:, 0]
    assert change[0] > 0 > change[1]


def test_of_several_classes_the_gap_is_pulled_to_the_margin() -> None:
    outputs = torch.tensor(RNG(0).standard_normal((6, 4)), requires_grad=True)
    right, margin = torch.arange(6) % 4, 1.5
    side = 2.0 * torch.eye(4, dtype=torch.float64)[right] - 1
    gaps = outputs[torch.arange(6), right][:, None] - outputs
    short = (torch.relu(1 - gaps / margin) * (side < 0)).square().sum() / 3
    slopes = torch.autograd.grad(short, outputs)[0]
    torch.testing.assert_close(kkt_descent._short_of(margin, outputs.detach(), side), -margin / 2 * slopes)
    assert not kkt_descent._short_of(margin, outputs.detach(), torch.zeros_like(side)).any()


# --- the conditions of Buzaglo et al. 2023


def gradients(layers: list[Layer], X: Array, counts: Array) -> list[Array]:
    """Σ_i Σ_c counts_ic ∇f_c(x_i) by automatic differentiation: weights and biases, layer by layer."""
    parts = [torch.tensor(part, requires_grad=True) for layer in layers for part in layer]
    value = torch.tensor(X)
    for number, (W, b) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        value = (value.relu() if number else value) @ W.T + b
    return [found.numpy() for found in torch.autograd.grad((value * torch.tensor(counts)).sum(), parts)]


def left(layers: list[Layer], X: Array, counts: Array) -> tuple[float, float]:
    """What inputs X and their counts leave of the weights, and the best scale: with slopes as they are, in all inputs."""
    frame = np.eye(X.shape[1])
    space = Coordinates(frame, np.ones(len(frame)), frame)
    found = Stationarity(layers, space, (1.0,) * len(layers), torch.float64)
    loss, scale, _, _ = found(torch.tensor(X), torch.tensor(counts), 1e6)
    return loss, scale


def test_each_wrong_class_counts_against_the_right_one() -> None:
    rng = RNG(0)
    layers, X, right = network(9, 7, 4), rng.standard_normal((5, 9)), np.arange(5) % 4
    multipliers = rng.uniform(0, 1, (5, 4))
    signs = 2 * np.eye(4)[right] - 1
    counts = kkt_descent.counted(torch.tensor(multipliers), torch.tensor(signs)).numpy()
    written = np.zeros_like(counts)
    for i, y in enumerate(right):
        for wrong in set(range(4)) - {y}:  # λ_ic ∇(f_y − f_c)
            written[i, y] += multipliers[i, wrong]
            written[i, wrong] -= multipliers[i, wrong]
    np.testing.assert_allclose(counts, written)
    for ours, theirs in zip(gradients(layers, X, counts), gradients(layers, X, written), strict=True):
        np.testing.assert_allclose(ours, theirs)


def test_slopes_in_multipliers_of_several_classes_are_those_of_automatic_differentiation() -> None:
    rng = RNG(1)
    multipliers = torch.tensor(rng.uniform(0, 1, (5, 4)), requires_grad=True)
    signs, slopes = torch.tensor(2 * np.eye(4)[np.arange(5) % 4] - 1), torch.tensor(rng.standard_normal((5, 4)))
    (theirs,) = torch.autograd.grad((kkt_descent.counted(multipliers, signs) * slopes).sum(), multipliers)
    torch.testing.assert_close(kkt_descent.counted_back(slopes, signs), theirs)


@pytest.mark.slow
def test_wrong_classes_against_the_right_one_explain_the_weights_of_a_margin() -> None:
    """Σ_c λ_ic ∇(f_y − f_c): wrong classes tie at the margin, so the best one alone, as published, stands for several."""
    rng = RNG(5)
    X, y = rng.standard_normal((9, 30)), np.arange(9) % 3
    layers = md.train(md.initial(rng, [30, 40, 3], first=1e-3), X, y, target=1e-12).layers
    found = kkt_residual.residual(layers, X, y)
    signs = 2.0 * np.eye(3)[y] - 1
    counts = kkt_descent.counted(torch.tensor(np.maximum(-found.multipliers, 0)), torch.tensor(signs)).numpy()
    np.testing.assert_allclose(counts, found.multipliers, atol=1e-9)
    assert left(layers, X, counts)[0] < 0.15
    assert left(layers, np.roll(X, 1, axis=0), counts)[0] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_slopes_of_the_loss_over_the_decay_are_the_multipliers_of_any_loss(loss: str) -> None:
    """θ = Σ l_i ∇f(x_i) with l_i = −ℓ'_i / (nμ), whose scale is then 1; of a regression they have both signs."""
    rng = RNG(4)
    X = rng.standard_normal((12, 30))
    y = rng.standard_normal(12) if loss == "squared" else np.arange(12) % 3
    start = md.initial(rng, [30, 25, 1 if loss == "squared" else 3], first=None)
    found = weight_decay.minimise(start, X, y, weight_decay=1e-2, loss=loss, rounded=True)
    share, scale = left(found.layers, X, found.multipliers)
    assert share < 0.1
    assert scale == pytest.approx(1, abs=0.1)
    assert left(found.layers, rng.standard_normal(X.shape), found.multipliers)[0] > 0.7
    if loss == "squared":
        assert found.multipliers.min() < 0 < found.multipliers.max()
    else:
        signs = 2.0 * np.eye(3)[y] - 1
        kept = np.maximum(-found.multipliers, 0)
        again = kkt_descent.counted(torch.tensor(kept), torch.tensor(signs)).numpy()
        np.testing.assert_allclose(again, found.multipliers, atol=1e-9)


def test_sparsity_has_the_gradient_it_says_and_is_lower_for_sparse_rows() -> None:
    rows = torch.tensor(RNG(3).standard_normal((3, 40)), requires_grad=True)
    value, slope = kkt_descent.sparsity(rows.detach())
    written = (rows.abs().sum(1) / rows.norm(dim=1)).sum() / (3 * 40**0.5)
    assert value == pytest.approx(written.item())
    torch.testing.assert_close(slope, torch.autograd.grad(written, rows)[0])
    assert kkt_descent.sparsity(rows.detach() ** 3)[0] < value


def trained(n: int = 8, d: int = 60) -> tuple[list[Layer], Array, Array]:
    rng = RNG(4)
    X, y = rng.standard_normal((n, d)), np.where(np.arange(n) % 2, 1, -1)
    run = md.train(md.initial(rng, [d, 100, 1]), X, y, target=1e-10)
    return run.layers, X, y


def test_a_descent_in_pieces_is_the_descent_at_once() -> None:
    layers, _, _ = trained()
    pool = kkt_pool.SearchSpace.of(layers, span(*layers[0]), None)
    setup, aim = Setup(40, softness=(10, 50), layers=(1.0, 0.1)), pool.objective("soft")
    start = pool.begin("soft", setup, kkt_pool.sides(16, 1), RNG(0))
    whole = pool.advance("soft", aim, setup, start, 40, lambda: None)
    parts = start
    for _ in range(4):
        parts = pool.advance("soft", aim, setup, parts, 10, lambda: None)
    np.testing.assert_array_equal(whole["points"], parts["points"])
    assert whole["loss"] == parts["loss"]
    assert whole["step"] == parts["step"] == 40


def test_descent_finds_points_that_random_points_of_the_span_are_not_like() -> None:
    layers, X, _ = trained()
    pool = kkt_pool.SearchSpace.of(layers, span(*layers[0]), None)
    setup, aim = Setup(500, softness=(10, 100), layers=(1.0, 0.1)), pool.objective("soft")
    state = pool.begin("soft", setup, kkt_pool.sides(32, 1), RNG(0))
    state = pool.advance("soft", aim, setup, state, 500, lambda: None)
    assert state["loss"] < 0.1
    found = pool.inputs(state) @ pool.plain.frame
    assert np.abs(np.corrcoef(found, X)[:32, 32:]).max(axis=0).mean() > 0.8


def test_the_published_objective_is_zero_where_weights_are_the_sum_of_gradients() -> None:
    """Points with one active unit each: W = Σ λ y v x, exactly; bias included."""
    x, v = np.array([[2.0, 0.0], [0.0, 2.0]]), np.array([[1.0, -1.0]])
    lam, y = np.array([1.0, 1.0]), np.array([1.0, -1.0])
    rows = (lam * y * v[0])[:, None] * np.column_stack([x, np.ones(2)])
    outputs = np.maximum(np.column_stack([x, np.ones(2)]) @ rows.T, 0)
    theta = [torch.tensor(part, requires_grad=True) for part in (rows[:, :2], rows[:, 2], v)]
    points = torch.tensor(x)
    loss = published_kkt.objective(theta, points, torch.tensor(lam), torch.tensor(y), 1e3, 0.0)
    left = np.linalg.norm(v - (lam * y) @ outputs) ** 2
    slopes = outputs > 0
    first = sum(np.outer(slopes[i] * v[0] * lam[i] * y[i], [*x[i], 1]) for i in range(2))
    assert loss.item() == pytest.approx(left + np.linalg.norm(rows - first) ** 2 + np.sum(np.maximum(x - 1, 0) ** 2))
