"""Gradients through training, against finite differences, plain autograd and a closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from divulge.solvers.bilevel import hypergradient as hg

MODES = [hg.reverse, hg.forward]
OPTIONS: dict[str, Any] = {"steps": 8, "rate": 0.3}


class Attentive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1, batch_first=True)
        self.last = nn.Linear(2, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        pairs = X.reshape(len(X), -1, 2)
        found: torch.Tensor = self.last(self.attention(pairs, pairs, pairs, need_weights=False)[0].mean(dim=1))
        return found


def network(kind: str) -> tuple[nn.Module, tuple[int, ...], int]:
    """A module with fresh weights, the shape of a point, and the number of classes."""
    torch.manual_seed(5)
    if kind == "logistic regression":
        return nn.Linear(4, 1), (4,), 2
    if kind == "two layers":
        return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), (4,), 2
    if kind == "three classes":
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), (4,), 3
    if kind == "attention":
        return Attentive(), (4,), 2
    return nn.Sequential(nn.Conv2d(1, 2, 2), nn.Softplus(), nn.Flatten(), nn.Linear(8, 1)), (1, 3, 3), 2


def problem(
    kind: str, points: int = 2, groups: list[int] | None = None, dtype: torch.dtype = torch.float64
) -> tuple[hg.Inner, hg.Outer, hg.Tensors, hg.Tensors]:
    """Inner, outer, start and hyperparameters."""
    module, shape, classes = network(kind)
    module, rng = module.to(dtype), torch.Generator().manual_seed(7)

    def some(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(n, *shape, generator=rng).to(dtype), torch.arange(n) % classes

    loss = hg.logistic if classes == 2 else functional.cross_entropy
    X, y = some(15)
    added, targets = some(points)
    inner, start = hg.penalised(module, X, y, targets, loss, groups)
    logs = torch.tensor(0.7, dtype=dtype) if groups is None else torch.linspace(-1, 1, max(groups) + 1, dtype=dtype)
    return inner, hg.validation(module, *some(20), loss), start, (added, logs)


def differences(inner: hg.Inner, outer: hg.Outer, start: hg.Tensors, hyper: hg.Tensors) -> list[torch.Tensor]:
    def value(moved: hg.Tensors) -> float:
        return outer(hg.train(inner, start, moved, **OPTIONS)[-1]).item()

    found, step = [], 1e-5
    for number, part in enumerate(hyper):
        slopes = torch.zeros_like(part)
        for place in range(part.numel()):
            ends = []
            for sign in (1, -1):
                moved = part.clone()
                moved.view(-1)[place] += sign * step
                ends.append(value((*hyper[:number], moved, *hyper[number + 1 :])))
            slopes.view(-1)[place] = (ends[0] - ends[1]) / (2 * step)
        found.append(slopes)
    return found


def close(found: hg.Tensors, known: Any, share: float) -> bool:
    """Within this share of each tensor's largest entry."""
    pairs = list(zip(found, known, strict=True))
    return all(a.shape == b.shape and (a - b).abs().max() <= share * b.abs().max() for a, b in pairs)


KINDS = ["logistic regression", "two layers", "convolution", "three classes", "attention"]


@pytest.mark.parametrize("kind", KINDS)
def test_both_modes_agree_with_finite_differences_and_with_each_other(kind: str) -> None:
    asked = problem(kind)
    known = differences(*asked)
    back, along = (mode(*asked, **OPTIONS) for mode in MODES)
    assert close(back.gradients, known, 1e-6)
    assert close(along.gradients, known, 1e-6)
    assert close(along.gradients, back.gradients, 1e-10)
    assert along.value == back.value
    assert back.rate == along.rate == OPTIONS["rate"]


