"""Classifiers as victims: they learn, they are served in three ways, and a stored one is found again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from divulge import Candidates, Copy, Gradients, datasets, experiments, victims
from divulge.errors import BadInput
from divulge.victims import classifiers


@pytest.fixture(scope="module")
def digits() -> datasets.Dataset:
    return datasets.load("mnist", samples=3000)


@pytest.fixture(scope="module")
def victim(digits: datasets.Dataset) -> victims.Victim:
    test = Candidates(digits.X_test, digits.y_test)
    rng = np.random.default_rng(0)
    return victims.make(
        "classifier", digits.X, digits.y, rng, test=test, shape=digits.shape, architecture="two-layer", width=32, epochs=8
    )


def test_a_network_learns_the_digits(victim: victims.Victim) -> None:
    test, network = victim.truth["candidates"], victim.truth["copy"]
    assert isinstance(test, Candidates)
    assert isinstance(network, Copy)
    assert np.mean(network.predict(test.X).argmax(1) == test.y) > 0.88


def test_a_convolutional_network_learns_them_too(digits: datasets.Dataset) -> None:
    made = classifiers.train(
        digits.X, digits.y, np.random.default_rng(0), architecture="convolutional", shape=digits.shape, width=8, epochs=4
    )
    assert np.mean(made.predict(digits.X_test).argmax(1) == digits.y_test) > 0.85


def test_the_pool_has_no_labels_and_none_of_the_owners_points(victim: victims.Victim, digits: datasets.Dataset) -> None:
    pool = victim.held["pool"]
    assert isinstance(pool, Candidates)
    assert pool.y is None
    assert len(pool.X) == 500
    assert pool.shape == (28, 28)


def test_smoothed_gradients_are_means_and_the_same_when_asked_again(
    victim: victims.Victim, digits: datasets.Dataset
) -> None:
    served, plain = (
        replace(victim, served={**victim.served, "kind": kind}).opened().held for kind in ("smoothgrad", "gradients")
    )
    assert list(served) == ["api", "pool"]
    noisy, exact = served["api"], plain["api"]
    assert isinstance(noisy, Gradients)
    assert isinstance(exact, Gradients)
    X = digits.X_test[:2]
    smooth = noisy.gradient(X)
    assert np.array_equal(smooth, noisy.gradient(X))
    assert np.allclose(smooth[1], noisy.gradient(X[1:])[0], atol=1e-6)
    assert np.array_equal(noisy.value(X), exact.value(X))
    assert not np.allclose(smooth, exact.gradient(X), atol=1e-3)


def test_smoothing_changes_no_gradient_of_a_linear_model(digits: datasets.Dataset) -> None:
    made = classifiers.train(digits.X[:200], digits.y[:200], np.random.default_rng(0), architecture="one-layer")
    plain = Gradients.of(made)
    smooth = classifiers.smoothed(plain, noise=3.0)
    assert np.allclose(smooth.gradient(digits.X[:2]), plain.gradient(digits.X[:2]), atol=1e-6)
    assert smooth.identity != plain.identity


def test_labels_that_are_no_class_numbers_are_refused(digits: datasets.Dataset) -> None:
    with pytest.raises(BadInput, match="classes 0, 1"):
        classifiers.train(digits.X, digits.y - 5, np.random.default_rng(0), architecture="one-layer")
    with pytest.raises(BadInput, match="needs pictures"):
        classifiers.train(digits.X, digits.y, np.random.default_rng(0), architecture="convolutional")


TEXT = """
title = "T"
paper = "P"
claim = "C"
published = "1"
attack = "surrogate"
score = "agreement on test points"
pool = "smallest"
at_least = 1.0
[data]
name = "mnist"
samples = 600
[victim]
recipe = "classifier"
architecture = "one-layer"
[options]
architecture = "one-layer"
queries = 1
"""


def test_an_experiment_finds_its_classifier_again(tmp_path: Path) -> None:
    experiment = experiments.parse("t", TEXT, "quick")
    first = experiments.run(experiment, out=tmp_path)
    assert first.reproduced
    for path in tmp_path.glob("pieces/*/finding.json"):
        path.unlink()
    assert experiments.run(experiment, out=tmp_path).ours == first.ours
