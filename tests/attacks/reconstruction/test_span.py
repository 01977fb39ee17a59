"""Training images come back from the weights that were trained on them, and from no others."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from divulge import Context, TrainingData, Weights, datasets
from divulge.arrays import Array
from divulge.attacks import SpanReconstruction
from divulge.attacks.reconstruction.claims import Claims
from divulge.contract import Budget, Finding, Verdict
from divulge.errors import BadInput
from divulge.solvers.images import layouts
from divulge.solvers.images.span_search import Found, SpanSearch
from divulge.solvers.margin import max_margin
from divulge.solvers.shared import synthetic_images
from divulge.victims import ordinary


@cache
def victim(centred: bool = True, units: int = 60, count: int = 12, colour: bool = False) -> tuple[Weights, Array]:
    """A network that was trained on digits, or on made-up photographs, and those."""
    rng = np.random.default_rng(5)
    shape: tuple[int, ...] = (28, 28)
    if colour:
        X, y, shape = synthetic_images.leaves(rng, count, (16, 16, 3)), np.where(np.arange(count) % 2, 1, -1), (16, 16, 3)
    else:
        digits = datasets.load("mnist-odd-even", samples=count, seed=5)
        X, y = digits.X, digits.y
    mean = X.mean(axis=0) if centred else np.zeros(X.shape[1])
    run = max_margin.train(max_margin.initial(rng, [X.shape[1], units, 1]), X - mean, y)
    return Weights(tuple(run.layers), mean=mean if centred else None, shape=shape), X


def loot_of(finding: Finding[TrainingData]) -> TrainingData:
    assert finding.loot is not None
    return finding.loot


def hits(finding: Finding[TrainingData], X: Array, level: float = 0.9) -> int:
    loot = loot_of(finding).X
    return int((np.corrcoef(loot, X)[: len(loot), len(loot) :].max(axis=0) > level).sum())


def changed(held: Weights, W: Array | None = None, b: Array | None = None, **rest: Any) -> Weights:
    (first, bias), *others = held.layers
    layers = ((first if W is None else W, bias if b is None else b), *others)
    options: dict[str, Any] = {"layers": layers, "mean": held.mean, "shape": held.shape, **rest}
    return Weights(**options)


def test_digits_come_back_and_their_clipped_pixels_certify_them() -> None:
    held, X = victim()
    finding = SpanReconstruction()(held, truth={"training_data": TrainingData(X, shape=(28, 28))})
    assert finding.verdict.value == "leak"
    assert finding.scores["images at NCC > 0.9"].value >= 11
    assert finding.scores["images at NCC > 0.9"].null <= 1
    assert finding.scores["pixel-exact images"].value >= 9
    assert hits(finding, X) == finding.scores["images at NCC > 0.9"].value
    assert "certify" in finding.summary
    assert loot_of(finding).X.min() >= 0
    assert loot_of(finding).X.max() <= 1


def test_what_is_claimed_is_right() -> None:
    held, X = victim()
    loot = loot_of(SpanReconstruction()(held)).X
    assert np.corrcoef(loot, X)[: len(loot), len(loot) :].max(axis=1).min() > 0.9


def test_images_that_were_not_centred_come_back() -> None:
    held, X = victim(centred=False)
    assert hits(SpanReconstruction()(held), X) >= 8


def test_photographs_come_back_in_either_order_of_their_colours() -> None:
    held, X = victim(colour=True)
    finding = SpanReconstruction(seeds=2)(held)
    assert hits(finding, X) >= 10
    assert held.mean is not None
    order = np.moveaxis(np.arange(768).reshape(16, 16, 3), -1, 0).ravel()
    turned = changed(held, held.layers[0][0][:, order], mean=held.mean[order])
    finding = SpanReconstruction(seeds=2)(turned)
    assert loot_of(finding).shape == (3, 16, 16)
    assert hits(finding, X[:, order]) >= 10
    assert any("red pixels first" in note for note in finding.notes)


def test_a_little_noise_does_not_hide_them() -> None:
    held, X = victim()
    W = held.layers[0][0]
    noisy = W + 1e-4 * np.abs(W).max() * np.random.default_rng(0).standard_normal(W.shape)
    assert hits(SpanReconstruction()(changed(held, noisy, exact=False)), X) >= 9


def test_units_in_another_order_and_scale_show_the_same_images() -> None:
    held, X = victim()
    (W, b), (V, c) = held.layers
    rng = np.random.default_rng(1)
    order, scale = rng.permutation(len(b)), rng.uniform(0.5, 2, len(b))
    other = Weights((((scale[:, None] * W)[order], (scale * b)[order]), ((V / scale)[:, order], c)), mean=held.mean)
    finding = SpanReconstruction()(other)
    assert hits(finding, X) >= 11
    assert any("28 × 28" in note for note in finding.notes)


def test_a_mean_that_nobody_told_is_estimated() -> None:
    held, X = victim(units=80, count=20)
    finding = SpanReconstruction()(changed(held, mean=None))
    assert finding.verdict.value == "leak"
    assert hits(finding, X) >= 14
    assert "certify" not in finding.summary


@pytest.mark.parametrize("first", [0.05, None])
def test_a_network_that_was_never_trained_shows_nothing_and_the_control_shows_what_would_be_found(
    first: float | None,
) -> None:
    layers = max_margin.initial(np.random.default_rng(0), [784, 60, 1], first=first)
    finding = SpanReconstruction()(Weights(tuple(layers), shape=(28, 28)))
    assert finding.verdict.value == "none found"
    assert int(finding.power.split("claims ")[1].split(",")[0]) >= 10


def test_a_large_start_hides_the_images() -> None:
    digits = datasets.load("mnist-odd-even", samples=12, seed=5)
    start = max_margin.initial(np.random.default_rng(0), [784, 60, 1], first=None)
    run = max_margin.train(start, digits.X - digits.X.mean(axis=0), digits.y)
    finding = SpanReconstruction()(Weights(tuple(run.layers), mean=digits.X.mean(axis=0), shape=(28, 28)))
    assert finding.verdict.value == "none found"


def test_blank_pictures_of_a_span_as_large_as_the_picture_are_no_images() -> None:
    """scikit-learn's own network of 8 × 8 digits: 60 directions of 64 pixels, of which any picture can be made."""
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier

    X, y = load_digits(return_X_y=True)
    trained = MLPClassifier((200,), alpha=1e-2, random_state=0, max_iter=300).fit(X[:1000] / 16, y[:1000] % 2)
    layers = tuple((W.T, b) for W, b in zip(trained.coefs_, trained.intercepts_, strict=True))
    finding = SpanReconstruction()(Weights(layers, shape=(8, 8)))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "any picture can be made" in finding.summary


