from __future__ import annotations

import numpy as np
import pytest

from divulge.solvers.margin import max_margin as md


def separable(n: int = 12, d: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), np.where(np.arange(n) % 2, 1, -1)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_gradient_of_the_log_loss_agrees_with_finite_differences(outputs: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((7, 5))
    y = np.where(np.arange(7) % 2, 1, -1) if outputs == 1 else np.arange(7) % 3
    layers = md.initial(rng, [5, 6, 4, outputs], first=None, biases=True)
    task = md._Task(X, y, True)
    slopes = task.look(layers).slopes
    for number, (W, b) in enumerate(layers):
        for place in ((0, 1), (W.shape[0] - 1, 0)):
            step = np.zeros_like(W)
            step[place] = 1e-6
            losses = [
                task.look([*layers[:number], (W + sign * step, b), *layers[number + 1 :]]).log_loss for sign in (1, -1)
            ]
            assert slopes[number][0][place] == pytest.approx((losses[0] - losses[1]) / 2e-6, abs=1e-8)


@pytest.mark.slow
def test_loss_far_below_the_smallest_number_is_still_followed() -> None:
    X, y = separable()
    run = md.train(md.initial(np.random.default_rng(0), [30, 40, 1], first=1e-2), X, y, target=1e-300, passes=20_000)
    outputs = md.forward(run.layers, X)[-1]
    assert run.log_loss < -600
    assert md.margins(outputs, y).min() > 600


def test_training_reaches_the_loss_asked_for_with_every_point_right() -> None:
    X, y = separable()
    run = md.train(md.initial(np.random.default_rng(0), [30, 40, 20, 1]), X, y, target=1e-5)
    assert -12.5 < run.log_loss <= np.log(1e-5)
    assert md.margins(md.forward(run.layers, X)[-1], y).min() > 0
    assert run.history[-1, 1] == run.log_loss


def test_outside_the_span_of_the_data_the_first_layer_keeps_its_start() -> None:
    X, y = separable()
    start = md.initial(np.random.default_rng(0), [30, 40, 1], first=1e-2)
    run = md.train(start, X, y, target=1e-3)
    across = np.linalg.svd(X)[2][len(X) :]
    np.testing.assert_allclose(run.layers[0][0] @ across.T, start[0][0] @ across.T, atol=1e-14)


@pytest.mark.slow
def test_it_is_the_path_of_plain_gradient_descent_the_more_so_the_shorter_the_steps() -> None:
    X, y = separable(8, 20)
    start = md.initial(np.random.default_rng(0), [20, 30, 1], first=1e-2)
    plain = md.plain(start, X, y, rate=0.02, epochs=60_000, target=1e-3)
    away = []
    for fall in (0.1, 0.02, 0.004):
        quick = md.train(start, X, y, target=1e-3, fall=fall)
        pairs = zip(plain.layers, quick.layers, strict=True)
        away.append(np.sqrt(sum(np.linalg.norm(one - other) ** 2 for (one, _), (other, _) in pairs)))
        margins = [md.normalised_margin(run.layers, X, y) for run in (plain, quick)]
        assert margins[1] == pytest.approx(margins[0], rel=0.1)
    assert away[2] < away[1] < away[0]
    assert away[2] < 0.03 * np.linalg.norm(plain.layers[0][0])


def test_rotating_into_the_span_does_not_change_plain_descent() -> None:
    X, y = separable(8, 20)
    start = md.initial(np.random.default_rng(0), [20, 10, 1], first=0.1)
    there, here = (md.plain(start, X, y, rate=0.1, epochs=200, rotate=rotate) for rotate in (False, True))
    np.testing.assert_allclose(there.layers[0][0], here.layers[0][0], atol=1e-12)
    assert there.log_loss == pytest.approx(here.log_loss)


def test_several_classes_and_random_batches_train_too() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((15, 40)), np.arange(15) % 3
    start = md.initial(rng, [40, 60, 3], first=1e-2, biases=True)
    for batch in (None, 5):
        run = md.train(start, X, y, target=1e-4, batch=batch, rng=rng, biases=True)
        assert run.log_loss <= np.log(1e-4)
        assert md.margins(md.forward(run.layers, X)[-1], y).min() > 0


def test_without_biases_only_the_first_layer_has_them() -> None:
    X, y = separable()
    run = md.train(md.initial(np.random.default_rng(0), [30, 20, 10, 1]), X, y, target=1e-2)
    assert np.any(run.layers[0][1])
    assert not np.any(run.layers[1][1])
    assert not np.any(run.layers[2][1])


def test_points_that_cannot_be_told_apart_end_the_path() -> None:
    X = np.ones((4, 3))
    run = md.train(md.initial(np.random.default_rng(0), [3, 5, 1], first=0.1), X, np.array([1, -1, 1, -1]), passes=3000)
    assert run.log_loss == pytest.approx(np.log(np.log(2)), abs=1e-3)


@pytest.mark.parametrize(
    ("labels", "signs"),
    [([0, 1, 1], [-1, 1, 1]), (["a", "b", "a"], [-1, 1, -1]), ([1, 2, 3], [1, -1, -1]), (None, [1, -1, -1])],
)
def test_two_classes_become_signs_and_without_two_the_outputs_do(labels: list[object] | None, signs: list[int]) -> None:
    y = None if labels is None else np.array(labels)
    assert md.signed_labels(y, np.array([0.3, -2.0, 0.0])).tolist() == signs
