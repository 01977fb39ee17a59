"""Values come back from JSON + npz as they went in, and damage is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from divulge.contract import (
    Array,
    Cost,
    Curve,
    Finding,
    HeatMap,
    Histogram,
    ImagePairs,
    Membership,
    Pipeline,
    Poison,
    Predictions,
    Provenance,
    Scatter,
    Score,
    Scores,
    TaxonomyId,
    TrainingData,
    Weights,
)
from divulge.errors import BadInput, StorageError
from divulge.storage import fingerprint, load, pack, save, unpack

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
arrays = hnp.arrays(st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.bool_]), hnp.array_shapes(min_side=0))
values = st.recursive(
    scalars | arrays,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype) and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return type(one) is type(other) and bool(one == other)


@settings(max_examples=150, deadline=None)
@given(values)
def test_any_value_comes_back_unchanged(value: Any) -> None:
    tree, stored = pack(value)
    assert same(unpack(json.loads(json.dumps(tree)), stored), value)


@settings(max_examples=60, deadline=None)
@given(arrays, arrays)
def test_fingerprints_differ_when_contents_do(one: Array, other: Array) -> None:
    assert (fingerprint(one) == fingerprint(other)) == same(one, other)


@pytest.fixture
def finding() -> Finding[TrainingData]:
    rng = np.random.default_rng(0)
    return Finding.leak(
        TrainingData(rng.normal(size=(3, 4)), np.array(["a", "b", "a"]), shape=(2, 2)),
        "Won.",
        scores={"s": Score(float("nan"), float("-inf"), "nothing", interval=(0.1, 0.3), published=0.2)},
        figures=(
            Curve("c", "x", "y", {"line": (np.arange(3.0), np.ones(3))}, log_x=True, marks={"here": 1.0}),
            Curve("b", "x", "y", {"line": (np.ones(2), np.ones(2))}, bands={"line": (np.ones(2), np.zeros(2), np.ones(2))}),
            Histogram("h", "x", {"g": rng.normal(size=5)}),
            HeatMap("m", "x", "y", np.eye(2), np.arange(2), np.arange(2)),
            HeatMap(
                "o",
                "x",
                "y",
                np.eye(2),
                np.arange(2),
                np.arange(2),
                "v",
                {"g": (np.ones(3), np.ones(3))},
                {"l": (np.ones(2), np.ones(2))},
            ),
            Scatter("s", "x", "y", {"g": (np.arange(3.0), np.ones(3))}, log_y=True, marks={"here": 1.0}),
            ImagePairs("i", np.zeros((1, 2, 2)), np.ones((1, 2, 2)), "true", "found", ("one",)),
        ),
        taxonomy=(TaxonomyId("T", "1", "x"),),
        cost=Cost(7, 0.1),
        provenance=Provenance("a", options={"k": [1, 2.5, None]}, inputs={"data": "00"}),
    )


def test_values_stored_before_curves_had_bands_and_members_had_names_are_read() -> None:
    curve = Curve("c", "x", "y", {"line": (np.arange(3.0), np.ones(3))})
    heat = HeatMap("m", "x", "y", np.eye(2), np.arange(2), np.arange(2))
    for value, new in (
        (curve, "bands"),
        (heat, "groups"),
        (heat, "lines"),
        (Membership(np.array([0.1]), np.array([1])), "records"),
    ):
        tree, arrays = pack(value)
        del tree[new]
        assert fingerprint(unpack(tree, arrays)) == fingerprint(value)


def test_named_scores_survive_the_disk(tmp_path: Path) -> None:
    scores = np.array([0.1, 0.2])
    for value in (Scores(scores, np.array(["a", "b"]), "LiRA"), Membership(scores, np.array([1, 0]), np.array([7, 8]))):
        save(value, tmp_path / "value.json")
        assert fingerprint(load(tmp_path / "value.json")) == fingerprint(value)


def test_pipelines_and_poison_survive_the_disk(tmp_path: Path) -> None:
    X, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 0])
    pipeline = Pipeline(X, y, X, y, "ridge", (1, 2), -1, np.array([5, 6]), np.array([0, 1]))
    poison = Poison(X, y, (2, 1), X + 1)
    for value in (pipeline, poison, Pipeline(X, y, X, y), Poison(X, y)):
        save(value, tmp_path / "value.json")
        assert fingerprint(load(tmp_path / "value.json")) == fingerprint(value)


def test_a_finding_with_every_figure_survives_the_disk(tmp_path: Path, finding: Finding[TrainingData]) -> None:
    save(finding, tmp_path / "finding.json")
    again = load(tmp_path / "finding.json")
    assert fingerprint(again) == fingerprint(finding)
    assert again.verdict is finding.verdict
    assert finding.loot is not None
    assert np.array_equal(again.loot.X, finding.loot.X)


def test_the_same_value_gives_the_same_bytes(tmp_path: Path, finding: Finding[TrainingData]) -> None:
    for folder in ("a", "b"):
        save(finding, tmp_path / folder / "finding.json")
    files = [sorted(path.relative_to(tmp_path / folder) for path in (tmp_path / folder).rglob("*")) for folder in "ab"]
    assert files[0] == files[1]
    for name in files[0]:
        if (tmp_path / "a" / name).is_file():
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_pruning_drops_the_arrays_of_older_values(tmp_path: Path) -> None:
    for size in (3, 4):
        save(np.arange(size), tmp_path / "value.json", prune=True)
    assert len(list((tmp_path / "arrays").iterdir())) == 1
    assert np.array_equal(load(tmp_path / "value.json"), np.arange(4))


def test_a_number_of_single_precision_stays_one(tmp_path: Path) -> None:
    save({"x": np.float32(0.1), "y": np.float16("nan")}, tmp_path / "v.json")
    again = load(tmp_path / "v.json")
    assert type(again["x"]) is np.float32
    assert again["x"] * 3.3 == np.float32(0.1) * 3.3
    assert np.isnan(again["y"])


def test_a_target_is_known_by_its_identity() -> None:
    def model(points: Array) -> Array:
        return points

    assert fingerprint(Predictions(model, 2, "m")) == fingerprint(Predictions(model, 2, "m"))
    assert fingerprint(Predictions(model, 2)) != fingerprint(Predictions(model, 2))


def test_weights_keep_their_layers(tmp_path: Path) -> None:
    weights = Weights(((np.ones((2, 3)), np.zeros(2)), (np.ones((1, 2)), np.zeros(1))), exact=False, agreement=0.9)
    save(weights, tmp_path / "w.json")
    again = load(tmp_path / "w.json")
    assert (again.exact, again.agreement) == (False, 0.9)
    assert np.array_equal(again.layers[0][0], np.ones((2, 3)))


def test_what_cannot_be_stored_is_refused() -> None:
    with pytest.raises(BadInput, match="cannot store a function"):
        pack({"f": lambda: 0})


def damage_json(folder: Path) -> None:
    (folder / "value.json").write_text('{"schema": 1, "val')


def damage_arrays(folder: Path) -> None:
    blob = next((folder / "arrays").iterdir())
    blob.write_bytes(blob.read_bytes()[:-20])


def drop_arrays(folder: Path) -> None:
    next((folder / "arrays").iterdir()).unlink()


def change_schema(folder: Path) -> None:
    text = (folder / "value.json").read_text()
    (folder / "value.json").write_text(text.replace('"schema": 1', '"schema": 99'))


def unknown_kind(folder: Path) -> None:
    text = (folder / "value.json").read_text()
    (folder / "value.json").write_text(text.replace('"array"', '"Gadget"'))


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (damage_json, "cannot read .*value.json"),
        (damage_arrays, "do not match its name"),
        (drop_arrays, "No such file"),
        (change_schema, "schema 99, this version reads 1"),
        (unknown_kind, "install the plug-in"),
        (lambda folder: (folder / "value.json").unlink(), "expected a file at"),
    ],
)
def test_damage_is_named_with_a_remedy(tmp_path: Path, harm: Callable[[Path], None], sentence: str) -> None:
    save(np.arange(3), tmp_path / "value.json")
    harm(tmp_path)
    with pytest.raises(StorageError, match=sentence):
        load(tmp_path / "value.json")