@pytest.mark.parametrize("kind", KINDS)
def test_reverse_is_what_autograd_finds_through_the_unrolled_loop(kind: str) -> None:
    inner, outer, start, hyper = problem(kind, points=10)
    leaves = tuple(part.clone().requires_grad_() for part in hyper)
    weights = tuple(part.clone().requires_grad_() for part in start)
    for _ in range(OPTIONS["steps"]):
        slopes = torch.autograd.grad(inner(weights, leaves), weights, create_graph=True)
        weights = tuple(w - OPTIONS["rate"] * slope for w, slope in zip(weights, slopes, strict=True))
    known = torch.autograd.grad(outer(weights), leaves)
    found = hg.reverse(inner, outer, start, hyper, **OPTIONS)
    assert close(found.gradients, known, 1e-12)
    assert found.value == pytest.approx(outer(weights).item(), rel=1e-14)
    assert close(found.end, weights, 1e-14)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("groups", [[0, 1], [1, 0], [0, 0]])
def test_each_group_of_weights_has_a_penalty_of_its_own(mode: Any, groups: list[int]) -> None:
    asked = problem("two layers", groups=groups)
    assert close(mode(*asked, **OPTIONS).gradients, differences(*asked), 1e-6)


def test_a_penalty_for_all_moves_as_those_of_each_weight_together() -> None:
    inner, outer, start, (points, log) = problem("two layers")
    one = hg.reverse(inner, outer, start, (points, log), **OPTIONS)
    each = hg.reverse(inner, outer, start, (points, log.repeat(2)), **OPTIONS)
    assert each.value == one.value
    assert each.gradients[1].sum().item() == pytest.approx(one.gradients[1].item(), rel=1e-12)


