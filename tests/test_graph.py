"""Forward chaining: everything reachable, each step once, always in the same order, always ending."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from divulge import graph, registry
from divulge.contract import (
    Attack,
    Candidates,
    Directions,
    Fitted,
    Gradients,
    Hyperparameters,
    Membership,
    Predictions,
    Procedure,
    TrainingData,
    Weights,
    option_class,
)
from divulge.errors import BadInput
from divulge.graph import Held, Step, hold, plan, pursue, unmet


@option_class
class Extract(Attack[Gradients, Weights]):
    name: ClassVar[str] = "extract"


@option_class
class Rebuild(Attack[Weights, TrainingData]):
    name: ClassVar[str] = "rebuild"


@option_class
class Rebuild2(Attack[Weights, TrainingData]):
    name: ClassVar[str] = "rebuild-too"


@option_class
class Belong(Attack[tuple[Predictions, Candidates], Membership]):
    name: ClassVar[str] = "belong"


@option_class
class Refine(Attack[Weights, Weights]):
    name: ClassVar[str] = "refine"


@option_class
class Steal(Attack[tuple[Weights, TrainingData], Hyperparameters]):
    name: ClassVar[str] = "steal"


@option_class
class Glance(Attack[Gradients, Directions]):
    name: ClassVar[str] = "zz-glance"
    asks: ClassVar[int] = 10


@option_class
class Interrogate(Attack[Gradients, Weights]):
    name: ClassVar[str] = "aa-interrogate"
    asks: ClassVar[int] = 1000


@option_class
class See(Attack[Directions, TrainingData]):
    name: ClassVar[str] = "see"


def api(identity: str = "m") -> Gradients:
    return Gradients(lambda X: X, 2, identity, gradient=lambda X: X)


def names(steps: Sequence[Step]) -> list[tuple[str, list[str], str]]:
    return [(step.attack.name, [held.name for held in step.inputs], step.wins) for step in steps]


def test_an_explanation_endpoint_reaches_the_training_data_and_beyond() -> None:
    steps = plan(hold({"api": api()}), [Steal(), Rebuild(), Extract(), Belong()])
    assert names(steps) == [
        ("extract", ["api"], "weights of api"),
        ("rebuild", ["weights of api"], "training data of api"),
        ("steal", ["weights of api", "training data of api"], "hyperparameters of api"),
    ]


def test_two_loots_of_one_kind_have_two_names() -> None:
    steps = plan(hold({"api": api()}), [Rebuild(), Rebuild2(), Extract()])
    assert [step.wins for step in steps] == ["weights of api", "training data of api", "training data of api by rebuild-too"]


def test_the_order_does_not_depend_on_the_order_of_attacks() -> None:
    attacks: list[Procedure[Any, Any]] = [Extract(), Rebuild(), Refine(), Steal()]
    held = hold({"api": api()})
    assert names(plan(held, attacks)) == names(plan(held, attacks[::-1]))


def test_no_attack_is_applied_to_its_own_loot_so_every_chain_ends() -> None:
    steps = plan(hold({"api": api()}), [Extract(), Refine()])
    assert [step.attack.name for step in steps] == ["extract", "refine"]


def test_each_attack_runs_once_for_each_distinct_input() -> None:
    held = hold({"one": api("a"), "same": api("a"), "other": api("b")})
    ran: list[str] = []

    def execute(step: Step) -> None:
        ran.append(step.inputs[0].name)

    pursue(held, [Extract()], execute)
    assert ran == ["one", "other"]


def test_every_combination_of_inputs_is_tried() -> None:
    held = hold({"a": api("a"), "b": api("b"), "c": Candidates(np.zeros((1, 2))), "d": Candidates(np.ones((1, 2)))})
    steps = plan(held, [Belong()])
    assert len(steps) == 4
    assert {step.choices for step in steps} == {4}


def test_what_is_not_won_is_not_pursued() -> None:
    started: list[str] = []

    def execute(step: Step) -> None:
        started.append(step.attack.name)

    held = hold({"api": api()})
    pursue(held, [Extract(), Rebuild()], execute)
    assert started == ["extract"]
    assert unmet(held, [Extract(), Rebuild()], {"extract"}) == {"rebuild": "needs weights, which is not held"}


@pytest.mark.parametrize("name", ["", " ", "a`b", "a\x1b[31mb", "a\u202eb", "a\nb"])
def test_names_that_cannot_be_printed_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match="expected names that can be printed"):
        graph.hold({name: Hyperparameters({"alpha": 1.0})})


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (
            "http://h/score?token=abc==&user=me#protocol=mlflow&dimension=7",
            "http://h/score?token=…&user=…#protocol=mlflow&dimension=7",
        ),
        ("https://h/p?secret", "https://h/p?…"),
        ("http://h/v2/models/mine", "http://h/v2/models/mine"),
        ("odd?name=1.npz", "odd?name=1.npz"),
    ],
)
def test_a_report_shows_an_address_without_the_values_of_its_query(source: str, shown: str) -> None:
    (held,) = graph.hold({"api": Hyperparameters({"alpha": 1.0})}, {"api": source})
    assert held.source == shown


def test_unnamed_things_are_named_by_kind_and_strangers_refused() -> None:
    assert [held.name for held in hold([api("a"), api("b"), Candidates(np.zeros((1, 2)))])] == [
        "gradients", "gradients 2", "candidates",
    ]  # fmt: skip
    with pytest.raises(BadInput, match="expected things such as Fitted"):
        hold([np.zeros(3)])  # type: ignore[list-item]  # the mistake is the test


def test_loot_enters_the_graph_as_what_is_held() -> None:
    def execute(step: Step) -> Held:
        loot = Weights(((np.eye(2), np.zeros(2)),))
        return Held(step.wins, Weights, loot, "w", "extract", step.roots, step.path)

    everything = pursue(hold({"api": api()}), [Extract()], execute)
    assert [held.name for held in everything] == ["api", "weights of api"]
    assert everything[1].roots == ("api",)
    assert graph.plan(everything, [Rebuild()])[0].wins == "training data of api"


def test_what_was_won_from_one_model_is_not_tried_on_another_whose_data_is_given() -> None:
    ridge, data = Fitted("ridge", coef=np.ones(2), intercept=np.array(0.0)), TrainingData(np.eye(2), np.ones(2))
    network = Weights(((np.eye(2), np.zeros(2)), (np.ones((1, 2)), np.zeros(1))))
    steps = graph.plan(
        graph.hold({"model": ridge, "data": data, "network": network}),
        [registry.attack("hyperparameters")(), registry.attack("span-reconstruction")()],
    )
    names = [tuple(thing.name for thing in step.inputs) for step in steps]
    assert ("model", "data") in names
    assert not any("training data of network" in inputs for inputs in names)


def test_what_asks_least_comes_first_and_what_follows_from_it_before_more_is_asked() -> None:
    steps = plan(hold({"api": api()}), [Interrogate(), See(), Glance()])
    assert names(steps) == [
        ("zz-glance", ["api"], "directions of api"),
        ("see", ["directions of api"], "training data of api"),
        ("aa-interrogate", ["api"], "weights of api"),
        ("see", ["weights of api"], "training data of api by see"),
    ]
