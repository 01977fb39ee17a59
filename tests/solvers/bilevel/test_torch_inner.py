"""Training of networks as an inner problem: against finite differences, linear learners, and the module itself."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from divulge.arrays import Array
from divulge.solvers.bilevel import torch_inner
from divulge.solvers.bilevel.ascent import Starts, ascend
from divulge.solvers.bilevel.inner import RISKS, Diverged, Shared, Trained, targets
from divulge.solvers.bilevel.torch_inner import LOSSES, NetworkTraining
from divulge.solvers.bilevel.unrolled import EarlyStopped
from divulge.solvers.shared.architectures import build

FEATURES = 4
OPTIONS: dict[str, Any] = {"steps": 8, "rate": 0.3, "dtype": np.float64}
OUTPUTS = {"logistic": 1, "softmax": 3, "squared": 1, "squared_hinge": 1}


class Squeezed(nn.Module):
    """One output without a column of its own, and for one row a bare number."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.module(X).squeeze()
        return found


def some(risk: str, n: int, seed: int, features: int = FEATURES) -> tuple[Array, Array]:
    """Points and their targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features))
    if risk == "squared":
        return X, targets(risk, np.sin(X[:, 0]) + X[:, 1], None)
    classes = np.arange(max(OUTPUTS[risk], 2))
    return X, targets(risk, (np.arange(n) + (X[:, 0] > 0)) % len(classes), classes)


def trainer(risk: str, module: nn.Module | None = None, features: int = FEATURES, **options: Any) -> NetworkTraining:
    chosen = module if module is not None else build("two-layer", (features,), OUTPUTS[risk], 3, 5)
    data = *some(risk, 15, 0, features), *some(risk, 20, 1, features)
    return NetworkTraining(chosen, *data, risk, **(OPTIONS | options))


def problems(risk: str, own: int = 2, count: int = 2, features: int = FEATURES) -> tuple[Array, Array, Array]:
    """Points, targets and strengths."""
    made = [some(risk, own, 5 + number, features) for number in range(count)]
    points, labels = (np.stack(part) for part in zip(*made, strict=True))
    return points, labels, np.linspace(-1, 1, count)[:, None]


def differences(train: NetworkTraining, asked: tuple[Array, Array, Array], which: int) -> Array:
    """Central differences of the value of one problem in its points, or in its strength."""
    slopes, step = np.zeros(asked[which].shape), 1e-5
    for place in np.ndindex(slopes.shape):
        ends = []
        for sign in (1, -1):
            moved = [part.copy() for part in asked]
            moved[which][place] += sign * step
            ends.append(train(*moved).value[0])
        slopes[place] = (ends[0] - ends[1]) / (2 * step)
    return slopes


def same(found: Trained, known: Trained) -> bool:
    return all(np.array_equal(vars(found)[name], vars(known)[name]) for name in vars(found))


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
@pytest.mark.parametrize("risk", ["logistic", "softmax", "squared"])
def test_gradients_agree_with_finite_differences(risk: str, activation: type[nn.Module]) -> None:
    module: Any = build("two-layer", (FEATURES,), OUTPUTS[risk], 3, 5)
    module[1] = activation()
    train, asked = trainer(risk, module), problems(risk, count=1)
    found = train(*asked)
    for which, gradient in ((0, found.point_gradients), (2, found.strength_gradients)):
        known = differences(train, asked, which)
        assert gradient.dtype == np.float64
        assert np.abs(gradient - known).max() <= 1e-6 * np.abs(known).max()
    assert train.rate == OPTIONS["rate"]


def test_a_convolutional_network_agrees_with_a_finite_difference_along_its_gradient() -> None:
    module = build("convolutional", (16, 16), 3, 0, 2)
    train, (points, labels, lam) = trainer("softmax", module, 256, steps=4), problems("softmax", count=1, features=256)
    gradient = train(points, labels, lam).point_gradients
    step = 1e-5 * gradient / np.linalg.norm(gradient)
    up, down = (train(points + sign * step, labels, lam).value[0] for sign in (1, -1))
    assert (up - down) / 2e-5 == pytest.approx(np.linalg.norm(gradient), rel=1e-6)


@pytest.mark.parametrize(("own", "most"), [(0, np.inf), (1, np.inf), (3, np.inf), (3, 0.6)])
@pytest.mark.parametrize("risk", OUTPUTS)
def test_one_layer_from_zero_is_the_linear_learner(risk: str, own: int, most: float) -> None:
    module = nn.Linear(FEATURES, OUTPUTS[risk])
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    shared = Shared(*some(risk, 15, 0), *some(risk, 20, 1), RISKS[risk], most=most)
    asked = problems(risk, own)
    found, known = (
        trainer(risk, module, rate=0.1, most=most)(*asked),
        EarlyStopped(shared, **(OPTIONS | {"rate": 0.1}))(*asked),
    )
    flat = np.concatenate([known.W.reshape(2, 1, -1), known.b.reshape(2, 1, -1)], axis=2)
    pairs = [
        (found.value, known.value),
        (found.point_gradients, known.point_gradients),
        (found.strength_gradients, known.strength_gradients),
        (found.W, flat),
    ]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)
    assert found.b.shape == (2, 0)


@pytest.mark.parametrize("risk", RISKS)
def test_losses_are_those_of_linear_learners(risk: str) -> None:
    y, f = some(risk, 9, 0)[1], 30 * np.random.default_rng(1).normal(size=(OUTPUTS[risk], 9))
    found = LOSSES[risk](torch.tensor(f.T), torch.tensor(y.T)).item()
    assert found == pytest.approx(RISKS[risk].value(f, y).mean(), rel=1e-13)


@pytest.mark.parametrize("rows", [1, 7, 1024])
def test_scores_are_those_of_the_module_with_the_trained_parameters(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_inner, "ROWS", rows)
    module = build("two-layer", (FEATURES,), 3, 3, 5)
    train, X = trainer("softmax", module, dtype=np.float32), some("softmax", 20, 1)[0]
    trained = train(*problems("softmax", count=3))
    found = train.scores(trained.W, X)
    assert found.shape == (3, 3, 20)
    for W, scores in zip(trained.W, found, strict=True):
        other = copy.deepcopy(module)
        nn.utils.vector_to_parameters(torch.tensor(W[0], dtype=torch.float32), other.parameters())
        np.testing.assert_allclose(
            scores, other(torch.tensor(X, dtype=torch.float32)).detach().numpy().T, rtol=1e-5, atol=1e-6
        )
    losses = RISKS["softmax"].value(found, some("softmax", 20, 1)[1]).mean(axis=1)
    np.testing.assert_allclose(losses, trained.value, rtol=1e-6)
    assert train.scores(trained.W, X[:0]).shape == (3, 3, 0)


def test_ascent_raises_the_validation_loss_of_a_network_on_two_blobs() -> None:
    rng = np.random.default_rng(0)
    classes = np.arange(2)

    def blobs(n: int) -> tuple[Array, Array]:
        y = np.arange(n) % 2
        return rng.normal(size=(n, 2)) + 1.5 * (y[:, None] - 0.5), targets("logistic", y, classes)

    (X, Y), (X_val, Y_val) = blobs(30), blobs(40)
    train = NetworkTraining(build("two-layer", (2,), 1, 0, 8), X, Y, X_val, Y_val, "logistic", steps=20, rate=0.5)

    def draw(count: int) -> Starts:
        rows = rng.integers(len(X), size=(count, 4))
        return Starts(X[rows], 1 - Y[:, rows].transpose(1, 0, 2), rows)

    strengths = np.array([-1.0])
    climbed = ascend(train, draw, strengths, lambda points, _: np.clip(points, -4, 4), starts=2, iterations=8, step=1.5)
    clean = train(np.zeros((1, 0, 2)), np.zeros((1, 1, 0)), strengths[None])
    again = train(climbed.points[None], climbed.targets[None], strengths[None])
    begun = train(X[None, climbed.rows], climbed.targets[None], strengths[None])
    assert climbed.value > 1.5 * begun.value[0] > 1.5 * clean.value[0]
    assert again.value[0] == climbed.value

    def wrong(W: Array) -> float:
        return float(((train.scores(W, X_val)[0] > 0) != Y_val).mean())

    assert wrong(again.W) > wrong(clean.W)


@pytest.mark.parametrize("risk", ["logistic", "softmax"])
def test_without_points_it_is_plain_training(risk: str) -> None:
    module = build("two-layer", (FEATURES,), OUTPUTS[risk], 3, 5)
    found = trainer(risk, module)(*problems(risk, own=0, count=1))
    other, (X, Y) = module.double(), (torch.tensor(part) for part in some(risk, 15, 0))
    for _ in range(OPTIONS["steps"]):
        other.zero_grad()
        squares = sum(part.square().sum() for part in other.parameters() if part.ndim > 1)
        (LOSSES[risk](other(X), Y.T) + np.exp(-1.0) / 15 / 2 * squares).backward()
        with torch.no_grad():
            for parameter in other.parameters():
                assert parameter.grad is not None
                parameter.sub_(parameter.grad, alpha=OPTIONS["rate"])
    np.testing.assert_allclose(found.W[0, 0], nn.utils.parameters_to_vector(other.parameters()).detach(), rtol=1e-9)
    assert found.point_gradients.shape == (1, 0, FEATURES)
    assert found.strength_gradients[0, 0] != 0


def test_gradients_in_penalties_that_nobody_asked_for_are_zero() -> None:
    train, asked = trainer("logistic"), problems("logistic")
    found, known = train(*asked, penalties=False), train(*asked)
    assert not found.strength_gradients.any()
    assert known.strength_gradients.all()
    assert np.array_equal(found.point_gradients, known.point_gradients)


def test_one_output_may_come_without_a_column() -> None:
    module = build("two-layer", (FEATURES,), 1, 3, 5)
    plain, squeezed = trainer("logistic", module), trainer("logistic", Squeezed(module))
    for own in (0, 1, 2):
        asked = problems("logistic", own)
        assert same(squeezed(*asked), plain(*asked))
    W, X = plain(*asked).W, some("logistic", 1, 1)[0]
    assert np.array_equal(squeezed.scores(W, X), plain.scores(W, X))


def test_the_module_handed_in_is_not_changed_and_changing_it_changes_nothing() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(FEATURES, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 1))
    before = copy.deepcopy(module.state_dict())
    train, asked = trainer("logistic", module), problems("logistic")
    first = train(*asked)
    train.scores(first.W, asked[0][0])
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(part.training for part in module.modules())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in module.parameters())
    nn.init.zeros_(module.get_parameter("0.weight"))
    assert same(train(*asked), first)


def test_frozen_parameters_are_not_among_the_trained() -> None:
    module = build("two-layer", (FEATURES,), 1, 3, 5)
    module.get_submodule("0").requires_grad_(False)
    train, (X, Y) = trainer("logistic", module), some("logistic", 20, 1)
    found = train(*problems("logistic", count=1))
    assert found.W.shape == (1, 1, 6)
    assert RISKS["logistic"].value(train.scores(found.W, X)[0], Y).mean() == pytest.approx(found.value[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pickled_copy_on_more_threads_finds_the_same(dtype: Any) -> None:
    train, asked = trainer("softmax", dtype=dtype), problems("softmax")
    other = pickle.loads(pickle.dumps(train))
    threads, found = torch.get_num_threads(), train(*asked)
    torch.set_num_threads(4)
    try:
        assert same(other(*asked), found)
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(threads)
    assert all(part.dtype == np.float64 for part in vars(found).values())


def test_a_rate_at_which_one_problem_diverges_is_halved_for_all_and_stays() -> None:
    module, (points, labels, lam) = build("one-layer", (FEATURES,), 1, 0), problems("squared")
    train = trainer("squared", module, steps=30, rate=0.4)
    points[1] *= 8
    quiet, rate = train(points[:1], labels[:1], lam[:1]), train.rate
    both = train(points, labels, lam)
    assert rate == 0.4
    assert train.rate in (0.2, 0.1, 0.05, 0.025)
    assert both.value[0] != quiet.value[0]
    assert same(trainer("squared", module, steps=30, rate=train.rate)(points, labels, lam), both)
    assert same(train(points, labels, lam), both)


@pytest.mark.parametrize(
    ("rate", "scale", "sentence"), [(1e9, 1, "did not settle at any"), (0.1, np.nan, "finite training")]
)
def test_training_that_never_settles_has_diverged(rate: float, scale: float, sentence: str) -> None:
    points, labels, lam = problems("squared")
    with pytest.raises(Diverged, match=sentence):
        trainer("squared", rate=rate)(scale * points, labels, lam)


def test_what_does_not_fit_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"a risk among logistic, softmax, .* got 'hinge'"):
        NetworkTraining(nn.Linear(4, 1), *some("logistic", 5, 0), *some("logistic", 5, 1), "hinge", **OPTIONS)
    with pytest.raises(ValueError, match=r"targets \(outputs, n\), got \(5, 4\) and \(4,\)"):
        NetworkTraining(nn.Linear(4, 1), *some("logistic", 5, 0), np.ones((5, 4)), np.ones(4), "logistic", **OPTIONS)
    with pytest.raises(ValueError, match=r"expected outputs \(1, 1\) of the module, .* got \(1, 2\)"):
        trainer("logistic", nn.Linear(4, 2))
    with pytest.raises(ValueError, match=r"expected parameters \(problems, 1, 31\), got \(2, 1, 7\)"):
        trainer("logistic").scores(np.ones((2, 1, 7)), np.ones((3, 4)))
