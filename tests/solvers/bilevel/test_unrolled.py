"""Training that stops early: its hand-made gradient against finite differences and against autograd, and what it does when
training diverges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from divulge.solvers.bilevel import hypergradient as hg
from divulge.solvers.bilevel.inner import RISKS, Diverged, Shared, Trained, targets
from divulge.solvers.bilevel.unrolled import EarlyStopped

NAMES = sorted(RISKS)
GROUPS = np.array([0, 1, 1, 0, 2])
OPTIONS: dict[str, Any] = {"steps": 12, "rate": 0.2, "dtype": np.float64}
SWEEPS = [(name, dual, None) for name in NAMES for dual in (True, False)] + [(name, False, GROUPS) for name in NAMES]


def labelled(risk: str, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(outputs, points): a noisy line through the points, or the sides of one."""
    noise = rng.standard_normal((len(X), 3))
    if risk == "squared":
        return X[None, :, 0] + 0.3 * noise.T[:1]
    index = (X[:, :3] + 0.7 * noise).argmax(axis=1) if risk == "softmax" else (X[:, 0] + 0.7 * noise[:, 0] > 0).astype(int)
    return targets(risk, index, np.arange(3 if risk == "softmax" else 2))


def problem(
    risk: str, groups: np.ndarray | None = None, problems: int = 1, own: int = 3, features: int = 5, shared: int = 11
) -> tuple[Shared, np.ndarray, np.ndarray, np.ndarray]:
    """What is shared, and points, targets and log penalties of each problem."""
    rng = np.random.default_rng(7)
    X, X_val, P = (rng.standard_normal(size) for size in ((shared, features), (13, features), (problems, own, features)))
    common = Shared(X, labelled(risk, X, rng), X_val, labelled(risk, X_val, rng), RISKS[risk], groups)
    Y = np.stack([labelled(risk, points, rng) for points in P])
    return common, P, Y, rng.uniform(0, 1, (problems, common.penalties))