@pytest.mark.slow
@pytest.mark.parametrize(("known", "start"), [(False, 0.003), (True, 1.0)])
def test_what_adam_leaves_of_a_small_or_known_start_is_no_image(known: bool, start: float) -> None:
    digits = datasets.load("mnist-odd-even", samples=20, seed=1)
    mean = digits.X.mean(axis=0)
    trained = ordinary.train(
        digits.X - mean,
        digits.y,
        np.random.default_rng(0),
        hidden=(100,),
        optimiser="adam",
        lr=1e-3,
        start=start,
        epochs=600,
    )
    (W, b), *rest = trained.layers
    if known:
        W, b = W - trained.start[0][0], b - trained.start[0][1]
    finding = SpanReconstruction()(Weights(((W, b), *rest), mean=mean, shape=digits.shape))
    assert finding.verdict is Verdict.NONE_FOUND


def test_what_is_no_picture_is_refused() -> None:
    held, _ = victim()
    W, b = held.layers[0]
    shuffled = changed(held, W[:, np.random.default_rng(0).permutation(784)], mean=None)
    assert "nothing to do with each other" in SpanReconstruction()(shuffled).summary
    table = Weights(((W[:, :30], b), held.layers[1]))
    assert SpanReconstruction()(table).verdict.value == "not applicable"
    with pytest.raises(BadInput, match="do not fill"):
        SpanReconstruction(shape=(20, 20))(changed(held, shape=None))
    with pytest.raises(BadInput, match="box"):
        SpanReconstruction(box=(1.0, 0.0))(held)


def test_time_that_runs_out_is_said() -> None:
    held, _ = victim()
    finding = SpanReconstruction()(held, context=Context(budget=Budget(seconds=1e-6)))
    assert finding.verdict.value == "failed"
    assert finding.partial


