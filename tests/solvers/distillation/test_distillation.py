"""Distillation: linear teachers exactly, every kind of answer, and gradients worth more than values."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from divulge.arrays import Array
from divulge.solvers.distillation import distillation
from divulge.solvers.shared import architectures

Teacher = tuple[torch.nn.Module, Array, Array]


def softmax(Z: Array) -> Array:
    powers = np.exp(Z - Z.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def linear_teacher(n: int, k: int = 4, d: int = 6) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    W, b, X = rng.normal(size=(k, d)), rng.normal(size=k), rng.normal(size=(n, d))
    return W, b, X


def answers(module: torch.nn.Module, X: Array) -> tuple[Array, Array]:
    """Logits and their full Jacobian."""
    points = torch.tensor(X, dtype=torch.float32).requires_grad_()
    out = module(points)
    slopes = [torch.autograd.grad(column.sum(), points, retain_graph=True)[0] for column in out.T]
    return out.detach().numpy().astype(float), torch.stack(slopes, 1).numpy().astype(float)


@pytest.fixture(scope="module")
def teacher() -> Teacher:
    rng = np.random.default_rng(1)
    module = architectures.build("two-layer", (8,), 3, 3, width=6)
    with torch.no_grad():
        for part in module.parameters():
            part.mul_(3)
    X = rng.normal(size=(1040, 8))
    return module, X[:40], X[40:]


@pytest.mark.parametrize("link", ["logits", "probabilities"])
def test_a_linear_teacher_is_known_after_one_query_with_gradients(link: str) -> None:
    W, b, X = linear_teacher(1)
    values, slopes = X @ W.T + b, W[None]
    if link == "probabilities":
        values = softmax(values)
        slopes = values[:, :, None] * (W[None] - np.einsum("nk,kd->nd", values, W)[:, None])
    found, shift = distillation.linear(distillation.lesson(X, values, slopes))
    assert np.allclose(found, W - W.mean(0), atol=1e-10)
    assert np.allclose(shift, b - b.mean(), atol=1e-10)


def test_a_linear_teacher_is_known_after_as_many_values_as_it_has_coefficients() -> None:
    W, b, X = linear_teacher(7)
    found, shift = distillation.linear(distillation.lesson(X, X @ W.T + b))
    assert np.allclose(found, W - W.mean(0), atol=1e-5)
    assert np.allclose(shift, b - b.mean(), atol=1e-5)


def test_one_probability_of_two_classes_is_read_as_a_logit() -> None:
    X, w = np.random.default_rng(0).normal(size=(5, 3)), np.array([1.0, -2.0, 0.5])
    p = 1 / (1 + np.exp(-X @ w))
    read = distillation.lesson(X, p, (p * (1 - p))[:, None] * w)
    assert np.allclose(read.logits[:, 0], X @ w)
    assert read.slopes is not None
    assert np.allclose(read.slopes[:, 0], w)
    assert np.allclose(distillation.linear(read)[0], w)


def test_gradients_of_probabilities_say_as_much_as_those_of_logits(teacher: Teacher) -> None:
    module, X, _ = teacher
    Z, J = answers(module, X)
    p = softmax(Z)
    read = distillation.lesson(X, p, p[:, :, None] * (J - np.einsum("nk,nkd->nd", p, J)[:, None]))
    plain = distillation.lesson(X, Z, J)
    assert read.full.all()
    assert np.allclose(read.logits, plain.logits)
    assert read.slopes is not None
    assert plain.slopes is not None
    assert np.allclose(read.slopes, plain.slopes)


def test_classes_whose_probability_was_rounded_away_are_left_out(teacher: Teacher) -> None:
    module, X, _ = teacher
    _, J = answers(module, X)
    p = np.array([[0.9999, 0.0001, 0.0], [0.6, 0.2999, 0.1001]])
    read = distillation.lesson(X[:2], p, p[:, :, None] * J[:2])
    assert list(read.full) == [False, True]
    assert read.directions is not None
    assert np.array_equal(read.directions[0, 2], np.zeros(3))


@pytest.mark.parametrize("link", ["logits", "probabilities"])
def test_the_gradient_of_the_top_class_is_that_of_a_mixture_of_logits(teacher: Teacher, link: str) -> None:
    module, X, _ = teacher
    Z, J = answers(module, X)
    rows, top, p = np.arange(len(X)), Z.argmax(1), softmax(Z)
    if link == "logits":
        read = distillation.lesson(X, Z, J[rows, top])
    else:
        Jp = p[:, :, None] * (J - np.einsum("nk,nkd->nd", p, J)[:, None])
        read = distillation.lesson(X, p, Jp[rows, top])
    assert read.directions is not None
    assert read.slopes is not None
    assert np.allclose(np.einsum("nok,nkd->nod", read.directions, J), read.slopes, atol=1e-5)


def test_random_mixtures_measure_the_whole_jacobian_in_the_mean(teacher: Teacher) -> None:
    module, X, _ = teacher
    Z, J = answers(module, X)
    read = distillation.lesson(X, Z, J)
    signs = np.array(list(product((-1, 1), repeat=3)))
    assert read.slopes is not None
    mixed = np.einsum("sk,nkd->snd", signs, read.slopes)
    assert np.isclose(np.square(mixed).sum(2).mean(), np.square(read.slopes).sum((1, 2)).mean())


def agreement(module: torch.nn.Module, read: distillation.Lesson, X: Array, right: Array, steps: int = 600) -> float:
    copy = architectures.build("two-layer", (8,), 3, 0, width=32)
    distillation.train(copy, read, 0, steps=steps)
    return float(np.mean(distillation.named(copy, X) == right))


def test_gradients_are_worth_more_than_values(teacher: Teacher) -> None:
    module, X, fresh = teacher
    right = distillation.named(module, fresh)
    Z, J = answers(module, X[:8])
    with_gradients = agreement(module, distillation.lesson(X[:8], Z, J), fresh, right)
    values_only = agreement(module, distillation.lesson(X[:8], Z), fresh, right)
    assert with_gradients > values_only + 0.05


@pytest.mark.parametrize("kind", ["top class", "probabilities", "labels"])
def test_every_kind_of_answer_teaches(teacher: Teacher, kind: str) -> None:
    module, X, fresh = teacher
    right = distillation.named(module, fresh)
    Z, J = answers(module, X)
    if kind == "top class":
        read = distillation.lesson(X, Z, J[np.arange(len(X)), Z.argmax(1)])
    elif kind == "probabilities":
        read = distillation.lesson(X, softmax(Z))
    else:
        read = distillation.lesson(X, *distillation.outputs(Z.argmax(1)))
    assert agreement(module, read, fresh, right, steps=300) > 0.03 + np.bincount(right).max() / len(right)


def test_batch_norm_does_not_mix_the_gradients_of_rows() -> None:
    module = architectures.build("resnet-18", (8, 8), 2, 0, width=2)
    X = torch.rand(4, 64)
    distillation.settle(module, X)
    _, together = answers(module, X.numpy())
    _, alone = answers(module, X.numpy()[:1])
    assert np.allclose(together[:1], alone, rtol=1e-3, atol=1e-3)


def test_deep_networks_with_batch_norm_learn_from_gradients() -> None:
    teacher = architectures.build("vgg-11", (8, 8), 2, 1, width=2)
    X = np.random.default_rng(0).normal(size=(6, 64))
    distillation.settle(teacher, torch.tensor(X, dtype=torch.float32))
    read = distillation.lesson(X, *answers(teacher, X))
    copy = architectures.build("vgg-11", (8, 8), 2, 0, width=2)
    values, slopes = distillation.train(copy, read, 0, steps=60)
    assert np.isfinite([values, slopes]).all()
    assert slopes < 0.9


@pytest.mark.parametrize("name", ["convolutional", "vgg-11"])
def test_a_copy_with_convolutions_learns_from_gradients_that_it_can_hardly_match(name: str) -> None:
    rng = np.random.default_rng(0)
    X, logits = rng.normal(size=(10, 256)), rng.normal(size=(10, 3))
    read = distillation.lesson(X, logits, 10 * rng.normal(size=(10, 3, 256)))
    assert read.slopes is not None
    copy = architectures.build(name, (16, 16), 3, 0, width=4)
    distillation.train(copy, read, 0, steps=60)
    _, J = answers(copy, X)
    cosine = (J * read.slopes).sum() / np.linalg.norm(J - J.mean(1, keepdims=True)) / np.linalg.norm(read.slopes)
    assert cosine > 0.1  # the squared distance gets 0.02 at most


def test_equal_signs_of_all_classes_teach_nothing_and_break_nothing() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1, 256))
    read = distillation.lesson(X, rng.normal(size=(1, 2)), rng.normal(size=(1, 2, 256)))
    copy = architectures.build("convolutional", (16, 16), 2, 0, width=2)
    misfits = distillation.train(copy, read, 0, steps=40)
    assert np.isfinite(misfits).all()
    assert all(np.isfinite(part).all() for part in architectures.state(copy).values())


def test_the_length_of_gradients_teaches_dense_copies_only() -> None:
    rng = np.random.default_rng(0)
    X, logits, slopes = rng.normal(size=(5, 256)), rng.normal(size=(5, 3)), rng.normal(size=(5, 3, 256))
    for name, same in [("two-layer", False), ("convolutional", True)]:
        copies = [architectures.build(name, (16, 16), 3, 0, width=2) for _ in range(2)]
        lessons = [distillation.lesson(X, logits, size * slopes) for size in (1, 8)]
        short, long = [distillation.train(copy, read, 0, steps=5) for copy, read in zip(copies, lessons, strict=True)]
        assert np.allclose(short, long) == same


def test_gradients_of_another_number_of_outputs_are_refused(teacher: Teacher) -> None:
    _, X, _ = teacher
    with pytest.raises(ValueError, match="gradients of 1 or 3 outputs, got 2"):
        distillation.lesson(X, np.zeros((len(X), 3)) - 1.5, np.zeros((len(X), 2, 8)))