def difference(value: Any, at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences in every number of `at`."""
    found = np.empty_like(at)
    for place in np.ndindex(at.shape):
        move = np.zeros_like(at)
        move[place] = step
        found[place] = (value(at + move) - value(at - move)) / (2 * step)
    return found


def close(found: np.ndarray, known: np.ndarray, share: float) -> bool:
    """Within this share of the largest entry."""
    return found.shape == known.shape and bool(np.abs(found - known).max() <= share * np.abs(known).max())


def same(found: Trained, known: Trained, share: float) -> bool:
    return all(close(getattr(found, name), getattr(known, name), share) for name in vars(known))


@pytest.mark.parametrize(("risk", "dual", "groups"), SWEEPS)
def test_the_gradient_is_that_of_finite_differences(risk: str, dual: bool, groups: np.ndarray | None) -> None:
    shared, P, Y, lam = problem(risk, groups)
    train = EarlyStopped(shared, dual=dual, **OPTIONS)
    found = train(P, Y, lam)
    assert close(found.point_gradients, difference(lambda P: train(P, Y, lam).value[0], P), 1e-6)
    assert close(found.strength_gradients, difference(lambda lam: train(P, Y, lam).value[0], lam), 1e-6)
    assert train.rate == OPTIONS["rate"]


@pytest.mark.parametrize("risk", NAMES)
@pytest.mark.parametrize("problems", [1, 3])
def test_the_gram_matrix_gives_what_the_features_give(risk: str, problems: int) -> None:
    shared, *asked = problem(risk, problems=problems)
    by_gram, by_features = (EarlyStopped(shared, dual=dual, **OPTIONS)(*asked) for dual in (True, False))
    assert same(by_gram, by_features, 1e-12)


@pytest.mark.parametrize("risk", NAMES)
def test_a_group_for_all_features_is_one_penalty(risk: str) -> None:
    shared, *asked = problem(risk, problems=2)
    grouped = replace(shared, groups=np.zeros(5, dtype=int))
    assert same(EarlyStopped(grouped, **OPTIONS)(*asked), EarlyStopped(shared, **OPTIONS)(*asked), 1e-12)


@pytest.mark.parametrize(("risk", "dual", "groups"), SWEEPS)
def test_a_batch_gives_what_its_problems_give_alone(risk: str, dual: bool, groups: np.ndarray | None) -> None:
    shared, P, Y, lam = problem(risk, groups, problems=4)
    train = EarlyStopped(shared, dual=dual, **OPTIONS)
    together = train(P, Y, lam)
    for one in range(4):
        alone = train(P[one : one + 1], Y[one : one + 1], lam[one : one + 1])
        assert all(close(vars(together)[name][one : one + 1], vars(alone)[name], 1e-12) for name in vars(alone))


@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize("problems", [1, 2])
def test_an_answer_stays_when_the_next_is_made(dual: bool, problems: int) -> None:
    shared, P, Y, lam = problem("logistic", problems=problems)
    train = EarlyStopped(shared, dual=dual, **OPTIONS)
    first = train(P, Y, lam)
    kept = {name: value.copy() for name, value in vars(first).items()}
    assert not np.array_equal(train(P + 1, Y, lam + 1).W, kept["W"])
    train(P[:, :1], Y[..., :1], lam)
    assert all(np.array_equal(vars(first)[name], value) for name, value in kept.items())
    assert same(train(P, Y, lam), first, 1e-14)


@pytest.mark.parametrize(("risk", "dual", "groups"), SWEEPS)
def test_the_end_is_that_of_plain_descent(risk: str, dual: bool, groups: np.ndarray | None) -> None:
    shared, P, Y, lam = problem(risk, groups)
    X, targets = np.concatenate([shared.X, P[0]]), np.concatenate([shared.Y, Y[0]], axis=1)
    strength = np.exp(lam[0] if groups is None else lam[0, groups])
    W, b = np.zeros((len(targets), 5)), np.zeros((len(targets), 1))
    for _ in range(OPTIONS["steps"]):
        slope = shared.risk.first_derivative(W @ X.T + b, targets) / len(X)
        W = W - OPTIONS["rate"] * (slope @ X + strength / len(X) * W)
        b = b - OPTIONS["rate"] * slope.sum(axis=1, keepdims=True)
    found = EarlyStopped(shared, dual=dual, **OPTIONS)(P, Y, lam)
    np.testing.assert_allclose(found.W[0], W, rtol=1e-11)
    np.testing.assert_allclose(found.b[0], b[:, 0], rtol=1e-11)
    assert found.value[0] == pytest.approx(shared.validation_loss(W, b[:, 0])[0], rel=1e-12)


@pytest.mark.parametrize("risk", ["logistic", "softmax"])
@pytest.mark.parametrize("dual", [True, False])
def test_the_gradient_is_the_one_that_torch_finds_through_a_linear_layer(risk: str, dual: bool) -> None:
    shared, P, Y, lam = problem(risk, own=4)
    k, loss = len(shared.Y), hg.logistic if risk == "logistic" else functional.cross_entropy
    module = nn.Linear(5, k).double()
    for parameter in module.parameters():
        nn.init.zeros_(parameter)

    def labels(Y: np.ndarray) -> torch.Tensor:
        return torch.tensor(Y[0] if risk == "logistic" else Y.argmax(axis=0))

    X, X_val, points, log = (torch.tensor(part) for part in (shared.X, shared.X_val, P[0], lam[0, 0]))
    inner, start = hg.penalised(module, X, labels(shared.Y), labels(Y[0]), loss)
    outer = hg.validation(module, X_val, labels(shared.Y_val), loss)
    known = hg.reverse(inner, outer, start, (points, log), steps=OPTIONS["steps"], rate=OPTIONS["rate"])
    found = EarlyStopped(shared, dual=dual, **OPTIONS)(P, Y, lam)
    assert found.value[0] == pytest.approx(known.value, rel=1e-13)
    assert close(found.point_gradients[0], known.gradients[0].numpy(), 1e-12)
    assert found.strength_gradients[0, 0] == pytest.approx(known.gradients[1].item(), rel=1e-11)
    assert close(found.W[0], known.end[0].numpy(), 1e-12)


@pytest.mark.parametrize("risk", NAMES)
@pytest.mark.parametrize("dual", [True, False])
def test_single_precision_agrees_with_double_and_stays_single(risk: str, dual: bool) -> None:
    shared, *asked = problem(risk, problems=2, shared=60, features=40)
    options: dict[str, Any] = {"steps": 60, "rate": 0.05, "dual": dual}
    found, exact = (EarlyStopped(shared, dtype=dtype, **options)(*asked) for dtype in (np.float32, np.float64))
    assert same(
        found, exact, 1e-3 if risk == "squared_hinge" else 1e-5
    )  # rounding moves a point past the kink a step sooner
    assert {part.dtype for part in vars(found).values()} == {np.dtype(np.float32)}


@pytest.mark.parametrize(("risk", "dual", "groups"), SWEEPS)
@pytest.mark.parametrize("problems", [1, 2])
def test_no_points_of_its_own_are_no_trouble(risk: str, dual: bool, groups: np.ndarray | None, problems: int) -> None:
    shared, P, Y, lam = problem(risk, groups, problems=problems, own=0)
    train = EarlyStopped(shared, dual=dual, **OPTIONS)
    found = train(P, Y, lam)
    known = difference(lambda lam: train(P, Y, lam).value.sum(), lam)
    assert found.point_gradients.shape == (problems, 0, 5)
    assert close(found.strength_gradients, known, 1e-6)


@pytest.mark.parametrize("dual", [True, False])
def test_a_gradient_in_the_penalties_that_is_not_asked_for_is_left_out(dual: bool) -> None:
    shared, *asked = problem("logistic", problems=2)
    train = EarlyStopped(shared, dual=dual, **OPTIONS)
    with_it, without = train(*asked), train(*asked, penalties=False)
    assert same(replace(with_it, strength_gradients=without.strength_gradients), without, 1e-14)
    assert without.strength_gradients.shape == (2, 1)
    assert not without.strength_gradients.any()


@pytest.mark.parametrize("risk", NAMES)
@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize("problems", [1, 3])
def test_a_penalty_too_strong_for_the_rate_halves_it(risk: str, dual: bool, problems: int) -> None:
    """Descent on a penalty of e^λ / n is stable below a rate of 2n / e^λ."""
    shared, P, Y, lam = problem(risk, problems=problems)
    lam[-1] = np.log(3 * 14 / 0.2)
    train = EarlyStopped(shared, dual=dual, **{**OPTIONS, "steps": 200})
    found = train(P, Y, lam)
    assert train.rate == 0.1
    assert same(found, EarlyStopped(shared, dual=dual, steps=200, rate=0.1, dtype=np.float64)(P, Y, lam), 1e-14)
    assert same(train(P, Y, lam), found, 1e-14), "the rate stays"
    assert np.isfinite(found.point_gradients).all()


@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_rate_far_too_high_is_halved_until_training_settles(dual: bool, dtype: type) -> None:
    shared, *asked = problem("squared")
    train = EarlyStopped(shared, dual=dual, steps=100, rate=64.0, dtype=dtype)
    found = train(*asked)
    assert train.rate in {64 / 2**halvings for halvings in range(4, 9)}
    assert found.value[0] < (shared.Y_val**2).mean() / 2


@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize("rate", [1e9, 1e30])
def test_training_that_never_settles_says_so(dual: bool, rate: float) -> None:
    shared, *asked = problem("squared")
    with pytest.raises(Diverged, match=r"diverges even at a rate of .*; scale the features, or lower the penalty"):
        EarlyStopped(shared, dual=dual, steps=100, rate=rate)(*asked)


@pytest.mark.parametrize("dual", [True, False])
def test_a_rate_up_to_two_thousand_times_too_high_is_mended_and_one_beyond_is_not(dual: bool) -> None:
    """Under a penalty of e^λ / n = 2000 descent is stable below a rate of 1/1000."""
    shared, P, Y, lam = problem("squared")
    lam[:] = np.log(2000 * 14)
    options: dict[str, Any] = {"dual": dual, "steps": 300, "dtype": np.float64}
    train = EarlyStopped(shared, rate=0.9e-3 * 2**11, **options)
    train(P, Y, lam)
    assert train.rate == pytest.approx(0.9e-3)
    with pytest.raises(Diverged):
        EarlyStopped(shared, rate=0.9e-3 * 2**12, **options)(P, Y, lam)


@pytest.mark.parametrize(("ratio", "halved"), [(1.02, False), (1.08, True)])
def test_training_may_end_a_little_above_where_it_began_and_no_more(ratio: float, halved: bool) -> None:
    """For one point x = y = 1 a step turns the error e of w + b − y into (1 − 2 rate) e."""
    one = np.ones((1, 1))
    rate = (1 + np.sqrt(ratio)) / 2
    train = EarlyStopped(Shared(one, one, one, one, RISKS["squared"]), steps=1, rate=rate, dtype=np.float64, dual=False)
    train(np.zeros((1, 0, 1)), np.zeros((1, 1, 0)), np.array([[-50.0]]))
    assert train.rate == pytest.approx(rate / 2 if halved else rate)


def test_the_gram_matrix_is_chosen_where_it_is_smaller_and_penalties_are_one() -> None:
    few, many, grouped = (
        problem("squared", **options)[0] for options in ({"shared": 9}, {"shared": 11}, {"groups": GROUPS})
    )
    assert [EarlyStopped(shared, **OPTIONS).dual for shared in (few, many, grouped)] == [True, False, False]
    with pytest.raises(ValueError, match="expected one penalty for the Gram matrix, got several; leave dual out"):
        EarlyStopped(grouped, dual=True, **OPTIONS)
