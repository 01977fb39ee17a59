"""Networks as people have them: BatchNorm, a softmax at the end, scikit-learn's; read as the plain ones they amount to."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import pytest
import safetensors.numpy
import skops.io
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from sklearn.compose import TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, StandardScaler
from torch import nn

from divulge import Fitted, Gradients, Predictions, Weights, audit_file
from divulge.attacks import SpanReconstruction
from divulge.cli import main
from divulge.errors import BadInput
from divulge.targets import files

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 5))
Y = X @ RNG.standard_normal(5)
CLASSES = np.arange(60) % 3


def refused(sentence: str) -> Any:
    return pytest.raises(BadInput, match=sentence)


def settled(module: nn.Module) -> Any:
    """With statistics and factors that are not those of the start, in eval mode."""
    rng = torch.Generator().manual_seed(0)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d):
            assert part.running_mean is not None
            assert part.running_var is not None
            part.running_mean.copy_(torch.randn(part.num_features, generator=rng))
            part.running_var.copy_(torch.rand(part.num_features, generator=rng) + 0.1)
            if part.affine:
                part.weight.data = torch.randn(part.num_features, generator=rng)
                part.bias.data = torch.randn(part.num_features, generator=rng)
    return module.double().eval()


def answers(module: nn.Module, rows: Any = X) -> Any:
    return module(torch.as_tensor(rows)).detach().numpy()


def normed(*, early: bool = False, outputs: int = 2, affine: bool = True) -> nn.Sequential:
    """5-7-4-outputs, with BatchNorm before the ReLUs or `early`, behind them."""
    torch.manual_seed(0)
    pairs = [[nn.BatchNorm1d(width, affine=affine), nn.ReLU()] for width in (7, 4)]
    first, second = (pair[::-1] if early else pair for pair in pairs)
    made: nn.Sequential = settled(
        nn.Sequential(nn.Linear(5, 7), *first, nn.Dropout(), nn.Linear(7, 4), *second, nn.Linear(4, outputs))
    )
    return made


class Written(nn.Module):
    """Layers defined in another order than they are called in, a ReLU and a softmax that are functions."""

    def __init__(self, *, early: bool, softmax: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc1, self.fc2, self.norm = nn.Linear(5, 7), nn.Linear(7, 3), nn.BatchNorm1d(7)
        self.early, self.softmax = early, softmax

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc1(x)
        x = self.norm(x.relu()) if self.early else self.norm(x).relu()
        x = self.fc2(x)
        return x.softmax(1) if self.softmax else x


# --- BatchNorm


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm_is_folded_into_the_layer_beside_it(early: bool, affine: bool) -> None:
    module = normed(early=early, affine=affine)
    held = Weights.of(module)
    np.testing.assert_allclose(held.predict(X), answers(module), atol=1e-12)
    assert [W.shape for W, _ in held.layers] == [(7, 5), (4, 7), (2, 4)]
    assert held.folded == tuple(f"layer '{number}' (BatchNorm1d)" for number in ((2, 6) if early else (1, 5)))


@pytest.mark.parametrize("early", [False, True])
def test_the_numbers_in_a_state_dict_tell_on_which_side_of_batch_norm_the_relu_is(early: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    beside: list[nn.Module] = [nn.BatchNorm1d(7), nn.ReLU()]
    module = settled(nn.Sequential(nn.Linear(5, 7), *(beside[::-1] if early else beside), nn.Linear(7, 2)))
    path = tmp_path / "net.safetensors"
    safetensors.numpy.save_file({name: value.numpy() for name, value in module.state_dict().items()}, path)
    held = files.read("weights", path, {})
    assert isinstance(held, Weights)
    np.testing.assert_allclose(held.predict(X), answers(module), atol=1e-12)


def test_batch_norm_at_either_end_is_folded_too() -> None:
    torch.manual_seed(0)
    module = settled(
        nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 2), nn.BatchNorm1d(2))
    )
    for held in (Weights.of(module), Weights.of(module.state_dict())):
        np.testing.assert_allclose(held.predict(X), answers(module), atol=1e-12)


@pytest.mark.parametrize("names", [("fc1", "bn1", "fc2"), ("layer1", "norm1", "layer2"), ("body0", "body1", "out")])
def test_a_norm_follows_the_layer_that_it_is_numbered_with(names: tuple[str, str, str]) -> None:
    torch.manual_seed(0)
    parts = [nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 2)]
    module = settled(nn.Sequential(OrderedDict(zip((*names[:2], "relu", names[2]), parts, strict=True))))
    np.testing.assert_allclose(Weights.of(module.state_dict()).predict(X), answers(module), atol=1e-12)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("softmax", [False, True])
def test_a_forward_of_its_own_is_read_as_it_is_called(early: bool, softmax: bool) -> None:
    module = settled(Written(early=early, softmax=softmax))
    held = Weights.of(module)
    assert held.link == ("softmax" if softmax else "")
    scores = answers(settled(Written(early=early, softmax=False)))
    np.testing.assert_allclose(held.predict(X), scores, atol=1e-12)
    np.testing.assert_allclose(Predictions.of(held).value(X), answers(module), atol=1e-12)


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (
            nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 1)),
            r"got layer '1' \(LayerNorm\), which .*",
        ),
        (
            nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.ReLU(), nn.Linear(4, 1)),
            r"expected layer '1' \(BatchNorm1d\) with running statistics",
        ),
        (
            nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1)),
            r"expected a linear layer behind layer '2' \(BatchNorm1d\), got layer '3' \(ReLU\)",
        ),
        (nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(3)), r"expected layer '1' .* the 4 values .*, got 3 values; check"),
        (nn.Sequential(nn.Linear(5, 4), nn.Sigmoid(), nn.Linear(4, 1)), r"expected layer '1' \(Sigmoid\) at the end of"),
        (nn.Sequential(nn.Linear(5, 4), nn.Softmax(dim=0)), r"over the outputs of a point, got dim=0; write it with dim=1"),
    ],
)
def test_what_cannot_be_folded_is_refused_by_layer(module: nn.Module, sentence: str) -> None:
    with refused(sentence):
        Weights.of(module)


def norm(width: int) -> dict[str, Any]:
    return {"running_mean": np.zeros(width), "running_var": np.ones(width)}


def state(**parts: Any) -> Any:
    return {f"{owner[1:]}.{name}": value for owner, held in parts.items() for name, value in held.items()}


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        (
            state(_0={"weight": np.ones((4, 5))}, _2=norm(4), _4={"weight": np.ones((1, 4))}),
            r"cannot tell whether a ReLU stands before '2' \(BatchNorm\) or behind it; read the module",
        ),
        (
            state(_0={"weight": np.ones((4, 5))}, _1={"weight": np.ones(4), "bias": np.ones(4)}),
            "got the weights of a LayerNorm",
        ),
        (state(_0={"weight": np.ones((4, 5))}, _1=norm(3), _3={"weight": np.ones((1, 4))}), "got 3 values"),
        (
            state(_a={"weight": np.ones((4, 5))}, _b=norm(4), _c=norm(4)),
            "cannot tell which layer comes first, 'c' or another",
        ),
    ],
)
def test_state_dicts_that_leave_it_open_are_refused(named: dict[str, Any], sentence: str) -> None:
    with refused(sentence):
        Weights.of(named)


def test_hyperparameters_are_not_looked_for_in_layers_that_something_was_folded_into() -> None:
    with refused(r"got layer '1' \(BatchNorm1d\) folded into them, which a penalty does not see; hold it as weights"):
        Fitted.of(normed())


# --- what comes last

ENDS = [(nn.Sigmoid(), "sigmoid"), (nn.Softmax(dim=1), "softmax"), (nn.LogSoftmax(dim=-1), "log-softmax")]


@pytest.mark.parametrize(("last", "link"), ENDS)
def test_a_link_at_the_end_is_left_off_and_answered_with(last: nn.Module, link: str) -> None:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)).double()
    module = nn.Sequential(inner, last)
    held = Weights.of(module)
    assert held.link == link
    assert link in held.remarks[0]
    np.testing.assert_allclose(held.predict(X), answers(inner), atol=1e-12)
    ours, theirs = Gradients.of(held), Gradients.of(module)
    np.testing.assert_allclose(ours.value(X), theirs.value(X), atol=1e-12)
    np.testing.assert_allclose(ours.gradient(X), theirs.gradient(X), atol=1e-12)


def test_a_sigmoid_on_one_output_has_slopes_of_the_usual_shape() -> None:
    module = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 1), nn.Sigmoid()).double()
    ours, theirs = Gradients.of(Weights.of(module)), Gradients.of(module)
    assert ours.gradient(X).shape == (60, 5)
    np.testing.assert_allclose(ours.gradient(X), theirs.gradient(X), atol=1e-12)


# --- ONNX


def onnx_file(path: Path, last: str = "Softmax", *, training: bool = False, axis: int = 1) -> Path:
    """Gemm, BatchNormalization, Relu, Dropout, Gemm and what comes last."""
    rng = np.random.default_rng(0)
    arrays = {
        "W": rng.standard_normal((5, 7)), "b": rng.standard_normal(7), "scale": rng.standard_normal(7),
        "shift": rng.standard_normal(7), "mean": rng.standard_normal(7), "var": rng.random(7) + 0.1,
        "V": rng.standard_normal((7, 3)), "c": rng.standard_normal(3),
        "ratio": np.array(0.5), "training": np.array(training),
    }  # fmt: skip
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["1"]),
        helper.make_node("BatchNormalization", ["1", "scale", "shift", "mean", "var"], ["2"], epsilon=1e-3),
        helper.make_node("Relu", ["2"], ["3"]),
        helper.make_node("Dropout", ["3", "ratio", "training"], ["4"], name="drop"),
        helper.make_node("Gemm", ["4", "V", "c"], ["5"]),
        helper.make_node(last, ["5"], ["y"], name="last"),
    ]
    if last != "Sigmoid":
        nodes[-1].attribute.append(helper.make_attribute("axis", axis))
    ends = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, [None, width]) for name, width in (("x", 5), ("y", 3))]
    kept = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    onnx.save(helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], kept)), path)
    return path


@pytest.mark.parametrize("last", ["Softmax", "LogSoftmax", "Sigmoid"])
def test_an_onnx_file_with_batch_norm_dropout_and_a_link_answers_as_it_runs(tmp_path: Path, last: str) -> None:
    path = onnx_file(tmp_path / "net.onnx", last)
    ran: Any = ReferenceEvaluator(str(path)).run(None, {"x": X})
    theirs = ran[0]
    held = files.read("weights", path, {})
    assert isinstance(held, Weights)
    assert held.link == {"Softmax": "softmax", "LogSoftmax": "log-softmax", "Sigmoid": "sigmoid"}[last]
    asked = files.read("predictions", path, {})
    assert isinstance(asked, Predictions)
    np.testing.assert_allclose(asked.value(X), theirs, atol=1e-12)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("folding", [False, True])
def test_what_torch_exports_of_batch_norm_and_a_softmax_is_read(tmp_path: Path, folding: bool) -> None:
    module = nn.Sequential(nn.Flatten(), *normed(early=True, outputs=3), nn.Softmax(dim=1)).float().eval()
    points = torch.as_tensor(X, dtype=torch.float32)
    path = tmp_path / "net.onnx"
    torch.onnx.export(module, (points,), path, dynamo=False, do_constant_folding=folding)
    asked = files.read("predictions", path, {})
    assert isinstance(asked, Predictions)
    np.testing.assert_allclose(asked.value(X), answers(module, points), atol=1e-5)


def test_an_onnx_file_as_in_training_or_over_the_rows_is_refused(tmp_path: Path) -> None:
    with refused(r"got Dropout \(drop\) as in training; export it in eval mode"):
        files.read("weights", onnx_file(tmp_path / "a.onnx", training=True), {})
    with refused(r"expected Softmax \(last\) over a point's outputs, got axis 0"):
        files.read("weights", onnx_file(tmp_path / "b.onnx", axis=0), {})


# --- scikit-learn

SMALL: dict[str, Any] = {"hidden_layer_sizes": (6, 4), "max_iter": 20, "random_state": 0}


def fitted(model: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@pytest.mark.parametrize(
    ("y", "link", "outputs"), [(CLASSES, "softmax", 3), (CLASSES > 0, "sigmoid", 1), (np.eye(3)[CLASSES], "sigmoid", 3)]
)
def test_an_mlp_classifier_is_read_up_to_its_scores(y: Any, link: str, outputs: int) -> None:
    model = fitted(MLPClassifier(**SMALL), y)
    held = Weights.of(model)
    assert (held.link, held.layers[-1][0].shape) == (link, (outputs, 4))
    answered = Predictions.of(held).value(X)
    theirs = model.predict_proba(X)
    np.testing.assert_allclose(answered if outputs > 1 else answered[:, 0], theirs if outputs > 1 else theirs[:, 1])


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), PCA(3), PCA(3, whiten=True)])
def test_a_preparation_of_sums_and_products_is_folded_into_the_first_layer(scaler: Any) -> None:
    model = fitted(make_pipeline(scaler, StandardScaler(), MLPRegressor(**SMALL)), Y)
    held = Weights.of(model)
    np.testing.assert_allclose(held.predict(X)[:, 0], model.predict(X))
    assert held.dimension == 5
    assert held.folded == (type(scaler).__name__, "StandardScaler")


def test_a_preparation_that_moves_and_scales_all_alike_is_the_mean() -> None:
    model = fitted(make_pipeline(StandardScaler(with_std=False), MLPRegressor(**SMALL)), Y)
    held = Weights.of(model)
    assert held.mean is not None
    np.testing.assert_allclose(held.mean, X.mean(axis=0))
    np.testing.assert_array_equal(held.layers[0][0], model[-1].coefs_[0].T)
    np.testing.assert_allclose(held.predict(X)[:, 0], model.predict(X))
    assert not held.folded


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            MLPRegressor(**SMALL, activation="tanh"),
            "expected activation='relu' of a MLPRegressor with hidden layers, got 'tanh'",
        ),
        (MLPRegressor(**SMALL, activation="identity"), "expected activation='relu' .*, got 'identity'"),
        (
            make_pipeline(KBinsDiscretizer(3, encode="ordinal"), MLPRegressor(**SMALL)),
            "sums and products, got KBinsDiscretizer",
        ),
        (make_pipeline(MinMaxScaler(clip=True), MLPRegressor(**SMALL)), "sums and products, got MinMaxScaler"),
        (TransformedTargetRegressor(MLPRegressor(**SMALL), func=np.log1p, inverse_func=np.expm1), "pass its regressor_"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "got LogisticRegression; hold it as fitted"),
    ],
)
def test_other_estimators_are_refused_by_name(model: Any, sentence: str) -> None:
    with refused(sentence):
        Weights.of(fitted(model, np.abs(Y).round()))


def test_an_mlp_without_hidden_layers_is_one_layer_whatever_its_activation() -> None:
    model = fitted(MLPRegressor(hidden_layer_sizes=(), activation="identity", max_iter=20, random_state=0), Y)
    held = Weights.of(model)
    assert len(held.layers) == 1
    np.testing.assert_allclose(held.predict(X)[:, 0], model.predict(X))
    with refused("expected a fitted MLPRegressor, got one that has learned nothing; call fit first"):
        Weights.of(MLPRegressor())


# --- the front door


def test_an_audit_file_takes_a_network_of_scikit_learn(tmp_path: Path) -> None:
    model = fitted(make_pipeline(StandardScaler(), MLPClassifier(**SMALL)), CLASSES)
    skops.io.dump(model, tmp_path / "model.skops")
    joblib.dump(model, tmp_path / "model.joblib")
    text = '[held.network]\nkind = "weights"\nfile = "model.skops"\n'
    (tmp_path / "audit.toml").write_text(text)
    held = audit_file.read(tmp_path / "audit.toml").held["network"]
    assert isinstance(held, Weights)
    np.testing.assert_allclose(Predictions.of(held).value(X), model.predict_proba(X))
    (tmp_path / "audit.toml").write_text(text.replace("skops", "joblib"))
    with refused("model.joblib is a pickle"):
        audit_file.read(tmp_path / "audit.toml")
    (tmp_path / "audit.toml").write_text("allow_pickle = true\n" + text.replace("skops", "joblib"))
    assert isinstance(audit_file.read(tmp_path / "audit.toml").held["network"], Weights)


def test_an_attack_on_the_command_line_takes_a_state_dict_with_batch_norm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save(normed().state_dict(), tmp_path / "net.pt")
    main(["attack", "span-reconstruction", "--weights", str(tmp_path / "net.pt")])
    assert "not applicable" in capsys.readouterr().out


def test_a_finding_says_what_was_folded_and_left_off() -> None:
    finding = SpanReconstruction()(Weights.of(nn.Sequential(normed(), nn.Softmax(dim=1))))
    assert "before the softmax" in " ".join(finding.notes)
    assert "layer '0.1' (BatchNorm1d)" in " ".join(finding.notes)