def test_the_training_loss_is_the_mean_over_all_points_and_a_penalty_that_spares_biases() -> None:
    torch.manual_seed(0)
    module, (X, y) = nn.Linear(3, 1).double(), (torch.randn(6, 3).double(), torch.arange(6) % 2)
    points, targets, log = torch.randn(2, 3).double(), torch.tensor([1, 1]), torch.tensor(1.3).double()
    inner, (W, b) = hg.penalised(module, X, y, targets, hg.logistic)
    scores = (torch.cat([X, points]) @ W.T + b)[:, 0]
    signs = 2.0 * torch.cat([y, targets]) - 1
    known = functional.softplus(-signs * scores).mean() + log.exp() / 8 / 2 * (W**2).sum()
    assert inner((W, b), (points, log)).item() == pytest.approx(known.item(), rel=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_a_quadratic_has_the_closed_form(mode: Any) -> None:
    """inner = a/2 (w − h)²: w_T = h + (1 − rate a)^T (w_0 − h)."""
    start, hyper = (torch.tensor([3.0]).double(),), (torch.tensor([1.0]).double(),)
    found = mode(lambda w, h: ((w[0] - h[0]) ** 2).sum(), lambda w: w[0].sum(), start, hyper, steps=5, rate=0.1)
    assert found.value == pytest.approx(1 + 2 * 0.8**5, rel=1e-14)
    assert found.gradients[0].item() == pytest.approx(1 - 0.8**5, rel=1e-14)


@pytest.mark.parametrize("mode", MODES)
def test_what_training_does_not_use_has_no_gradient(mode: Any) -> None:
    start, hyper = (torch.ones(2), torch.ones(3)), (torch.ones(1), torch.ones(()))
    found = mode(lambda w, h: (h[0] * w[0] ** 2).sum(), lambda w: w[0].sum(), start, hyper, steps=3, rate=0.1)
    assert found.gradients[0].item() < 0
    assert found.gradients[1].item() == 0
    assert torch.equal(found.end[1], start[1])


@pytest.mark.parametrize("mode", MODES)
def test_no_points_and_no_steps_are_no_trouble(mode: Any) -> None:
    asked = problem("convolution", points=0)
    known = differences(*asked)
    found = mode(*asked, **OPTIONS)
    assert found.gradients[0].shape == (0, 1, 3, 3)
    assert found.gradients[1].item() == pytest.approx(known[1].item(), rel=1e-6)
    assert mode(*asked, steps=0, rate=1.0).gradients[1].item() == 0


@pytest.mark.parametrize("mode", MODES)
def test_single_precision_agrees_with_double_and_stays_single(mode: Any) -> None:
    found, exact = (mode(*problem("two layers", dtype=dtype), **OPTIONS) for dtype in (torch.float32, torch.float64))
    assert close(found.gradients, exact.gradients, 1e-5)
    assert all(part.dtype == torch.float32 for part in (*found.gradients, *found.end))


@pytest.mark.parametrize("mode", MODES)
def test_training_that_diverges_is_done_again_at_half_the_rate_which_is_reported(mode: Any) -> None:
    """1/2 Σ (a w)² with a² of 1 and 4 is stable below a rate of 1/2, and 1.6 needs two halvings."""
    asked = (
        lambda w, h: ((torch.tensor([1.0, 2.0]) * (w[0] - h[0])) ** 2).sum() / 2,
        lambda w: w[0].sum(),
        (torch.ones(2),),
        (torch.zeros(2),),
    )
    found = mode(*asked, steps=40, rate=1.6)
    assert found.rate == 0.4
    assert torch.equal(found.gradients[0], mode(*asked, steps=40, rate=0.4).gradients[0])
    with pytest.raises(FloatingPointError, match=r"training loss went from 2.5 to .* at a learning rate of 1.6"):
        hg.train(asked[0], *asked[2:], steps=40, rate=1.6)
    states, rate = hg.settled(asked[0], *asked[2:], steps=40, rate=1.6)
    assert (len(states), rate) == (41, 0.4)


def valley(w: hg.Tensors, h: hg.Tensors) -> torch.Tensor:
    """½ (w − h)²: a step at a rate r turns w − h into (1 − r) (w − h)."""
    return (w[0] - h[0]).square().sum() / 2


def test_a_rate_is_halved_six_times_and_no_more() -> None:
    start, hyper = (torch.ones(1),), (torch.zeros(1),)
    assert hg.settled(valley, start, hyper, steps=100, rate=1.6 * 2**6)[1] == pytest.approx(1.6)
    with pytest.raises(FloatingPointError, match="did not settle"):
        hg.settled(valley, start, hyper, steps=100, rate=1.6 * 2**7)


@pytest.mark.parametrize(("ratio", "settles"), [(7.0, True), (14.0, False)])
def test_training_that_ends_at_ten_times_its_first_loss_has_diverged(ratio: float, settles: bool) -> None:
    start, hyper = (torch.ones(1, dtype=torch.float64),), (torch.zeros(1, dtype=torch.float64),)
    rate = 1 + ratio ** (1 / 20)
    if settles:
        states = hg.train(valley, start, hyper, steps=10, rate=rate)
        assert valley(states[-1], hyper) == pytest.approx(ratio / 2)
    else:
        with pytest.raises(FloatingPointError, match=r"went from 0.5 to 7 "):
            hg.train(valley, start, hyper, steps=10, rate=rate)


@pytest.mark.parametrize("rate", [1e6, 1e30])
def test_training_that_never_settles_says_so(rate: float) -> None:
    inner, outer, start, hyper = problem("two layers")
    with pytest.raises(FloatingPointError, match="did not settle at any learning rate from"):
        hg.reverse(inner, outer, start, hyper, steps=20, rate=rate)


@pytest.mark.parametrize("mode", MODES)
def test_a_gradient_that_overflows_where_training_does_not_halves_the_rate_too(mode: Any) -> None:
    """Descent on cosines at a rate of 4 wanders for ever; the distance of two paths doubles at a step."""
    start, hyper = (torch.tensor(1.0),), (torch.tensor(0.1),)
    found = mode(lambda w, h: -(w[0] - h[0]).cos(), lambda w: w[0].square(), start, hyper, steps=200, rate=4.0)
    assert len(hg.train(lambda w, h: -(w[0] - h[0]).cos(), start, hyper, steps=200, rate=4.0)) == 201
    assert found.rate < 4
    assert found.gradients[0].isfinite()


def test_a_start_that_is_not_a_number_is_not_tried_at_other_rates() -> None:
    inner, outer, start, (points, log) = problem("two layers")
    with pytest.raises(ArithmeticError, match="finite training loss at the start, got nan"):
        hg.reverse(inner, outer, start, (points * torch.nan, log), **OPTIONS)


def test_forward_refuses_many_hyperparameters() -> None:
    with pytest.raises(ValueError, match="at most 32 numbers among the hyperparameters, got 41; use reverse"):
        hg.forward(*problem("two layers", points=10), **OPTIONS)


def test_the_module_is_left_as_it_was_and_its_dropout_is_off() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 1)).double()
    module(torch.randn(9, 4).double())
    before = {name: value.clone() for name, value in module.state_dict().items()}
    X, y = torch.randn(8, 4).double(), torch.arange(8) % 2
    hyper = (torch.randn(1, 4).double(), torch.tensor(0.1).double())
    inner, start = hg.penalised(module, X, y, torch.tensor([1]), hg.logistic)
    first, second = (hg.reverse(inner, hg.validation(module, X, y, hg.logistic), start, hyper, **OPTIONS) for _ in range(2))
    assert close(first.gradients, second.gradients, 0)
    assert not close(first.end, start, 1e-3)
    assert all(part.training for part in module.modules())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in module.parameters())
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not any(part.requires_grad for part in (*hyper, *start))


