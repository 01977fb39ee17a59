"""One table: every attack on a victim with a known answer keeps every promise. A new attack adds a line."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge

from divulge import (
    Candidates,
    Fitted,
    Gradients,
    Hyperparameters,
    Membership,
    Parameters,
    Pipeline,
    Predictions,
    Scores,
    TrainingData,
    Weights,
    datasets,
    registry,
    victims,
)
from divulge.contract import Access, Array, Attack, Context, Directions, Finding, Procedure, option_class
from divulge.solvers.stationarity import backprop
from divulge.testing import Nonconforming, check_attack

from .directions.victims import explaining, victim

pytestmark = pytest.mark.slow

Case = tuple[tuple[Access, ...], Mapping[str, Access] | None]
"What an attacker holds, and what the auditor knows where there is something to score against."


def ridge_and_its_data(scale: float = 1.0) -> tuple[Fitted, TrainingData, Hyperparameters]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    y = scale * (X @ rng.normal(size=4) + rng.normal(size=50))
    estimator = Ridge(0.7).fit(X, y)
    return Fitted.of(estimator), TrainingData(X, y), Hyperparameters.of(estimator)


def ridge() -> Case:
    fitted, data, secret = ridge_and_its_data()
    return (fitted, data), {"hyperparameters": secret}


def logistic() -> Case:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    estimator = LogisticRegression().fit(X, X @ rng.normal(size=4) + rng.normal(size=50) > 0)
    return (Predictions(estimator.predict_proba, 4, "logistic"),), {"parameters": Parameters(estimator.coef_)}


def blind_ridge() -> Case:
    fitted, data, _ = ridge_and_its_data()
    return (Parameters(coef=fitted.coef, intercept=fitted.intercept), data), {"fitted": fitted}


def large_ridge() -> Case:
    """Coefficients of which a few decimals more or less say little."""
    fitted, data, secret = ridge_and_its_data(scale=100)
    return (fitted, data), {"hyperparameters": secret}


def ridge_pipeline() -> Case:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))  # of fewer, some samples are too small to tune on
    y = X @ rng.normal(size=4) + rng.normal(size=800)
    return (Pipeline(X[:600], y[:600], X[600:], y[600:], learner="ridge"),), None


def planes_through_the_origin() -> Case:
    rng = np.random.default_rng(0)
    layers = (rng.normal(size=(10, 12)), np.zeros(10)), (rng.normal(size=(1, 10)), np.zeros(1))
    return (Gradients.of(Weights(layers)),), {"weights": Weights(layers)}


def three_classes() -> Case:
    rng = np.random.default_rng(0)
    layers = (rng.normal(size=(8, 5)), rng.normal(size=8)), (rng.normal(size=(3, 8)), np.zeros(3))
    X = rng.normal(size=(400, 5))
    test = Candidates(X[300:], Weights(layers).predict(X[300:]).argmax(1))
    return (Gradients.of(Weights(layers)), Candidates(X[:300])), {"candidates": test}


def three_classes_blind() -> Case:
    (model, _), truth = three_classes()
    return (model,), truth


def explained_network() -> Case:
    rng = np.random.default_rng(0)
    network = Weights(
        ((rng.standard_normal((6, 4)), rng.standard_normal(6)), (rng.standard_normal((1, 6)), rng.standard_normal(1)))
    )
    return (Gradients.of(network),), {"weights": network}


def network_of_ten_digits() -> tuple[Weights, TrainingData]:
    """A network of two layers and ten outputs, trained by gradient descent on one digit of each class."""
    digits = datasets.load("mnist", samples=10, seed=0)
    X, y, rng = np.asarray(digits.X, dtype=float), np.eye(10)[digits.y], np.random.default_rng(0)
    layers = [(1e-4 * rng.normal(size=(40, 784)), np.zeros(40)), (rng.normal(size=(10, 40)) / np.sqrt(40), np.zeros(10))]
    for _ in range(300):
        slopes = backprop.gradient(layers, X, lambda outputs: (softmax(outputs, axis=1) - y) / len(y))
        layers = [(W - 0.5 * dW, b - 0.5 * db) for (W, b), (dW, db, _, _) in zip(layers, slopes, strict=True)]
    return Weights(tuple(layers), shape=(28, 28)), TrainingData(X, digits.y, shape=(28, 28))


def ten_digits() -> Case:
    network, data = network_of_ten_digits()
    return (network,), {"training_data": data}


def ten_digits_beside_others() -> Case:
    """What makes no claim is a leak only where training images are told from others."""
    (network,), truth = ten_digits()
    others = np.asarray(datasets.load("mnist", samples=310, seed=1).X, dtype=float).reshape(310, -1)
    return (network,), {**(truth or {}), "candidates": Candidates(others[10:])}


def features_of_a_head() -> Case:
    """What descent moved in a layer on features that are 0 in half of their inputs."""
    rng = np.random.default_rng(0)
    X = np.maximum(rng.standard_normal((8, 120)), 0)
    return (Directions(rng.standard_normal((20, 8)) @ np.column_stack([X, np.ones(8)])),), {"training_data": TrainingData(X)}


def explained_strokes() -> Case:
    """A service of a network that weight decay has trained on known pictures."""
    network, data = victim()
    return (explaining(network),), {"training_data": data}


def values_of_strokes() -> Case:
    network, data = victim()
    held = Predictions(network.predict, network.dimension, "strokes", mean=network.mean, shape=network.shape)
    return (held,), {"training_data": data}


def points_on_a_sphere() -> Case:
    data = datasets.load("sphere", dimension=200, samples=140, test=1)
    return (TrainingData(data.X, data.y),), None


def scored_elsewhere() -> Case:
    rng = np.random.default_rng(0)
    member = rng.random(300) < 0.5
    scores = Scores(rng.normal(size=300) + 2 * member, np.arange(300), "another tool")
    return (scores,), {"membership": Membership(member.astype(float), member, np.arange(300))}


def zigzag() -> Case:
    """A network with one input at a KKT point of its margin."""
    nothing = np.zeros((0, 1))  # the recipe draws its own points
    victim = victims.make("univariate", nothing, nothing, np.random.default_rng(0), points=8)
    return tuple(victim.held.values()), dict(victim.truth)


def zigzag_values() -> Case:
    (network,), truth = zigzag()
    return (Predictions.of(network),), truth


def ten_digits_and_others() -> Case:
    """The same network, and whether those digits are members among others."""
    network, data = network_of_ten_digits()
    others = datasets.load("mnist", samples=10, seed=0).X_test
    assert others is not None
    asked = Candidates(np.concatenate([data.X, others[:400]]), shape=(28, 28))
    return (network, asked), {"training_data": data}


def far_apart() -> Case:
    """A network whose output at eight orthogonal points is 10 or −10, and near 0 elsewhere."""
    rng = np.random.default_rng(0)
    X = np.vstack([10 * np.eye(40)[:8] * rng.uniform(0.999, 1.001, (8, 1)), rng.normal(size=(60, 40))])
    layers = (np.eye(40)[:8], np.zeros(8)), (np.tile([[-1.0, 1.0]], 4), np.zeros(1))
    asked = Candidates(X)
    return (Predictions.of(Weights(layers)), asked), {"training_data": TrainingData(X[:8], np.tile([-1, 1], 4))}


def zeros_and_eights() -> Case:
    digits = datasets.load("mnist-0-8", samples=90, seed=3)
    held = Pipeline(digits.X[:50], digits.y[:50], digits.X[50:], digits.y[50:], shape=(28, 28))
    return (held,), {"candidates": Candidates(digits.X_test, digits.y_test)}


def twenty_digits() -> Case:
    digits = datasets.load("mnist", samples=20, seed=0)
    return (TrainingData(digits.X, digits.y, shape=(28, 28)),), None


def two_clouds() -> Case:
    data = datasets.load("two-gaussians", seed=2)
    held = Pipeline(data.X[:32], data.y[:32], data.X[32:], data.y[32:], low=-9.5, high=9.5)
    return (held,), {"candidates": Candidates(data.X_test, data.y_test)}


VICTIMS: dict[str, Callable[[], Case]] = {
    "algorithm": blind_ridge,
    "answer-directions": explained_strokes,
    "blind-surrogate": three_classes_blind,
    "feature-reconstruction": features_of_a_head,
    "first-layer-images": ten_digits_beside_others,
    "gradient-cancelling": two_clouds,
    "gradient-extraction": explained_network,
    "hyperparameters": ridge,
    "imported-membership": scored_elsewhere,
    "kkt-reconstruction": ten_digits,
    "linear-extraction": logistic,
    "margin-membership": far_apart,
    "margin-simulation": points_on_a_sphere,
    "model-inversion": ten_digits_beside_others,
    "poisoning": zeros_and_eights,
    "poisoning-defences": zeros_and_eights,
    "poisoning-map": two_clouds,
    "published-extraction": planes_through_the_origin,
    "rounded-release": large_ridge,
    "span-membership": ten_digits_and_others,
    "span-reconstruction": ten_digits,
    "surrogate": three_classes,
    "train-steal-retrain": ridge_pipeline,
    "training-risk": twenty_digits,
    "univariate-from-values": zigzag_values,
    "univariate-reconstruction": zigzag,
    "value-directions": values_of_strokes,
    "value-extraction": planes_through_the_origin,
}


OPTIONS: dict[str, dict[str, Any]] = {
    "margin-simulation": {"trials": 8, "points": 5, "hidden": 5000, "fresh": 100, "depth": 50},
    "kkt-reconstruction": {"steps": 60, "count": 10, "fewest": 1},
    "gradient-cancelling": {"points": 12},
    "poisoning": {"points": 8, "batch": 8, "iterations": 4, "starts": 1, "repetitions": 2},
    "poisoning-defences": {"points": 8, "batch": 8, "iterations": 4, "starts": 1, "parts": 5},
    "poisoning-map": {"cells": 8, "penalties": 3, "epochs": 100},
    "training-risk": {
        "images": 10,
        "hidden": (40,),
        "momentum": 0.9,
        "weight_decay": 0.02,
        "steps": 300,
        "starts": (0.1, 1.0),
        "decays": (3.0, 6.0),
    },
}
"Where the defaults take long."


@pytest.mark.parametrize("name", [*registry.attacks(), *registry.others()])
def test_every_attack_baseline_and_study_keeps_its_promises(name: str) -> None:
    held, truth = VICTIMS[name]()
    finding = check_attack(registry.procedure(name)(**OPTIONS.get(name, {})), *held, truth=truth)
    assert finding.verdict.value == "leak" or finding.onward


Run = Callable[[Any, Predictions, Context], Finding[Any]]
"The `run` of an attack, outside of its class; some of them break the types, too."


def made(run: Run, **fields: float) -> Procedure[Any, Any]:
    annotations = {"name": ClassVar[str], **dict.fromkeys(fields, float)}
    body = {"name": "made", "run": run, "__annotations__": annotations, **fields}
    kind = type("Made", (Attack,), {**body, "__orig_bases__": (Attack[Predictions, Hyperparameters],)})
    attack: Procedure[Any, Any] = option_class(kind)()
    return attack


def answer(value: float) -> Finding[Hyperparameters]:
    return Finding.leak(Hyperparameters({"a": float(value)}), "Won.")


def prints(self: Any, held: Predictions, context: Context) -> Finding[Hyperparameters]:
    print("hello")
    return answer(1)


def forgets_its_seed(self: Any, held: Predictions, context: Context) -> Finding[Hyperparameters]:
    return answer(np.random.default_rng().normal())


def spends_unseen(self: Any, held: Any, context: Context) -> Finding[Hyperparameters]:
    held.value.__closure__[0].cell_contents(np.ones((1, 2)))  # around the meter
    return answer(1)


def changes_when_resumed(self: Any, held: Predictions, context: Context) -> Finding[Hyperparameters]:
    seen: list[int] = []
    context.once("piece", lambda rng: seen.append(1))
    return answer(len(seen))


def counted(seen: list[int], item: int) -> int:
    seen.append(item)
    return len(seen)


def shares_state(self: Any, held: Predictions, context: Context) -> Finding[Hyperparameters]:
    seen: list[int] = []
    return answer(context.map("items", lambda item, rng: counted(seen, item), range(6))[-1])


def tells_a_later_piece(self: Any, held: Predictions, context: Context) -> Finding[Hyperparameters]:
    """Right when everything is found again and when nothing is."""
    seen: list[int] = []
    context.once("first", lambda rng: counted(seen, 1))
    return answer(context.once("second", lambda rng: counted(seen, 2)))


def wrong_loot(self: Any, held: Predictions, context: Context) -> Finding[Any]:
    return replace(answer(1), loot=TrainingData(np.eye(2)))  # type: ignore[arg-type]  # the mistake is the test


@pytest.mark.parametrize(
    ("run", "fields", "promise"),
    [
        (prints, {}, "it printed 'hello'"),
        (forgets_its_seed, {}, "the same seed gave another finding"),
        (spends_unseen, {}, "it sent 1 queries and reports 0"),
        (wrong_loot, {}, "its loot is not Hyperparameters"),
        (changes_when_resumed, {}, "a run that was resumed found something else"),
        (tells_a_later_piece, {}, "a run that was resumed found something else .*, after it lost 'second'"),
        (shares_state, {}, "two workers found something else than one"),
        (lambda self, held, context: answer(1), {"level": 1.0}, "option 'level' has no sentence"),
    ],
)
def test_a_broken_promise_is_named(run: Run, fields: dict[str, float], promise: str) -> None:
    with pytest.raises(Nonconforming, match=promise):
        check_attack(made(run, **fields), MODEL)


def unchanged(X: Array) -> Array:
    return X


MODEL = Predictions(unchanged, 2, "m")


def maps_within_a_piece(self: Any, held: Predictions, context: Context) -> Finding[Hyperparameters]:
    """Two maps inside one piece, and one after it."""

    def small(rng: np.random.Generator) -> float:
        ones: list[int] = context.map("ones", lambda item, rng: item, (1, 2))
        noise = context.map("noise", lambda item, rng: float(rng.normal()), range(3))
        return sum(ones) + sum(noise)

    within = context.once("small", small)
    large = context.map("large", lambda item, rng: 100 * item, (1, 2))
    return Finding.leak(Hyperparameters({"within": within, "first": large[0], "second": large[1]}), "Won.")


def won(run: Run) -> Mapping[str, float]:
    """What an attack wins that keeps every promise."""
    loot = check_attack(made(run), MODEL).loot
    assert isinstance(loot, Hyperparameters)
    return loot.values


def test_pieces_inside_a_piece_are_not_taken_for_those_that_follow() -> None:
    values = won(maps_within_a_piece)
    assert (values["first"], values["second"]) == (100, 200)


def test_pieces_that_went_by_their_number_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """As names once were: a map found again inside a piece is asked for no more, and the next one got its number."""

    def numbered(self: Context, name: str) -> str:
        self._used.add(f"{len(self._used)}")
        return f"map-{len(self._used) - 1}" if name != "small" else name

    monkeypatch.setattr(Context, "_named", numbered)
    with pytest.raises(Nonconforming, match="a run that was resumed found something else"):
        check_attack(made(maps_within_a_piece), MODEL)


def test_a_name_given_twice_is_refused() -> None:
    def run(self: Any, held: Predictions, context: Context) -> Finding[Hyperparameters]:
        for _ in range(2):
            context.map("draws", lambda item, rng: item, (1, 2))
        return answer(1)

    with pytest.raises(ValueError, match="a name for every piece of an attack, got 'draws' twice; name them apart"):
        check_attack(made(run), MODEL)


def test_a_piece_may_use_the_names_of_another() -> None:
    def run(self: Any, held: Predictions, context: Context) -> Finding[Hyperparameters]:
        def draw(rng: np.random.Generator) -> float:
            return sum(context.map("draws", lambda item, rng: float(rng.normal()), range(2)))

        return Finding.leak(Hyperparameters({name: context.once(name, draw) for name in ("a", "b", "draws")}), "Won.")

    assert len(set(won(run).values())) == 3


def test_options_that_can_change_are_caught() -> None:
    class Loose(Attack[Predictions, Hyperparameters]):
        __pydantic_fields__: ClassVar[dict[str, Any]] = {}

        def __init__(self, **anything: Any) -> None:  # the mistake is the test
            pass

    with pytest.raises(Nonconforming, match="unknown option was accepted"):
        check_attack(Loose(), MODEL)
