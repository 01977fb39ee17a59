"""Files from strangers: what is in them comes back exactly, and what is wrong with them is said in a sentence."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import pandas as pd
import pytest
import safetensors.numpy
import skops.io
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from onnx import TensorProto, helper, numpy_helper
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import ElasticNet, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from divulge import (
    Candidates,
    Fitted,
    Gradients,
    Hyperparameters,
    Parameters,
    Pipeline,
    Predictions,
    TrainingData,
    Weights,
    audit_file,
)
from divulge.contract import Kernel, Membership, Poison, Scores, Table
from divulge.errors import BadInput
from divulge.targets import files

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 3))
Y = RNG.standard_normal(12)
RIDGE = Ridge(0.31).fit(X, Y)


def read(kind: str, path: Path, /, allow_pickle: bool = False, **options: Any) -> Any:
    return files.read(kind, path, options, allow_pickle=allow_pickle)


def refused(sentence: str) -> Any:
    return pytest.raises(BadInput, match=sentence)


def npz(path: Path, **named: Any) -> Path:
    np.savez(path, **named)
    return path


def columns_in(path: Path, columns: dict[str, Any]) -> None:
    frame = pd.DataFrame(columns)
    if path.suffix == ".npz":
        npz(path, **columns)
    elif path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)


def network(seed: int = 0, outputs: int = 2) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, outputs)).double()


def answers(module: nn.Module) -> Any:
    return module(torch.as_tensor(X)).detach().numpy()


# --- points

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
matrices = arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=finite)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(points=matrices, ending=st.sampled_from(["npz", "npy", "csv", "parquet"]))
def test_points_and_labels_come_back_bit_for_bit(tmp_path: Path, points: Any, ending: str) -> None:
    path = tmp_path / f"points.{ending}"
    target = points[:, 0] * 0.5
    options: dict[str, Any] = {"target": "y"}
    if ending == "npz":
        np.savez(path, X=points, y=target)
    elif ending == "npy":
        np.save(path, points)
        np.save(tmp_path / "labels.npy", target)
        options = {"target": "labels.npy"}
    else:
        frame = pd.DataFrame(points, columns=[f"x{i}" for i in range(points.shape[1])]).assign(y=target)
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    held = read("training_data", path, **options)
    assert isinstance(held, TrainingData)
    np.testing.assert_array_equal(held.X, points)
    np.testing.assert_array_equal(held.y, target)


def test_npz_arrays_have_usual_names_or_those_given(tmp_path: Path) -> None:
    usual = read("training_data", npz(tmp_path / "a.npz", X=X, y=Y, sample_weight=np.arange(12.0), other=[1]))
    np.testing.assert_array_equal(usual.sample_weight, np.arange(12.0))
    given_names = npz(tmp_path / "b.npz", x_train=X, y_train=Y[:, None], w=np.ones(12))
    held = read("training_data", given_names, features="x_train", target="y_train", weights="w")
    np.testing.assert_array_equal(held.y, Y)
    assert read("candidates", npz(tmp_path / "c.npz", X=X)).y is None


def test_tables_take_all_other_columns_as_features_or_those_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pd.DataFrame({"a": [1, 2], "b": [True, False], "label": ["no", "yes"], "w": [1.0, 2.0]}).to_csv(path, index=False)
    held = read("training_data", path, target="label", weights="w")
    np.testing.assert_array_equal(held.X, [[1, 1], [2, 0]])
    assert held.y.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(held.sample_weight, [1, 2])
    chosen = read("training_data", path, features=["b"])
    assert chosen.X.shape == (2, 1)
    assert chosen.y is None
    assert read("candidates", path, features="a", target="label").y.tolist() == ["no", "yes"]
    pd.DataFrame(X).to_csv(path, index=False)
    np.testing.assert_array_equal(read("candidates", path).X, X)


def test_pictures_are_flattened_and_their_shape_is_kept(tmp_path: Path) -> None:
    pictures = RNG.integers(0, 256, (4, 5, 6), dtype=np.uint8)
    held = read("training_data", npz(tmp_path / "a.npz", X=pictures), scale=True)
    assert held.shape == (5, 6)
    np.testing.assert_array_equal(held.X, pictures.reshape(4, 30) / 255)
    assert read("candidates", npz(tmp_path / "b.npz", X=pictures[..., None])).shape == (5, 6)
    flat = npz(tmp_path / "c.npz", X=pictures.reshape(4, 30))
    assert read("candidates", flat, shape=[5, 6]).shape == (5, 6)
    assert read("candidates", flat).shape is None


def test_rows_cut_points_labels_and_weights_alike(tmp_path: Path) -> None:
    held = read("training_data", npz(tmp_path / "a.npz", X=X, y=Y, sample_weight=Y**2), rows=[2, 5])
    np.testing.assert_array_equal(held.X, X[2:5])
    np.testing.assert_array_equal(held.y, Y[2:5])
    np.testing.assert_array_equal(held.sample_weight, Y[2:5] ** 2)


def test_poison_and_pipelines_have_labels(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", X=X, y=Y, X_val=X[:5], y_val=Y[:5])
    assert isinstance(read("poison", path), Poison)
    pipeline = read("pipeline", path, learner="ridge")
    assert isinstance(pipeline, Pipeline)
    assert (len(pipeline.X), len(pipeline.X_val), pipeline.learner) == (12, 5, "ridge")
    renamed = npz(tmp_path / "b.npz", x=X, t=Y, xv=X[:4], tv=Y[:4])
    named: dict[str, Any] = {"features": "x", "target": "t", "validation_features": "xv", "validation_target": "tv"}
    assert len(read("pipeline", renamed, **named).X_val) == 4


def test_a_pipeline_of_tables_names_its_validation_file(tmp_path: Path) -> None:
    for name, rows in (("train.csv", 12), ("val.csv", 5)):
        pd.DataFrame(X, columns=list("abc")).assign(y=Y)[:rows].to_csv(tmp_path / name, index=False)
    held = read("pipeline", tmp_path / "train.csv", target="y", validation="val.csv", rows=[0, 6], high=50)
    assert (len(held.X), len(held.X_val), held.learner, held.high.tolist()) == (6, 5, "logistic", [50] * 3)
    with refused("expected validation points beside train.csv, got none"):
        read("pipeline", tmp_path / "train.csv", target="y")


def test_a_pipeline_says_what_a_contributed_point_may_be(tmp_path: Path) -> None:
    pictures = RNG.integers(0, 256, (6, 2, 3), dtype=np.uint8)
    parts = {"X": pictures, "y": Y[:6], "X_val": pictures[:2], "y_val": Y[:2]}
    plain = read("pipeline", npz(tmp_path / "a.npz", **parts), scale=True)
    assert (plain.shape, plain.low, plain.high, plain.groups) == ((2, 3), None, None, None)
    limited = read("pipeline", tmp_path / "a.npz", scale=True, low=0, high=1.5)
    assert (limited.low.tolist(), limited.high.tolist()) == ([0] * 6, [1.5] * 6)
    path = npz(tmp_path / "b.npz", **parts, low=np.full((2, 3), -1), high=255, groups=np.arange(6).reshape(2, 3))
    held = read("pipeline", path, low=-2.5)
    assert (held.low.tolist(), held.high.tolist(), held.groups.tolist()) == ([-2.5] * 6, [255] * 6, list(range(6)))
    assert read("pipeline", path).low.tolist() == [-1] * 6


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"low": [0, 0, 0]}, r"expected a number for low, got \[0, 0, 0\]; for one a feature, save an array low in an npz"),
        ({"high": True}, "expected a number for high, got True"),
        ({"low": 100}, "12 of 12 outside"),
        ({"lows": 0}, "unknown key 'lows'; did you mean 'low'"),
    ],
)
def test_wrong_limits_of_a_pipeline_are_refused(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    path = npz(tmp_path / "a.npz", X=X[:7], y=Y[:7], X_val=X[7:], y_val=Y[7:])
    with refused(sentence):
        read("pipeline", path, **options)


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_membership_is_who_is_a_member_and_scores_where_they_are_named(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"m.{ending}"
    columns = {"id": ["b", "a"], "loss": [0.1, 0.9], "in": [0, 1]}
    columns_in(path, columns)
    held = read("membership", path, record="id", member="in")
    assert isinstance(held, Membership)
    assert held.decisions.tolist() == [False, True]
    assert held.records is not None
    assert held.records.tolist() == ["b", "a"]
    assert read("membership", path, record="id", member="in", score="loss").scores.tolist() == [0.1, 0.9]
    with refused("got id, loss, in; name the right one with"):
        read("membership", path)
    with refused("expected 1 for members and 0 for others in m"):
        read("membership", path, record="id", member="loss")


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_scores_of_another_tool_name_their_records(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"lira.{ending}"
    plural = "s" if ending == "npz" else ""
    columns_in(path, {f"record{plural}": [2**60 + 1, 7], f"score{plural}": [0.25, -3], "note": ["x", "y"]})
    held = read("scores", path)
    assert isinstance(held, Scores)
    assert (held.scores.tolist(), held.source) == ([0.25, -3], f"lira.{ending}")
    assert held.records is not None
    assert held.records.tolist() == [2**60 + 1, 7]
    assert read("scores", path, record="", source="LiRA").records is None
    with refused("expected .* named 'id' in lira"):
        read("scores", path, record="id")
    with refused("scores in lira.*unknown key 'member'"):
        read("scores", path, member="member")


def test_arrays_of_scores_need_no_records_and_rows_of_a_table_do(tmp_path: Path) -> None:
    npz(tmp_path / "s.npz", scores=[0.1, 0.2])
    assert read("scores", tmp_path / "s.npz").records is None
    pd.DataFrame({"score": [0.1, 0.2]}).to_csv(tmp_path / "s.csv", index=False)
    with refused('name the right one with record, or write record = "" where rows count in their order'):
        read("scores", tmp_path / "s.csv")
    assert read("scores", tmp_path / "s.csv", record="").scores.tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ({"Z": X, "y": Y}, {}, "expected an array named 'X' in a.npz, got Z, y; name the right one with features"),
        ({"X": X}, {"target": "labels"}, "expected an array named 'labels' in a.npz, got X; name the right one with target"),
        ({}, {}, "expected an array named 'X' in a.npz, got none"),
        ({"X": X, "y": Y[:3]}, {}, "expected one label for each of the 12 training points"),
        ({"X": Y}, {}, "expected a 2-D array of training points, got shape"),
        ({"X": np.array([["a", "b"]])}, {}, "expected numbers for the training points, got <U1"),
        ({"X": X * np.nan}, {}, "36 NaN or infinite values"),
        ({"X": X[:0]}, {}, "expected at least one training point"),
        ({"X": np.array([[object()]])}, {}, "expected plain numbers in a.npz, got pickled Python objects"),
        ({"X": X}, {"shape": [2, 2]}, r"a picture of shape \(2, 2\) does not fill 3 features"),
        ({"X": X}, {"shape": [-1, -3]}, "expected a list of whole numbers from 1 for shape"),
        ({"X": X}, {"shape": 3}, "expected a list of whole numbers from 1 for shape, got 3"),
        ({"X": X}, {"scale": True}, "expected pixels from 0 to 255 for scale = true"),
        ({"X": X}, {"scale": "yes"}, "expected true or false for scale, got 'yes'"),
        ({"X": X}, {"rows": [5, 50]}, "within the 12 rows there are"),
        ({"X": X}, {"rows": [5, 5]}, "within the 12 rows there are"),
        ({"X": X, "sample_weight": 1.0}, {"rows": [0, 2]}, "expected one of the sample weights for each of the 12 points"),
        ({"X": X, "y": Y[:2]}, {"rows": [0, 2]}, "expected one of the labels for each of the 12 points"),
        ({"X": X}, {"features": ["X"]}, r"expected one name for features, got \['X'\]"),
        ({"X": X}, {"tarjet": "y"}, "training_data in a.npz: unknown key 'tarjet'; did you mean 'target'?"),
    ],
)
def test_bad_points_are_refused(tmp_path: Path, content: Any, options: dict[str, Any], sentence: str) -> None:
    with refused(sentence):
        read("training_data", npz(tmp_path / "a.npz", **content), **options)


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("a,b\n1,2\n", {"target": "c"}, "expected a column named 'c' in t.csv, got a, b"),
        ("a,b\n1,2\n", {"features": ["c"]}, "expected a column named 'c' in t.csv, got a, b"),
        ("a,b\n1,2\n", {"features": []}, "expected names of columns of t.csv as features"),
        ("a,b\n1,2\n", {"weights": 3}, "expected one name for weights, got 3"),
        ("1,2\n3,4\n", {}, "expected names of columns in the first line of t.csv, got numbers"),
        ("0.5,0.5\n3,4\n", {}, "expected names of columns in the first line of t.csv, got numbers"),
        (",a\n0,5\n1,6\n", {}, "expected a name for every column of t.csv, got one without, as row numbers have"),
        ("a,b\n1,2,3\n4,5,6\n", {}, "expected one name for every column of t.csv, got fewer"),
        ("a,b\n1,2\n1,2,3\n", {}, "cannot read t.csv as a table"),
        ("a,b\n1,x\n2,\n", {"target": "b"}, "expected a label in every row of t.csv, got 1 rows without"),
        ("a,b\n", {}, "expected at least one row in t.csv, got none"),
        ("\n\n", {}, "cannot read t.csv as a table"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, text: str, options: dict[str, Any], sentence: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with refused(sentence):
        read("training_data", path, **options)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,red\n2,blue\n", "expected numbers in column 'b' of t.csv, got 'red'"),
        ("a,b\n1,\n2,3\n", "1 NaN or infinite values"),
    ],
)
def test_text_and_gaps_are_for_training_data_alone(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with refused(sentence):
        read("candidates", path)
    assert isinstance(read("training_data", path).X, Table)


def test_labels_beside_an_npy_must_be_there(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", X)
    with refused(r"expected the target of p.npy in the file .*no.npy, found no such file"):
        read("training_data", tmp_path / "p.npy", target="no.npy")
    with refused("expected no option features for p.npy"):
        read("training_data", tmp_path / "p.npy", features="X")
    with refused("expected a label for every point of p.npy, got none; name them with target"):
        read("poison", tmp_path / "p.npy")


def test_an_archive_and_an_array_are_not_mixed_up(tmp_path: Path) -> None:
    npz(tmp_path / "a.npz", X=X)
    os.rename(tmp_path / "a.npz", tmp_path / "a.npy")
    with refused("expected a single array in a.npy, got an archive; rename it to end in .npz"):
        read("candidates", tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", X)
    os.rename(tmp_path / "b.npy", tmp_path / "b.npz")
    with refused("expected an npz archive in b.npz, got a single array; rename it to end in .npy"):
        read("candidates", tmp_path / "b.npz")


# --- any file

EVERY = [
    ("training_data", "npz"), ("training_data", "npy"), ("training_data", "csv"), ("candidates", "parquet"),
    ("weights", "npz"), ("weights", "safetensors"), ("weights", "pt"), ("weights", "pth"), ("weights", "onnx"),
    ("weights", "skops"),
    ("predictions", "skops"), ("gradients", "onnx"), ("fitted", "skops"), ("fitted", "joblib"), ("fitted", "pkl"),
    ("parameters", "npz"), ("parameters", "skops"),
    ("hyperparameters", "json"), ("hyperparameters", "toml"), ("membership", "parquet"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "ending"), EVERY)
def test_missing_empty_and_damaged_files_are_one_sentence_each(tmp_path: Path, kind: str, ending: str) -> None:
    path = tmp_path / f"file.{ending}"
    with refused("found no such file; check its name"):
        read(kind, path)
    path.mkdir()
    with refused("in a file, got the folder"):
        read(kind, path)
    path.rmdir()
    path.write_bytes(b"")
    with refused("got an empty file; save it again"):
        read(kind, path)
    options = {"learner": "ridge"} if kind == "fitted" and ending == "npz" else {}
    for blob in (b"\x80\x04nonsense\x00" * 7, b"PK\x03\x04" + b"\xff" * 60, b"{", b"\x93NUMPY\x01\x00\x10"):
        path.write_bytes(blob)
        with pytest.raises(BadInput) as caught:
            read(kind, path, True, **options)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", ["npz", "npy", "parquet", "safetensors", "pt", "onnx", "skops", "joblib", "pkl"])
def test_files_cut_short_are_refused(tmp_path: Path, ending: str) -> None:
    path, kind = saved(tmp_path, ending)
    whole = path.read_bytes()
    read(kind, path, True)
    for share in (0.1, 0.5, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(BadInput):
            read(kind, path, True)


def saved(folder: Path, ending: str) -> tuple[Path, str]:
    path = folder / f"whole.{ending}"
    state = network().state_dict()
    if ending == "npz":
        return npz(path, X=X), "candidates"
    if ending == "npy":
        np.save(path, X)
        return path, "candidates"
    if ending == "parquet":
        pd.DataFrame(X, columns=list("abc")).to_parquet(path)
        return path, "candidates"
    if ending == "safetensors":
        safetensors.numpy.save_file({name: value.numpy() for name, value in state.items()}, path)
        return path, "weights"
    if ending == "pt":
        torch.save(state, path)
        return path, "weights"
    if ending == "onnx":
        path.write_bytes(graph(network()))
        return path, "weights"
    if ending == "skops":
        skops.io.dump(RIDGE, path)
    elif ending == "joblib":
        joblib.dump(RIDGE, path)
    else:
        path.write_bytes(pickle.dumps(RIDGE))
    return path, "fitted"


def test_other_endings_and_kinds_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("1")
    with refused(r"expected training points in a file ending in .npz or .npy or .csv or .parquet, got data.txt"):
        read("training_data", path)
    with refused("expected a network in a file ending in .safetensors or .pt"):
        read("weights", path)
    with refused("expected a kind that files can hold .*, got 'access'"):
        read("access", path)
    (tmp_path / "DATA.CSV").write_text("a\n1\n")
    assert isinstance(read("candidates", tmp_path / "DATA.CSV"), Candidates)


def test_names_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    for name in ("long" * 100 + ".npz", "\0.npz"):
        with refused("check its name"):
            read("candidates", tmp_path / name)


def test_names_in_a_file_cannot_write_on_the_terminal(tmp_path: Path) -> None:
    with refused(r"got \?\[31mred\?; name the right one"):
        read("candidates", npz(tmp_path / "a.npz", **{"\x1b[31mred\n": X}))


def test_a_missing_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, kind = saved(tmp_path, "safetensors")
    monkeypatch.setitem(__import__("sys").modules, "safetensors.numpy", None)
    with refused(r"pip install 'divulge\[files,torch\]'"):
        read(kind, path)


# --- networks


def graph(module: nn.Sequential, *, gemm: bool = True, transposed: bool = True, before: Any = (), after: Any = ()) -> bytes:
    """An ONNX file as an exporter writes it: Gemm, or MatMul and Add."""
    nodes, kept, flow = list(before), [], "input"
    if before:
        flow = before[-1].output[0]
    for index, part in enumerate(module):
        out = f"v{index}"
        if isinstance(part, nn.ReLU):
            nodes.append(helper.make_node("Relu", [flow], [out]))
            flow = out
            continue
        assert isinstance(part, nn.Linear)
        W, b = (value.detach().numpy() for value in (part.weight, part.bias))
        kept += [numpy_helper.from_array(W if gemm and transposed else W.T.copy(), f"W{index}")]
        kept += [numpy_helper.from_array(b, f"b{index}")]
        if gemm:
            nodes.append(helper.make_node("Gemm", [flow, f"W{index}", f"b{index}"], [out], transB=int(transposed)))
        else:
            nodes.append(helper.make_node("MatMul", [flow, f"W{index}"], [f"m{index}"]))
            nodes.append(helper.make_node("Add", [f"b{index}", f"m{index}"], [out]))
        flow = out
    for node in after:
        nodes.append(node(flow))
        flow = nodes[-1].output[0]
    ends = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in ("input", flow)]
    return bytes(helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], kept)).SerializeToString())


@pytest.mark.parametrize("how", ["gemm", "gemm, not transposed", "matmul"])
def test_an_onnx_chain_predicts_as_the_module_does(tmp_path: Path, how: str) -> None:
    path = tmp_path / "net.onnx"
    flatten = helper.make_node("Flatten", ["input"], ["flat"])
    path.write_bytes(graph(network(), gemm=how != "matmul", transposed=how == "gemm", before=[flatten]))
    np.testing.assert_allclose(read("weights", path).predict(X), answers(network()), atol=1e-12)


def test_gemm_factors_and_constants_are_honoured(tmp_path: Path) -> None:
    W, b = np.arange(6.0).reshape(2, 3), np.array([1.0, -1.0])
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(10.0)))
    gemm = helper.make_node("Gemm", ["x", "W", "b"], ["y"], transB=1, alpha=2.0, beta=3.0)
    shift = helper.make_node("Add", ["y", "c"], ["z"])
    ends = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in "xz"]
    kept = [numpy_helper.from_array(W, "W"), numpy_helper.from_array(b, "b")]
    model = helper.make_model(helper.make_graph([constant, gemm, shift], "net", ends[:1], ends[1:], kept))
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    np.testing.assert_allclose(read("weights", path).predict(X), 2 * X @ W.T + 3 * b + 10)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"after": [lambda flow: helper.make_node("Tanh", [flow], ["s"])]},
            "expected only Gemm.* in net.onnx, with Sigmoid or Softmax last, got Tanh",
        ),
        ({"after": [lambda flow: helper.make_node("Relu", [flow], ["s"])]}, "expected a linear layer last, got a ReLU"),
        ({"after": [lambda flow: helper.make_node("Add", [flow, "input"], ["s"])]}, "got a branch at Add"),
        ({"after": [lambda flow: helper.make_node("Relu", ["v0"], ["s"])]}, "got a branch at Relu"),
        (
            {
                "after": [
                    lambda flow: helper.make_node("Relu", [flow], ["r"]),
                    lambda flow: helper.make_node("Add", [flow, "b4"], ["s"]),
                ]
            },
            "expected Add after a MatMul in net.onnx",
        ),
        (
            {"after": [lambda flow: helper.make_node("MatMul", ["W4", flow], ["s"])]},
            "expected MatMul of the points with a matrix",
        ),
        (
            {"after": [lambda flow: helper.make_node("MatMul", [flow, "b4"], ["s"])]},
            "expected a matrix for the weights of MatMul",
        ),
    ],
)
def test_other_onnx_graphs_are_refused_by_operation(tmp_path: Path, changed: Any, sentence: str) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(graph(network(), **changed))
    with refused(sentence):
        read("weights", path)


def test_an_onnx_file_must_hold_one_network_in_one_piece(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    model = onnx.load_model_from_string(graph(network()))
    model.graph.output[0].name = "v0"
    onnx.save(model, path)
    with refused("expected the last layer of net.onnx as its output, got 'v0'"):
        read("weights", path)
    model.graph.output.append(model.graph.output[0])
    onnx.save(model, path)
    with refused("expected one input and one output in net.onnx, got 1 and 2"):
        read("weights", path)
    apart = onnx.load_model_from_string(graph(network()))
    onnx.save(apart, path, save_as_external_data=True, location="elsewhere.bin", size_threshold=0)
    with refused("expected weights inside net.onnx, got a reference to another file"):
        read("weights", path)


@pytest.mark.parametrize("ending", ["pt", "pth", "safetensors", "npz"])
def test_weights_files_predict_as_the_module_does(tmp_path: Path, ending: str) -> None:
    path, module = tmp_path / f"net.{ending}", network()
    state = module.state_dict()
    if ending == "safetensors":
        safetensors.numpy.save_file({name: value.numpy() for name, value in state.items()}, path)
    elif ending == "npz":
        named = {"0.weight": "W1", "0.bias": "b1", "2.weight": "W2", "2.bias": "b2", "4.weight": "W3", "4.bias": "b3"}
        npz(path, **{new: state[old].numpy() for old, new in named.items()})
    else:
        torch.save({"state_dict": state, "epoch": 3} if ending == "pth" else state, path)
    held = read("weights", path)
    assert isinstance(held, Weights)
    np.testing.assert_allclose(held.predict(X), answers(module), atol=1e-12)


def test_a_weights_file_can_be_asked_as_if_behind_an_api(tmp_path: Path) -> None:
    path, module = tmp_path / "net.pt", network()
    torch.save(module.state_dict(), path)
    values, slopes = read("predictions", path), read("gradients", path)
    assert type(values) is Predictions
    assert type(slopes) is Gradients
    np.testing.assert_allclose(values.value(X), answers(module), atol=1e-12)
    np.testing.assert_allclose(slopes.gradient(X), Gradients.of(module).gradient(X), atol=1e-12)
    assert values.identity == slopes.identity == read("predictions", path).identity
    torch.save(network(seed=1).state_dict(), path)
    assert read("predictions", path).identity != values.identity


def test_whole_modules_in_pt_files_are_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    torch.save(network(), path)
    for allow_pickle in (False, True):
        with refused("expected a state dict in net.pt, got other Python objects, which could run code"):
            read("weights", path, allow_pickle)
    torch.save([1, 2], path)
    with refused("expected a state dict in net.pt, got list"):
        read("weights", path)
    torch.save(nn.Conv2d(1, 2, 3).state_dict(), path)
    with refused("only fully connected ReLU networks can be read"):
        read("weights", path)


def test_networks_in_npz_are_numbered_from_one(tmp_path: Path) -> None:
    path = tmp_path / "net.npz"
    held = read("weights", npz(path, W2=np.ones((1, 4)), W1=np.ones((4, 2))))
    assert [W.shape for W, _ in held.layers] == [(4, 2), (1, 4)]
    with refused("expected arrays W1, b1, W2, b2, ... in net.npz, got 'weight'"):
        read("weights", npz(path, weight=np.ones((2, 2))))
    with refused("expected arrays W1 to W2 in net.npz, got W1, W3; number the layers from 1"):
        read("weights", npz(path, W1=np.ones((2, 2)), W3=np.ones((2, 2))))
    with refused("expected a matrix for W1"):
        read("weights", npz(path, W1=np.ones(2)))
    with refused("expected at least one linear layer"):
        read("weights", npz(path))


def test_a_network_of_pictures_says_their_shape_and_what_was_subtracted(tmp_path: Path) -> None:
    net = npz(tmp_path / "net.npz", W1=RNG.standard_normal((4, 6)), b1=np.ones(4), W2=np.ones((1, 4)))
    mean, pictures = RNG.random((2, 3)), RNG.random((5, 6))
    plain = read("weights", net)
    assert plain.mean is None
    assert plain.shape is None
    np.save(tmp_path / "mean.npy", mean)
    for path in (tmp_path / "mean.npy", npz(tmp_path / "mean.npz", anything=mean.reshape(-1))):
        held = read("weights", net, shape=[2, 3], mean=str(path))
        assert held.shape == (2, 3)
        np.testing.assert_array_equal(held.mean, mean.reshape(-1))
        np.testing.assert_allclose(held.predict(pictures), plain.predict(pictures - mean.reshape(-1)))


def test_the_mean_lies_where_the_audit_file_says(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    npz(tmp_path / "nets" / "net.npz", W1=np.ones((4, 6)))
    np.save(tmp_path / "mean.npy", np.arange(6.0))
    text = '[held.network]\nkind = "weights"\nfile = "nets/net.npz"\nshape = [2, 3]\nmean = "mean.npy"\n'
    (tmp_path / "audit.toml").write_text(text)
    network = audit_file.read(tmp_path / "audit.toml").held["network"]
    assert isinstance(network, Weights)
    np.testing.assert_array_equal(network.mean, np.arange(6.0))
    (tmp_path / "audit.toml").write_text(text.replace("[2, 3]", "[2, 4]"))
    with refused(r"\[held.network\]: a picture of shape \(2, 4\) does not fill 6 features"):
        audit_file.read(tmp_path / "audit.toml")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mean": "none.npy"}, "expected the mean of the inputs in the file .*none.npy, found no such file"),
        ({"mean": "net.csv"}, "expected the mean of the inputs in a file ending in .npy or .npz, got net.csv"),
        ({"mean": "two.npz"}, "expected one array in two.npz, the mean of the inputs, got 2; save it alone"),
        (
            {"mean": "long.npy"},
            r"expected a mean of 6 numbers in long.npy, as many as the network has inputs, got shape \(7,\)",
        ),
        ({"mean": "objects.npy"}, "expected plain numbers in objects.npy, got pickled Python objects"),
        ({"mean": "nan.npy"}, "6 NaN or infinite values"),
        ({"mean": [0.5]}, r"expected one name for mean, got \[0.5\]"),
        ({"shape": [7, 7]}, r"a picture of shape \(7, 7\) does not fill 6 features"),
        ({"shape": 6}, "expected a list of whole numbers from 1 for shape, got 6"),
        ({"means": "mean.npy"}, "weights in net.npz: unknown key 'means'; did you mean 'mean'"),
    ],
)
def test_a_wrong_mean_or_shape_of_a_network_is_refused(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    net = npz(tmp_path / "net.npz", W1=np.ones((4, 6)))
    npz(tmp_path / "two.npz", a=np.ones(6), b=np.ones(6))
    np.save(tmp_path / "long.npy", np.ones(7))
    np.save(tmp_path / "objects.npy", np.array([object()] * 6))
    np.save(tmp_path / "nan.npy", np.full(6, np.nan))
    (tmp_path / "net.csv").write_text("a\n1\n")
    if isinstance(options.get("mean"), str):
        options = {"mean": str(tmp_path / options["mean"])}
    with refused(sentence):
        read("weights", net, **options)


def test_half_precision_of_the_brain_kind_says_how_to_save(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"0.weight": torch.ones(2, 2, dtype=torch.bfloat16)}, tmp_path / "net.safetensors")
    with refused("expected common numbers in net.safetensors, got 'BF16'; save it in float32"):
        read("weights", tmp_path / "net.safetensors")


# --- fitted models


def test_a_skops_file_is_the_model_without_its_secrets(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    skops.io.dump(RIDGE, path)
    held = read("fitted", path)
    assert isinstance(held, Fitted)
    np.testing.assert_array_equal(held.coef, RIDGE.coef_)
    assert "alpha" not in held.settings
    assert read("hyperparameters", path).values == {"alpha": 0.31}
    np.testing.assert_array_equal(read("predictions", path).value(X), RIDGE.predict(X))
    np.testing.assert_allclose(read("gradients", path).gradient(X), np.tile(RIDGE.coef_, (12, 1)))
    with refused("expected no options for model.skops, which says what it is, got learner"):
        read("fitted", path, learner="ridge")


@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(kernel="rbf").fit(X, Y),
        ElasticNet(0.01).fit(X, Y),
        LogisticRegression().fit(X, Y > 0),
        MLPRegressor(hidden_layer_sizes=4, max_iter=500, tol=1).fit(X, Y),
    ],
)
def test_common_models_need_no_pickle(tmp_path: Path, model: Any) -> None:
    skops.io.dump(model, tmp_path / "model.skops")
    target = read("predictions", tmp_path / "model.skops")
    np.testing.assert_array_equal(target.value(X), Predictions.of(model).value(X))


class Stranger(Ridge):  # type: ignore[misc]  # scikit-learn has no types
    """A type nobody has heard of."""


def test_types_nobody_trusts_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    skops.io.dump(Stranger().fit(X, Y), path)
    with refused(r"expected only types of scikit-learn and numpy in model.skops, got .*Stranger"):
        read("fitted", path, True)
    skops.io.dump(RandomForestClassifier(2).fit(X, Y > 0), path)
    with refused(r"sklearn.tree._tree.Tree"):
        read("predictions", path)


@pytest.mark.parametrize("ending", ["joblib", "pkl", "pickle"])
def test_a_pickle_runs_only_when_allowed(tmp_path: Path, ending: str) -> None:
    path, mark = tmp_path / f"model.{ending}", tmp_path / "it-ran"

    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (mark,))

    path.write_bytes(pickle.dumps(Trap()))
    for kind in ("fitted", "parameters", "predictions", "gradients", "hyperparameters"):
        with refused(f"model.{ending} is a pickle.*save it again with skops.*allow_pickle = true.*--allow-pickle"):
            read(kind, path)
    assert not mark.exists()
    joblib.dump(RIDGE, path) if ending == "joblib" else path.write_bytes(pickle.dumps(RIDGE))
    np.testing.assert_array_equal(read("fitted", path, True).coef, RIDGE.coef_)
    assert read("hyperparameters", path, True).values == {"alpha": 0.31}


def test_a_pickle_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps({"not": "a model"}))
    with refused("expected a scikit-learn Ridge, .*, got dict"):
        read("fitted", path, True)
    with refused("expected a torch module or a fitted scikit-learn estimator, got dict"):
        read("predictions", path, True)
    gutted = Ridge().fit(X, Y)
    del gutted.alpha, gutted.intercept_
    path.write_bytes(pickle.dumps(gutted))
    for kind in ("fitted", "hyperparameters"):
        with refused("cannot read model.pkl as a fitted model"):
            read(kind, path, True)


def test_fitted_arrays_name_their_learner(tmp_path: Path) -> None:
    path = npz(tmp_path / "model.npz", dual_coef=Y)
    options: dict[str, Any] = {"kernel": "rbf", "gamma": 0.5, "settings": {"tol": 1e-4}}
    held = read("fitted", path, learner="kernel_ridge", **options)
    assert held.learner == "kernel_ridge"
    assert held.kernel == Kernel("rbf", 0.5)
    assert held.settings == {"tol": 1e-4}
    np.testing.assert_array_equal(held.dual_coef, Y)
    with refused('expected the learner of the arrays in model.npz, got none; name it as in learner = "ridge"'):
        read("fitted", path)
    with refused("expected named values for settings, got 3"):
        read("fitted", path, learner="ridge", settings=3)
    with refused("cannot read model.npz as a kernel"):
        read("fitted", path, learner="kernel_ridge", kernel="rbf", gamma="wide")
    with refused("expected coef or dual_coef of the ridge model, got neither"):
        read("fitted", npz(path, other=Y), learner="ridge")


def test_parameters_are_arrays_that_name_no_learner(tmp_path: Path) -> None:
    held = read("parameters", npz(tmp_path / "linear.npz", coef=X[:2], intercept=[1, 2], other=Y))
    assert isinstance(held, Parameters)
    np.testing.assert_array_equal(held.coef, X[:2])
    np.testing.assert_array_equal(held.intercept, [1, 2])
    assert held.dual_coef is None
    path = npz(tmp_path / "kernel.npz", dual_coef=Y)
    dual = read("parameters", path, kernel="poly", gamma=0.5, degree=2, coef0=0)
    np.testing.assert_array_equal(dual.dual_coef, Y)
    assert dual.kernel == Kernel("poly", 0.5, 2, 0)
    with refused("expected coef or dual_coef of the model, got neither"):
        read("parameters", npz(tmp_path / "none.npz", other=Y))
    with refused("parameters in kernel.npz: unknown key 'learner'"):
        read("parameters", path, learner="ridge")


def test_parameters_of_a_model_file_are_what_it_learned(tmp_path: Path) -> None:
    path = tmp_path / "model.skops"
    skops.io.dump(RIDGE, path)
    held = read("parameters", path)
    assert type(held) is Parameters
    np.testing.assert_array_equal(held.coef, RIDGE.coef_)
    np.testing.assert_array_equal(held.intercept, [RIDGE.intercept_])
    with refused("expected no options for model.skops, which says what it is, got kernel"):
        read("parameters", path, kernel="rbf")
    skops.io.dump(KernelRidge(kernel="rbf", gamma=0.5).fit(X, Y), path)
    assert read("parameters", path).kernel == Kernel("rbf", 0.5)
    skops.io.dump(make_pipeline(StandardScaler(), RIDGE).fit(X, Y), path)
    with refused("expected a single model in model.skops, got a pipeline"):
        read("parameters", path)


# --- hyperparameters


def test_hyperparameters_are_named_numbers(tmp_path: Path) -> None:
    (tmp_path / "h.json").write_text('{"alpha": 0.5, "degree": 3}')
    (tmp_path / "h.toml").write_text("alpha = 0.5\ndegree = 3\n")
    for name in ("h.json", "h.toml"):
        held = read("hyperparameters", tmp_path / name)
        assert isinstance(held, Hyperparameters)
        assert held.values == {"alpha": 0.5, "degree": 3.0}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([1], "expected named numbers in h.json, got list"),
        ({}, "expected at least one hyperparameter, got none"),
        ({"alpha": "big"}, "expected a finite number for hyperparameter 'alpha', got 'big'"),
        ({"alpha": True}, "expected a finite number"),
        ({"alpha": float("nan")}, "expected a finite number"),
        ({"alpha": 10**400}, "expected a finite number"),
        ({"alpha": {"deep": 1}}, "expected a finite number"),
    ],
)
def test_other_hyperparameters_are_refused(tmp_path: Path, content: Any, sentence: str) -> None:
    (tmp_path / "h.json").write_text(json.dumps(content))
    with refused(sentence):
        read("hyperparameters", tmp_path / "h.json")