def test_frozen_parameters_are_not_trained() -> None:
    module, _, _ = network("two layers")
    module.get_submodule("0").requires_grad_(False)
    inner, start = hg.penalised(module, torch.randn(6, 4), torch.arange(6) % 2, torch.tensor([1]), hg.logistic)
    assert [tuple(part.shape) for part in start] == [(1, 3), (1,)]
    assert len(hg.train(inner, start, (torch.randn(1, 4), torch.tensor(0.0)), steps=2, rate=0.1)[-1]) == 2
    with pytest.raises(ValueError, match="none that wants gradients"):
        hg.as_function(module.requires_grad_(False))


def test_weights_that_two_layers_share_are_one_parameter_in_both_places() -> None:
    first, last = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
    last.weight = first.weight
    outputs, start = hg.as_function(nn.Sequential(first, nn.Tanh(), last))
    assert [tuple(part.shape) for part in start] == [(3, 3), (3,)]
    W, b, X = torch.randn(3, 3), torch.randn(3), torch.randn(5, 3)
    assert torch.equal(outputs((W, b), X), functional.linear(torch.tanh(functional.linear(X, W, b)), W))
    assert torch.equal(outputs(start, X), nn.Sequential(first, nn.Tanh(), last)(X))


def test_attention_has_its_usual_ways_back_after_training() -> None:
    fast: Callable[[], bool] = torch.backends.cuda.flash_sdp_enabled
    before = fast()
    inner, outer, start, hyper = problem("attention")
    hg.reverse(inner, outer, start, hyper, **OPTIONS)
    with pytest.raises(ValueError, match="expected 6 parameters, got 1"):
        outer(start[:1])
    assert fast() is before is True


def test_what_does_not_fit_is_refused_in_a_sentence() -> None:
    inner, _, start, (points, log) = problem("two layers")
    with pytest.raises(ValueError, match="a point for each of 2 targets, got 1"):
        inner(start, (points[:1], log))
    with pytest.raises(ValueError, match="a group for each of 2 weights"):
        problem("two layers", groups=[0, 1, 2])
    with pytest.raises(ValueError, match="two dimensions or more to penalise, got none"):
        hg.penalised(nn.LayerNorm(4), torch.ones(1, 4), torch.ones(1), torch.ones(1), functional.mse_loss)