def claimed(monkeypatch: pytest.MonkeyPatch, *confidence: float) -> Finding[TrainingData]:
    """What the attack says where a search is as sure as this of its candidates."""
    held, X = victim()
    sure = np.array(confidence)
    found = Found(X[: len(sure)], sure, np.zeros(len(sure), bool), np.full(len(sure), np.inf), X[: len(sure)])
    monkeypatch.setattr(SpanSearch, "run", lambda self, rng: found)
    return SpanReconstruction()(held)


@pytest.mark.parametrize(
    ("confidence", "verdict"),
    [
        ((0.95, 0.91, 0.91), Verdict.LEAK),
        ((0.95, 0.91, 0.89), Verdict.NONE_FOUND),
        ((0.95, 0.91, 0.89, 0.89, 0.89), Verdict.NONE_FOUND),
        ((0.99, 0.99), Verdict.NONE_FOUND),
    ],
)
def test_three_candidates_have_to_be_certain_for_a_leak(
    monkeypatch: pytest.MonkeyPatch, confidence: tuple[float, ...], verdict: Verdict
) -> None:
    assert claimed(monkeypatch, *confidence).verdict is verdict


def test_beside_certain_candidates_likely_ones_are_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = claimed(monkeypatch, 0.99, 0.99, 0.98, 0.97, 0.71, 0.49)
    assert len(loot_of(finding).X) == 5
    assert any("1 candidate was left out" in note for note in finding.notes)
    assert isinstance(finding.evidence, Claims)
    assert finding.evidence.confidence.tolist() == [0.99, 0.99, 0.98, 0.97, 0.71]


@pytest.mark.parametrize(("side", "refused"), [(5, True), (6, False)])
def test_pictures_of_fewer_than_36_pixels_are_refused(side: int, refused: bool) -> None:
    rng = np.random.default_rng(0)
    smooth = np.cumsum(np.cumsum(rng.standard_normal((60, side, side)), axis=1), axis=2).reshape(60, -1)
    held = Weights(((smooth, np.zeros(60)), (np.ones((1, 60)), np.zeros(1))), shape=(side, side))
    summary = SpanReconstruction(count=4)(held).summary
    assert ("too small" in summary) is refused


@pytest.mark.parametrize(("count", "refused"), [(19, True), (18, False)])
def test_half_as_many_directions_as_pixels_are_too_many(count: int, refused: bool) -> None:
    rng = np.random.default_rng(0)
    smooth = np.cumsum(np.cumsum(rng.standard_normal((count, 6, 6)), axis=1), axis=2).reshape(count, -1)
    rows = rng.standard_normal((60, count)) @ smooth
    held = Weights(((rows, np.zeros(60)), (np.ones((1, 60)), np.zeros(1))), shape=(6, 6))
    assert ("any picture can be made" in SpanReconstruction(seeds=1)(held).summary) is refused


@pytest.mark.parametrize(("dark", "outside", "claims"), [(0.51, 1.0, 12), (0.49, 0.31, 0), (0.49, 0.29, 12)])
def test_without_a_mean_pictures_have_to_be_mostly_black_or_inside_the_box(
    monkeypatch: pytest.MonkeyPatch, dark: float, outside: float, claims: int
) -> None:
    held, X = victim()
    sure = np.full(12, 0.99)
    found = Found(X, sure, np.zeros(12, bool), np.full(12, np.inf), X)
    monkeypatch.setattr(SpanSearch, "run", lambda self, rng: found)
    monkeypatch.setattr(layouts, "dark_share", lambda raw, box: dark)
    monkeypatch.setattr(layouts, "outside", lambda raw, box: outside)
    monkeypatch.setattr(layouts, "likely_mean", lambda raw, box: np.full(784, 0.5))
    finding = SpanReconstruction()(changed(held, mean=None))
    assert (0 if finding.loot is None else len(finding.loot.X)) == claims


@pytest.mark.slow
def test_photographs_less_a_mean_that_nobody_told_are_not_claimed() -> None:
    """The estimate takes pictures for mostly black; of photographs it makes others."""
    held, _ = victim(colour=True, count=20, units=80)
    assert SpanReconstruction(seeds=2)(changed(held, mean=None)).verdict is Verdict.NONE_FOUND
