"""The words: what is held checks itself, attacks are edges, the truth stays sealed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.sparse import csr_array

from divulge.contract import (
    Access,
    Array,
    Attack,
    Budget,
    Candidates,
    Context,
    Curve,
    Finding,
    Fitted,
    Gradients,
    HeatMap,
    Hyperparameters,
    ImagePairs,
    Membership,
    Parameters,
    Pipeline,
    Poison,
    Predictions,
    Scatter,
    Score,
    TrainingData,
    Truth,
    Verdict,
    Weights,
    option_class,
)
from divulge.errors import AttackFailed, BadInput, NotApplicable, TruthSealed

X = np.arange(6.0).reshape(3, 2)
NETWORK = ((np.ones((3, 2)), np.ones(3)), (np.ones((1, 3)), np.ones(1)))
LABELS = np.array([0, 1, 0])
PLACES = np.array([0, 1])


@option_class
class Norm(Attack[tuple[Predictions, TrainingData], Hyperparameters]):
    """The size of the answers on the data."""

    name: ClassVar[str] = "norm"
    remedy: ClassVar[tuple[str, ...]] = ("Answer less.",)
    power: float = 2.0
    "Which norm."

    def run(self, held: tuple[Predictions, TrainingData], context: Context) -> Finding[Hyperparameters]:
        model, data = held
        return Finding.leak(Hyperparameters({"norm": float(np.linalg.norm(model.value(data.X), self.power))}), "Measured.")

    def score(
        self, finding: Finding[Hyperparameters], held: tuple[Predictions, TrainingData], truth: Truth
    ) -> Finding[Hyperparameters]:
        known = truth.get(Hyperparameters)
        assert known is not None
        assert finding.loot is not None
        return replace(finding, scores={"error": Score(abs(known.values["norm"] - finding.loot.values["norm"]), 1.0, "0")})


def double(points: Array) -> Array:
    return np.asarray(2 * points)


def unchecked(value: object) -> Any:
    """What a caller without a type checker may hand in: lists, text, a sparse matrix."""
    return value


class Remembers:
    """Keeps pieces in memory, as a run folder does on disk."""

    def __init__(self, kept: dict[str, Any] | None = None) -> None:
        self.kept = kept or {}

    def recall(self, name: str) -> Any:
        return self.kept[name]

    def keep(self, name: str, value: Any) -> None:
        self.kept[name] = value


def test_the_class_header_is_an_edge_of_the_graph() -> None:
    assert Norm.needs == (Predictions, TrainingData)
    assert Norm.yields is Hyperparameters
    assert Norm.name == "norm"


def test_attacks_are_never_subclassed() -> None:
    with pytest.raises(TypeError, match="never subclassed"):
        type("Stronger", (Norm,), {})


def test_options_are_frozen_checked_and_unknown_ones_refused_with_the_nearest() -> None:
    with pytest.raises(BadInput, match=r"Norm: option .power.: input should be a valid number.*'big'"):
        Norm(power=unchecked("big"))
    with pytest.raises(BadInput, match="unknown key 'powr'; did you mean 'power'"):
        Norm(**unchecked({"powr": 1}))
    with pytest.raises(AttributeError):
        Norm().power = 3  # type: ignore[misc]  # the mistake is the test


def test_a_finding_carries_cost_remedy_and_provenance_without_the_attack_doing_anything() -> None:
    finding = Norm()(Predictions(double, 2), TrainingData(X), context=Context(5))
    assert finding.verdict is Verdict.LEAK
    assert finding.cost.points == 3
    assert finding.cost.seconds > 0
    assert [str(remedy) for remedy in finding.remedy] == ["Answer less."]
    assert finding.provenance.options == {"power": 2.0}
    assert finding.provenance.seed == 5


@option_class
class Explains(Attack[Gradients, Parameters]):
    """Ask for values and gradients in turn."""

    def run(self, held: Gradients, context: Context) -> Finding[Parameters]:
        held.value(X)
        held.gradient(X)  # the same query: a service answers both
        held.gradient(X)
        held.gradient(2 * X)
        held.value(X)
        return Finding.leak(Parameters(coef=np.ones(2)), "Asked.")


def test_a_value_and_a_gradient_at_one_point_are_one_query() -> None:
    finding = Explains()(Gradients(double, 2, gradient=double))
    assert finding.cost.points == 4 * len(X)


def test_a_target_that_changes_the_shape_of_its_answers_is_not_applicable() -> None:
    answers = iter([np.ones((len(X), 2)), np.ones((len(X), 3))])
    finding = Explains()(Gradients(double, 2, gradient=lambda X: next(answers)))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "of shape (2,) before" in finding.summary


def test_scoring_sees_the_truth_and_cannot_change_the_loot() -> None:
    @option_class
    class Cheat(Attack[TrainingData, Hyperparameters]):
        def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
            return Finding.leak(Hyperparameters({"a": 1.0}), "Guessed.")

        def score(self, finding: Finding[Hyperparameters], held: TrainingData, truth: Truth) -> Finding[Hyperparameters]:
            return replace(finding, loot=truth.get(Hyperparameters))

    finding = Cheat()(TrainingData(X), truth={"hyperparameters": Hyperparameters({"a": 2.0})})
    assert finding.loot is not None
    assert finding.loot.values == {"a": 1.0}


def test_an_attack_that_reaches_for_the_truth_is_refused() -> None:
    truth = Truth({"hyperparameters": Hyperparameters({"a": 2.0})})

    @option_class
    class Thief(Attack[TrainingData, Hyperparameters]):
        def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
            return Finding.leak(unchecked(truth.get(Hyperparameters)), "Looked it up.")

    with pytest.raises(TruthSealed, match="only scoring may read"):
        Thief()(TrainingData(X), truth=truth)
    known = truth.get(Hyperparameters)
    assert known is not None
    assert known.values == {"a": 2.0}


def test_reasons_become_verdicts() -> None:
    @option_class
    class Refuses(Attack[TrainingData, Hyperparameters]):
        how: str = "not applicable"
        "Which way to give up."

        def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
            raise {"not applicable": NotApplicable, "failed": AttackFailed}[self.how]("because")

    for how in ("not applicable", "failed"):
        finding = Refuses(how=how)(TrainingData(X))
        assert (finding.verdict.value, finding.summary, finding.partial) == (how, "Because.", False)


def test_a_query_budget_is_never_overdrawn_and_marks_the_finding_partial() -> None:
    asked: list[int] = []

    def answer(points: Array) -> Array:
        asked.append(len(points))
        return points

    model = Predictions(answer, 2)
    finding = Norm()(model, TrainingData(X), context=Context(budget=Budget(queries=2)))
    assert finding.verdict is Verdict.FAILED
    assert finding.partial
    assert "budget of 2 queries" in finding.summary
    assert asked == []


def test_a_time_budget_ends_an_attack_between_its_steps() -> None:
    done: list[int] = []

    @option_class
    class Slow(Attack[TrainingData, Hyperparameters]):
        def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
            context.map("items", lambda item, rng: done.append(item), range(5))
            return Finding.leak(Hyperparameters({"a": 1.0}), "Won.")

    class MinuteAStep(Budget):
        @property
        def elapsed(self) -> float:
            return 60.0 * len(done)

    finding = Slow()(TrainingData(X), context=Context(budget=MinuteAStep(seconds=90)))
    assert finding.verdict is Verdict.FAILED
    assert finding.partial
    assert "seconds ran out" in finding.summary
    assert done == [0, 1]


def test_queries_of_a_piece_that_is_found_again_count_again() -> None:
    memory = Remembers()

    @option_class
    class Asks(Attack[Predictions, Hyperparameters]):
        def run(self, held: Predictions, context: Context) -> Finding[Hyperparameters]:
            first = context.once("first", lambda rng: float(held.value(np.ones((60, 2))).sum()))
            second = context.once("second", lambda rng: float(held.value(np.ones((60, 2))).sum()))
            return Finding.leak(Hyperparameters({"a": first + second}), "Won.")

    for _ in range(2):
        finding = Asks()(Predictions(double, 2), context=Context(budget=Budget(queries=100), memory=memory))
        assert finding.partial
        assert finding.cost.points == 60
    assert Asks()(Predictions(double, 2), context=Context(memory=memory)).cost.points == 120


def test_a_method_that_returns_nothing_is_named() -> None:
    @option_class
    class Forgets(Attack[TrainingData, Hyperparameters]):
        def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
            return Finding.leak(Hyperparameters({"a": 1.0}), "Won.")

        def score(self, finding: Finding[Hyperparameters], held: TrainingData, truth: Truth) -> Any:  # nothing: the mistake
            pass

    with pytest.raises(TypeError, match=r"Forgets.score returned NoneType; return a Finding"):
        Forgets()(TrainingData(X), truth={"hyperparameters": Hyperparameters({"a": 2.0})})


def test_scoring_cannot_change_the_loot_in_place_either() -> None:
    @option_class
    class Cheat(Attack[TrainingData, Hyperparameters]):
        def run(self, held: TrainingData, context: Context) -> Finding[Hyperparameters]:
            return Finding.leak(Hyperparameters({"a": 1.0}), "Guessed.")

        def score(self, finding: Finding[Hyperparameters], held: TrainingData, truth: Truth) -> Finding[Hyperparameters]:
            known = truth.get(Hyperparameters)
            assert known is not None
            assert finding.loot is not None
            assert isinstance(finding.loot.values, dict)
            finding.loot.values["a"] = known.values["a"]
            return finding

    finding = Cheat()(TrainingData(X), truth={"hyperparameters": Hyperparameters({"a": 2.0})})
    assert finding.loot is not None
    assert finding.loot.values == {"a": 1.0}


def test_answers_of_the_wrong_shape_or_not_finite_are_not_applicable() -> None:
    for answer in (lambda points: points[:1], lambda points: points * np.nan):
        assert Norm()(Predictions(answer, 2), TrainingData(X)).verdict is Verdict.NOT_APPLICABLE


def test_wrong_things_in_hand_are_named() -> None:
    with pytest.raises(BadInput, match=r"Norm needs \(Predictions, TrainingData\), got \(TrainingData\)"):
        Norm()(TrainingData(X))


def test_gradients_serve_where_predictions_are_needed() -> None:
    explained = Gradients(double, 2, gradient=lambda points: np.full_like(points, 2.0))
    assert Norm()(explained, TrainingData(X)).verdict is Verdict.LEAK


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: TrainingData(np.zeros(3)), "expected a 2-D array of training points, got shape .3,.; reshape"),
        (lambda: TrainingData(np.zeros((2, 2, 2))), "flatten pictures"),
        (lambda: TrainingData(unchecked([[np.nan, 1.0]])), "got 1 NaN or infinite"),
        (lambda: TrainingData(X, unchecked([1, 2])), "one label for each of the 3 training points, got shape .2,."),
        (lambda: TrainingData(unchecked([["a", "b"]])), "expected numbers"),
        (lambda: TrainingData(unchecked([[1.0], [1.0, 2.0]])), "rows of different ones"),
        (lambda: Candidates(unchecked(csr_array(X))), "pass it as .toarray"),
        (lambda: TrainingData(np.zeros((0, 2))), "at least one training point"),
        (lambda: TrainingData(X, sample_weight=unchecked([-1, 1, 1])), "none negative"),
        (lambda: TrainingData(X, shape=(3, 3)), "does not fill 2 features"),
        (lambda: Hyperparameters({}), "at least one hyperparameter"),
        (lambda: Hyperparameters({"alpha": float("inf")}), "finite number for hyperparameter 'alpha'"),
        (lambda: Weights(()), "at least one layer"),
        (lambda: Weights(((np.ones((3, 2)), np.ones(2)),)), "layer 1 has weights"),
        (lambda: Weights(((np.ones((3, 2)), np.ones(3)), (np.ones((1, 2)), np.ones(1)))), "layer 2"),
        (lambda: Weights(NETWORK, start=NETWORK), "expected a start that training moved, got the network itself"),
        (lambda: Weights(NETWORK, start=((np.ones((4, 2)), np.ones(4)),)), "widths 2-3-1, but for its head, got 2-4"),
        (lambda: Weights(NETWORK, start=NETWORK[1:]), "widths 2-3-1, but for its head, got 3-1"),
        (lambda: Weights(NETWORK, start=()), "at least one layer .W, b. of the start"),
        (lambda: Predictions(double, 5, start=NETWORK), "start with the 5 inputs of the model, got 2"),
        (lambda: Fitted("ridge"), "expected coef or dual_coef"),
        (lambda: Fitted("ridge", coef=unchecked([np.inf])), "finite numbers for the ridge model's coef"),
        (lambda: Predictions(double, 0), "positive input dimension"),
        (lambda: Pipeline(X, LABELS, X[:, :1], LABELS), "prepare both the same way"),
        (lambda: Membership(np.array([0.1]), np.array([True, False])), "1 scores and 2 decisions"),
        (lambda: Truth({"secrets": Hyperparameters({"a": 1})}), "unknown key 'secrets'"),
        (lambda: Truth({"training_data": Hyperparameters({"a": 1})}), "expected TrainingData"),
        (lambda: Budget(queries=0), "positive budget of queries"),
        (lambda: Finding(Verdict.LEAK, "won"), "needs its loot"),
        (lambda: Finding.none_found("nothing", power=""), "needs its power"),
        (lambda: Finding.failed(""), "needs a summary"),
        (lambda: Curve("c", "x", "y", {"s": (X[:, 0], X[:2, 0])}), "series 's' of the curve 'c', got .2,."),
        (lambda: Curve("c", "x", "y", {"s": (X, X)}, bands={"t": (X, X, X)}), "a band of a series .s., got one of 't'"),
        (lambda: Curve("c", "x", "y", {"s": (X, X)}, bands={"s": (X, X, X[:2])}), "the band of 's' of the curve 'c'"),
        (lambda: Scatter("s", "x", "y", {"g": (X[:, 0], X[:2, 0])}), "group 'g' of the scatter plot 's', got .2,."),
        (lambda: HeatMap("h", "x", "y", np.eye(2), np.arange(3), np.arange(2)), "heat map 'h'"),
        (
            lambda: HeatMap("h", "x", "y", np.eye(2), PLACES, PLACES, groups={"g": (X, X[0])}),
            "group 'g' of the heat map 'h'",
        ),
        (lambda: HeatMap("h", "x", "y", np.eye(2), PLACES, PLACES, lines={"l": (X, X[0])}), "line 'l' of the heat map 'h'"),
        (
            lambda: HeatMap("h", "x", "y", np.eye(2), np.array(["a", "b"]), PLACES, lines={"l": (X, X)}),
            "grow or fall as columns of",
        ),
        (
            lambda: HeatMap("h", "x", "y", np.eye(2), PLACES, np.array([1, 1]), groups={"g": (X, X)}),
            "grow or fall as rows of the heat",
        ),
        (lambda: ImagePairs("i", np.zeros((1, 2, 2)), np.zeros((2, 2, 2)), "a", "b"), "right pictures of 'i'"),
        (lambda: Membership(np.array([0.1]), np.array([0.3])), "true or false"),
        (lambda: Poison(X, unchecked(None)), "expected numbers for the poison labels"),
        (lambda: Hyperparameters({"alpha": 10**400}), "finite number"),
    ],
)
def test_bad_input_says_what_was_expected(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        build()


def test_what_is_held_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        TrainingData(X).X[0, 0] = 9
    assert X[0, 0] == 0


def test_weights_predict_as_the_formula_says() -> None:
    weights = Weights(
        ((np.array([[1.0, -1.0], [0.0, 2.0]]), np.array([0.0, -1.0])), (np.array([[1.0, 3.0]]), np.array([0.5])))
    )
    assert weights.predict(np.array([[2.0, 1.0]])) == pytest.approx(np.array([[1 + 3 * 1 + 0.5]]))
    assert weights.dimension == 2


def test_every_kind_of_the_design_is_there_by_name() -> None:
    wanted = {"predictions", "gradients", "weights", "fitted", "training_data", "candidates", "pipeline",
              "hyperparameters", "membership", "poison", "scores"}  # fmt: skip
    assert wanted <= set(Access.kinds)


def test_map_gives_every_item_its_own_stream_in_order() -> None:
    def draw(item: int, rng: np.random.Generator) -> tuple[int, float]:
        return item, rng.normal()

    first, again, other = (Context(seed).map("draws", draw, range(4)) for seed in (1, 1, 2))
    assert first == again
    assert [item for item, _ in first] == [0, 1, 2, 3]
    assert len({value for _, value in first}) == 4
    assert first != other


def test_an_item_draws_the_same_whichever_others_were_found_again() -> None:
    drawn: list[int] = []

    def draw(item: int, rng: np.random.Generator) -> float:
        drawn.append(item)
        return float(rng.normal())

    memory = Remembers()
    whole = Context(1, memory=memory).map("draws", draw, range(4))
    half_done = Remembers(dict(sorted(memory.kept.items())[::2]))
    assert Context(1, memory=half_done).map("draws", draw, range(4)) == whole
    assert drawn == [0, 1, 2, 3, 1, 3]


def test_a_piece_does_not_disturb_the_stream_that_follows() -> None:
    memory = Remembers()
    draws = []
    for _ in range(2):
        context = Context(3, memory=memory)
        piece = context.once("piece", lambda rng: float(rng.normal()))
        draws.append((piece, context.rng.normal()))
    assert draws[0] == draws[1]


def pipeline(**rest: Any) -> Pipeline:  # of any type: some are wrong on purpose
    return Pipeline(X, LABELS, X[:2], LABELS[:2], **rest)


def test_a_pipeline_keeps_one_limit_and_one_group_a_feature() -> None:
    held = pipeline(shape=[1, 2], low=0, high=[4, 5.5], groups=[1.0, 0.0])
    assert held.shape == (1, 2)
    assert isinstance(held.low, np.ndarray)
    assert isinstance(held.high, np.ndarray)
    assert held.groups is not None
    assert held.low.tolist() == [0, 0]
    assert held.high.tolist() == [4, 5.5]
    assert held.groups.tolist() == [1, 0]
    assert held.groups.dtype.kind == "i"
    for kept in (held.low, held.high, held.groups):
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 9
    assert pipeline().low is pipeline().high is pipeline().groups is None


def test_points_of_single_precision_lie_on_the_limits_they_were_rounded_from() -> None:
    tenths = np.linspace(0.1, 0.9, 9)[:, None]
    held = Pipeline(tenths.astype(np.float32), np.arange(9), tenths.astype(np.float32), np.arange(9), low=0.1, high=0.9)
    assert held.high == 0.9
    replace(held, low=-1e300, high=1e300)


@pytest.mark.parametrize(
    ("rest", "sentence"),
    [
        ({"shape": (3, 3)}, "does not fill 2 features"),
        ({"low": np.nan}, "finite numbers for low"),
        ({"high": [np.inf, 1]}, "finite numbers for high"),
        ({"low": [0, 0, 0]}, "one number for low, or one for each of the 2 features, got shape .3,."),
        ({"high": "wide"}, "expected numbers for high"),
        ({"low": [0, 9], "high": [9, 8]}, "low ≤ high in every feature, got 9 and 8 in feature 1, one of 1 the wrong way"),
        ({"high": [4, 4.5]}, "got 1 of 5 outside, the furthest by 0.5 in feature 1; widen the box or correct the data"),
        ({"low": [1, 1]}, "got 2 of 5 outside, the furthest by 1 in feature 0"),
        ({"groups": [0]}, "a whole number for each of the 2 features as groups, got shape .1,."),
        ({"groups": [0, -1]}, "whole numbers from 0 as groups, got -1"),
        ({"groups": [0.5, 1]}, "whole numbers from 0 as groups, got 0.5"),
        ({"groups": ["a", "b"]}, "expected numbers for groups"),
    ],
)
def test_a_pipeline_that_contradicts_itself_is_refused(rest: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        pipeline(**rest)


def test_poison_remembers_what_it_was_made_of() -> None:
    poison = Poison(X, LABELS, start=X + 1)
    assert poison.start is not None
    assert poison.start.tolist() == (X + 1).tolist()
    with pytest.raises(ValueError, match="read-only"):
        poison.start[0, 0] = 9
    with pytest.raises(BadInput, match=r"one clean point for each poison point, of shape \(3, 2\) together, got \(2, 2\)"):
        Poison(X, LABELS, start=X[:2])
    with pytest.raises(BadInput, match="finite numbers for the clean points"):
        Poison(X, LABELS, start=np.full_like(X, np.nan))
