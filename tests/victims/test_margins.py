"""Networks that fit their points: four ways to train one, and what is told of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from divulge import Candidates, TrainingData, Weights, datasets, victims
from divulge.defences import dp_sgd
from divulge.errors import BadInput
from divulge.solvers.images.span import span
from divulge.solvers.margin import max_margin
from divulge.victims import margins

PICTURES = datasets.load("mnist-odd-even", samples=20)
SMALL = {"hidden": [30]}


def made(seed: int = 0, data: Any = PICTURES, **settings: Any) -> victims.Victim:
    test = Candidates(data.X_test, data.y_test)
    rng = np.random.default_rng(seed)
    return victims.make("margin", data.X, data.y, rng, test=test, shape=data.shape, **{**SMALL, **settings})


def network(**settings: Any) -> Weights:
    found = made(**settings).held["network"]
    assert isinstance(found, Weights)
    return found


def loss(held: Weights, data: Any = PICTURES) -> float:
    return float(np.logaddexp(0, -data.y * held.predict(data.X)[:, 0]).mean())


def outside(held: Weights, X: Any) -> float:
    """Share of the first layer that is outside the span of the centred points."""
    _, s, axes = np.linalg.svd(held.centred(X), full_matrices=False)
    axes = axes[s > 1e-10 * s[0]]
    W = held.layers[0][0]
    return float(np.linalg.norm(W - W @ axes.T @ axes) / np.linalg.norm(W))


# --- how it is trained


def test_descent_ends_at_the_loss_of_the_paper_with_all_points_right() -> None:
    held = network()
    assert loss(held) == pytest.approx(4e-6, rel=0.2)
    assert (np.sign(held.predict(PICTURES.X)[:, 0]) == PICTURES.y).all()


def test_training_stops_where_it_is_told() -> None:
    assert 0.25 < loss(network(target=0.3)) <= 0.3
    assert loss(network(epochs=3)) > loss(network(epochs=30)) > 1e-3


def test_plain_descent_follows_the_same_path_as_descent() -> None:
    plain, quick = (network(method=method, target=0.3, rate=0.05, first=1e-2) for method in ("plain", "descent"))
    step = (plain.layers[0][0] * quick.layers[0][0]).sum()
    assert step / np.prod([np.linalg.norm(one.layers[0][0]) for one in (plain, quick)]) > 0.99


def test_plain_descent_stops_after_its_epochs() -> None:
    assert loss(network(method="plain", epochs=2)) > loss(network(method="plain", epochs=400))


def test_decay_ends_in_a_minimum_inside_the_span() -> None:
    held = network(method="decay", decay=1e-2, rounded=True, hidden=[20])
    assert outside(held, PICTURES.X) < 1e-10
    (W, b), (V, _) = held.layers
    X = held.centred(PICTURES.X)
    hidden = np.maximum(X @ W.T + b, 0)
    back = -PICTURES.y / (1 + np.exp(PICTURES.y * (hidden @ V[0]))) / len(X)
    np.testing.assert_allclose(-(back @ hidden), 1e-2 * V[0], atol=1e-3 * np.abs(1e-2 * V).max())


def test_more_decay_fits_less() -> None:
    losses = [loss(network(method="decay", decay=decay, epochs=200)) for decay in (1e-3, 1e-2, 1e-1)]
    assert losses == sorted(losses)


def test_private_training_learns_and_leaves_the_span() -> None:
    held = network(method="private", noise=0.5, epochs=40, rate=0.3)
    assert np.mean(np.sign(held.predict(PICTURES.X)[:, 0]) == PICTURES.y) > 0.8
    assert outside(held, PICTURES.X) > 0.3
    assert outside(network(method="private", noise=0, epochs=40, rate=0.3), PICTURES.X) < 0.01


def test_private_training_is_the_same_for_the_same_seed() -> None:
    one, two, other = (network(method="private", epochs=2, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.layers[0][0], two.layers[0][0])
    assert not np.allclose(one.layers[0][0], other.layers[0][0])


def test_private_training_takes_several_classes_and_biases() -> None:
    digits = datasets.load("mnist", samples=30)
    held = network(data=digits, method="private", epochs=2, biases=True)
    assert [W.shape for W, _ in held.layers] == [(30, 784), (10, 30)]
    assert held.layers[1][1].any()


def test_epsilon_is_that_of_opacus_itself() -> None:
    import opacus
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    points = TensorDataset(torch.randn(100, 3), torch.randint(2, (100,)).float())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = opacus.PrivacyEngine(accountant="rdp")
        network, steps, loader = engine.make_private(
            module=(module := torch.nn.Linear(3, 1)),
            optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
            data_loader=DataLoader(points, batch_size=30),
            noise_multiplier=1.5,
            max_grad_norm=1.0,
        )
        for _ in range(3):
            for X, y in loader:
                steps.zero_grad()
                torch.autograd.backward(((network(X)[:, 0] - y) ** 2).mean())
                steps.step()
        spent = engine.get_epsilon(1e-5)
    assert dp_sgd.epsilon(100, epochs=3, batch=30, noise=1.5) == pytest.approx(spent, rel=1e-6)


def test_less_noise_and_more_epochs_cost_privacy() -> None:
    costs = [dp_sgd.epsilon(1000, epochs=e, batch=50, noise=n) for e, n in ((5, 4.0), (5, 1.0), (50, 1.0), (50, 0.5))]
    assert costs == sorted(costs)
    assert costs[0] < 1 < 10 < costs[-1]


def test_a_first_layer_from_a_small_start_stays_in_the_span_of_its_points() -> None:
    assert outside(network(first=1e-5), PICTURES.X) < 1e-3
    assert outside(network(first="standard"), PICTURES.X) > 0.5


def test_only_the_first_layer_has_a_bias_unless_all_should() -> None:
    plain, full = network(hidden=[20, 20], target=0.1), network(hidden=[20, 20], target=0.1, biases=True)
    assert [b.any() for _, b in plain.layers] == [True, False, False]
    assert [b.any() for _, b in full.layers] == [True, True, True]


def test_batches_and_single_precision_end_at_the_target_too() -> None:
    assert loss(network(batch=10, hidden=[100])) <= 4.1e-6
    held = network(single=True)
    assert loss(held) == pytest.approx(4e-6, rel=0.2)
    assert held.layers[0][0].dtype == float


def test_several_classes_have_an_output_each() -> None:
    digits = datasets.load("mnist", samples=30)
    for settings in ({}, {"method": "decay", "epochs": 300}):
        held = network(data=digits, **settings)
        outputs = held.predict(digits.X)
        assert outputs.shape == (30, 10)
        assert (outputs.argmax(axis=1) == digits.y).all()


def test_numbers_are_fitted_with_decay() -> None:
    X = PICTURES.X
    y = np.linspace(-1, 1, len(X))
    layers = margins.train(X - X.mean(axis=0), y, np.random.default_rng(0), hidden=(30,), method="decay", loss="squared")
    outputs = max_margin.forward(layers, X - X.mean(axis=0))[-1][:, 0]
    assert np.abs(outputs - y).max() < 0.1
    both = margins.train(X, np.c_[y, -y], np.random.default_rng(0), hidden=(9,), method="decay", loss="squared", epochs=20)
    assert both[-1][0].shape == (2, 9)


# --- what is told of it


def test_the_points_are_the_truth_and_the_rest_is_held() -> None:
    found = made(target=0.3)
    assert set(found.held) == {"network"}
    secret = found.truth["training_data"]
    assert isinstance(secret, TrainingData)
    np.testing.assert_array_equal(secret.X, PICTURES.X)
    assert secret.shape == (28, 28)
    assert isinstance(found.truth["candidates"], Candidates)


def test_the_mean_is_told_unless_it_is_secret_or_nothing_was_subtracted() -> None:
    told, secret, raw = (network(target=0.3, **one) for one in ({}, {"mean_known": False}, {"centred": False}))
    np.testing.assert_array_equal(told.mean, PICTURES.X.mean(axis=0))
    assert secret.mean is None
    assert raw.mean is None
    np.testing.assert_array_equal(told.layers[0][0], secret.layers[0][0])
    assert loss(told) <= 0.3
    assert loss(raw) <= 0.3


def test_products_keep_the_function() -> None:
    whole, known = network(target=0.1), network(target=0.1, products=True)
    np.testing.assert_allclose(known.predict(PICTURES.X_test), whole.predict(PICTURES.X_test), rtol=1e-10)
    assert (np.abs(known.layers[1][0]) == 1).all()


def test_digits_are_cut_and_noise_is_as_large_as_told() -> None:
    whole, short, noisy = (network(target=0.1, **one) for one in ({}, {"digits": 2}, {"noise_on_weights": 0.01}))
    for (W, b), (V, c) in zip(whole.layers, short.layers, strict=True):
        np.testing.assert_allclose(V, W, rtol=0.051)
        np.testing.assert_allclose(c, b, rtol=0.051)
    assert all(float(f"{weight:.1e}") == pytest.approx(weight, rel=1e-12) for weight in short.layers[0][0].ravel())
    for (W, b), (V, c) in zip(whole.layers, noisy.layers, strict=True):
        assert np.std(V - W) == pytest.approx(0.01 * np.abs(W).max(), rel=0.4)
        assert (c != b).all() if b.any() else not c.any()


def test_a_network_may_answer_in_place_of_being_read() -> None:
    found = made(target=0.3, kind="gradients")
    assert not found.held
    api = found.opened().held["api"]
    truth = found.truth["weights"]
    assert isinstance(truth, Weights)
    np.testing.assert_allclose(api.value(PICTURES.X_test[:3]), truth.predict(PICTURES.X_test[:3]))  # type: ignore[attr-defined]


def test_the_same_seed_trains_the_same_network() -> None:
    one, two, other = (network(target=0.3, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.layers[0][0], two.layers[0][0])
    assert not np.allclose(one.layers[0][0], other.layers[0][0])


# --- what is refused


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"method": "desent"}, "method: unknown key 'desent'; did you mean 'descent'"),
        ({"hiden": [3]}, "recipe margin: unknown key 'hiden'; did you mean 'hidden'"),
        ({"hidden": []}, "widths of hidden layers, got \\[\\]; correct hidden"),
        ({"hidden": [0]}, "widths of hidden layers, got \\[0\\]"),
        ({"hidden": 300}, "widths of hidden layers, got 300"),
        ({"first": 0}, 'a positive number or "standard" for first, got 0'),
        ({"first": "small"}, "a positive number or \"standard\" for first, got 'small'"),
        ({"target": -1}, "a positive number for target, got -1"),
        ({"rate": "fast"}, "a positive number for rate, got 'fast'"),
        ({"decay": 0}, "a positive number for decay, got 0"),
        ({"clip": 0}, "a positive number for clip, got 0"),
        ({"noise": -1}, "a number from 0 for noise, got -1"),
        ({"epochs": 2.5}, "a whole number from 1 for epochs, got 2.5"),
        ({"batch": 0}, "a whole number from 1 for batch, got 0"),
        ({"biases": "yes"}, "true or false for biases, got 'yes'"),
        ({"digits": -1}, "a whole number from 0 for digits, got -1"),
        ({"noise_on_weights": -0.1}, "a number from 0 for noise_on_weights, got -0.1"),
        ({"kind": "gradient"}, "kind: unknown key 'gradient'; did you mean 'gradients'"),
        ({"loss": "hinge"}, "loss: unknown key 'hinge'"),
        ({"loss": "squared"}, "expected classes for the method descent, got numbers to fit; use method = 'decay'"),
        ({"products": True, "hidden": [5, 5], "target": 0.6}, "one hidden layer and one output for products"),
    ],
)
def test_other_settings_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        made(**changes)


@pytest.mark.parametrize(
    ("y", "loss", "sentence"),
    [
        (np.ones(20), "auto", "at least two classes, got 1"),
        (np.linspace(0, 1, 20), "auto", "got numbers to fit of shape \\(20,\\); use loss = 'squared'"),
        (np.array(["a", "b"])[np.arange(20) % 2], "squared", "got names of classes; use loss = 'auto'"),
    ],
)
def test_other_labels_are_refused(y: Any, loss: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        margins.train(PICTURES.X, y, np.random.default_rng(0), hidden=(5,), method="decay", loss=loss)


def test_short_steps_end_where_plain_descent_ends_and_long_ones_elsewhere() -> None:
    """In the number of directions that training leaves in the first layer, at the same loss."""
    shirts = datasets.load("fashion-mnist-tshirt-pullover", samples=30, seed=2)
    X = shirts.X - shirts.X.mean(axis=0)

    def directions(**settings: Any) -> int:
        layers = margins.train(X, shirts.y, np.random.default_rng(0), hidden=(150,), target=1e-2, **settings)
        return span(*layers[0]).rank

    plain = directions(method="plain", rate=0.05, epochs=20_000)
    assert abs(directions() - plain) <= 1
    assert directions(fall=0.1) >= 2 * plain
