"""Models in memory: what they answer, what they learned, and what of it an attacker may see."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings, strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    ElasticNet,
    ElasticNetCV,
    Lasso,
    LassoCV,
    LinearRegression,
    LogisticRegression,
    MultiTaskLasso,
    PoissonRegressor,
    Ridge,
    RidgeCV,
)
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from torch import nn

from divulge import Fitted, Gradients, Hyperparameters, Predictions, Weights
from divulge.contract import Kernel
from divulge.errors import BadInput
from divulge.targets import local

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 5))
Y = X @ RNG.standard_normal(5) + 0.5 * RNG.standard_normal(60)
CLASSES = np.arange(60) % 3


def mlp(widths: list[int], *, bias: bool = True, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        parts += [nn.Linear(before, after, bias=bias), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


class Written(nn.Module):
    """A network whose ReLU is a function in forward."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(5, 7), nn.Linear(7, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.last(torch.relu(self.first(x)))
        return answer


class Bent(Written):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.last(torch.tanh(self.first(x)))
        return answer


def refused(sentence: str) -> Any:
    return pytest.raises(BadInput, match=sentence)


# --- asking a module


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_module_answers_its_own_values_in_doubles(dtype: torch.dtype) -> None:
    module = mlp([5, 8, 3]).to(dtype)
    values = Predictions.of(module).value(X)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, module(torch.as_tensor(X, dtype=dtype)).detach().double().numpy())


def test_more_rows_than_a_batch_come_back_in_order() -> None:
    module = mlp([5, 4, 2]).double()
    many = np.random.default_rng(1).standard_normal((2 * local.BATCH + 3, 5))
    target = Gradients.of(module)
    assert target.value(many).shape == (len(many), 2)
    np.testing.assert_allclose(target.value(many)[-1:], target.value(many[-1:]), rtol=1e-12)
    assert target.gradient(many).shape == (len(many), 2, 5)
    assert target.value(many[:0]).shape == (0, 2)


@pytest.mark.parametrize(("outputs", "shape"), [(1, (60, 5)), (3, (60, 3, 5))])
def test_gradients_are_the_slopes_of_the_values(outputs: int, shape: tuple[int, ...]) -> None:
    target = Gradients.of(mlp([5, 16, outputs]).double())
    step = 1e-6
    slopes = [(target.value(X + step * e) - target.value(X - step * e)) / (2 * step) for e in np.eye(5)]
    found = target.gradient(X)
    assert found.shape == shape
    np.testing.assert_allclose(found.reshape(60, outputs, 5), np.stack(slopes, axis=2), atol=1e-7)


def test_the_hand_written_jacobian_is_torchs() -> None:
    for widths in ([5, 6, 1], [5, 9, 7, 4], [5, 2]):
        module = mlp(widths).double()
        weights, target = Gradients.of(Weights.of(module)), Gradients.of(module)
        np.testing.assert_allclose(weights.gradient(X), target.gradient(X), atol=1e-12)
        np.testing.assert_allclose(weights.value(X), target.value(X), atol=1e-12)
        assert weights.dimension == 5


def test_asking_changes_nothing_about_a_module() -> None:
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 1)).train()
    target = Gradients.of(module)
    np.testing.assert_array_equal(target.value(X), target.value(X))
    target.gradient(X)
    assert module.training
    assert all(part.requires_grad and part.grad is None for part in module.parameters())


def test_a_module_that_writes_into_its_input_has_gradients() -> None:
    linear = nn.Linear(5, 1)
    module = nn.Sequential(nn.ReLU(inplace=True), linear).double()
    points = X.copy()
    slopes = Gradients.of(module).gradient(points)
    np.testing.assert_array_equal(points, X)
    np.testing.assert_allclose(slopes, (X > 0) * linear.weight.detach().numpy())


def test_a_target_stays_the_model_its_identity_names() -> None:
    module = mlp([5, 4, 1])
    target = Predictions.of(module)
    before = target.value(X)
    with torch.no_grad():
        next(module.parameters()).add_(1)
    np.testing.assert_array_equal(target.value(X), before)
    assert Predictions.of(module).identity != target.identity


def test_equal_modules_are_equal_and_others_are_not() -> None:
    assert Predictions.of(mlp([5, 4, 1])).identity == Predictions.of(mlp([5, 4, 1])).identity
    assert Predictions.of(mlp([5, 4, 1])).identity != Predictions.of(mlp([5, 4, 1], seed=1)).identity
    assert Predictions.of(Written()).identity == Predictions.of(Written()).identity
    assert Predictions.of(Written()).identity != Predictions.of(Bent()).identity
    assert Predictions.of(mlp([5, 4, 1])).identity != Predictions.of(mlp([5, 4, 1]).double()).identity
    pair = [Predictions.of(Weights.of(mlp([5, 4, 1], seed=seed))).identity for seed in (0, 0, 1)]
    assert pair[0] == pair[1] != pair[2]


def test_a_module_whose_width_cannot_be_found_says_what_to_do() -> None:
    convolution = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))
    with refused(r"got Sequential; give the shape .* or build Predictions\(value=..., dimension=...\) by hand"):
        Predictions.of(convolution)
    with refused(r"build Gradients\(value=..., gradient=..., dimension=...\) by hand"):
        Gradients.of(nn.ReLU())
    with refused("starts with a Linear layer"):
        Predictions.of(nn.LazyLinear(3))


def test_a_module_that_takes_other_points_says_what_it_said() -> None:
    class Crooked(Written):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = self.first(self.last(x))
            return answer

    class Pair(Written):
        def forward(self, x: torch.Tensor) -> Any:
            return x, x

    with refused("to take points as rows of 5 numbers, but it said: mat1 and mat2"):
        Predictions.of(Crooked())
    with refused("one row of values a point from Pair, got tuple"):
        Predictions.of(Pair())


def test_a_module_without_slopes_refuses_gradients() -> None:
    class Decides(Written):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.gt(self.first(x), 0).double()

    with refused("can be differentiated"):
        Gradients.of(Decides()).gradient(X)


def test_a_module_that_cannot_be_copied_is_refused() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(5, 2)
            self.kept = self.first.weight * 2

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = self.first(x)
            return answer

    with refused("expected a module that can be copied, got Tied"):
        Predictions.of(Tied())
    with refused("expected a module that can be copied, got Tied"):
        Weights.of(Tied())


# --- asking an estimator


def test_an_estimator_answers_the_most_telling_values_it_has() -> None:
    machine = SVC().fit(X, CLASSES)
    forest = RandomForestClassifier(5, random_state=0).fit(X, CLASSES)
    ridge = Ridge().fit(X, Y)
    np.testing.assert_array_equal(Predictions.of(machine).value(X), machine.decision_function(X))
    np.testing.assert_array_equal(Predictions.of(forest).value(X), forest.predict_proba(X))
    np.testing.assert_array_equal(Predictions.of(ridge).value(X), ridge.predict(X))
    assert Predictions.of(ridge).dimension == 5


def test_an_estimator_fitted_on_a_table_is_asked_with_its_columns() -> None:
    table = pd.DataFrame(X, columns=list("abcde"))
    prepare = ColumnTransformer([("scale", StandardScaler(), ["a", "b"])])
    model = make_pipeline(prepare, Ridge()).fit(table, Y)
    np.testing.assert_array_equal(Predictions.of(model).value(X), model.predict(table))


def test_equal_estimators_are_equal_and_others_are_not() -> None:
    one, same, other = (Predictions.of(Ridge(alpha).fit(X, Y)).identity for alpha in (1.0, 1.0, 2.0))
    assert one == same != other
    forests = [Predictions.of(RandomForestClassifier(3, random_state=s).fit(X, CLASSES)).identity for s in (0, 0, 1)]
    assert forests[0] == forests[1] != forests[2]


def test_an_estimator_that_cannot_be_told_from_another_is_like_no_other() -> None:
    model = KernelRidge(kernel=lambda a, b: float(a @ b)).fit(X, Y)
    one, other = Predictions.of(model), Predictions.of(model)
    np.testing.assert_array_equal(one.value(X), other.value(X))
    assert one.identity != other.identity


def test_a_linear_estimator_has_its_coefficients_as_gradients() -> None:
    ridge, several = Ridge().fit(X, Y), LogisticRegression().fit(X, CLASSES)
    np.testing.assert_array_equal(Gradients.of(ridge).gradient(X), np.tile(ridge.coef_, (60, 1)))
    np.testing.assert_array_equal(Gradients.of(several).gradient(X[:2]), np.stack([several.coef_] * 2))


@pytest.mark.parametrize(
    "model", [RandomForestClassifier(3).fit(X, CLASSES), PoissonRegressor().fit(X, np.abs(Y)), SVC().fit(X, CLASSES)]
)
def test_an_estimator_that_is_not_linear_has_no_gradients(model: Any) -> None:
    with refused(f"expected a linear estimator or a torch module for gradients, got {type(model).__name__}"):
        Gradients.of(model)


def test_what_cannot_be_asked_is_refused() -> None:
    with refused("expected a torch module or a fitted scikit-learn estimator, got function"):
        Predictions.of(lambda rows: rows)
    with refused("expected a fitted Ridge, got one that has learned nothing; call fit first"):
        Predictions.of(Ridge())
    with refused("expected an estimator that predicts, got StandardScaler"):
        Predictions.of(StandardScaler().fit(X))

    class Names(LinearRegression):  # type: ignore[misc]  # scikit-learn has no types
        def predict(self, rows: Any) -> Any:
            return np.full(len(rows), "yes")

    with refused("expected Names to answer numbers, got <U3"):
        Predictions.of(Names().fit(X, Y)).value(X)


# --- reading a network


@settings(max_examples=40, deadline=None)
@given(
    widths=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    bias=st.booleans(),
    nested=st.booleans(),
    padded=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_layers_predict_as_the_module_does(widths: list[int], bias: bool, nested: bool, padded: bool, seed: int) -> None:
    module = mlp(widths, bias=bias, seed=seed)
    if nested:
        first, *others = module
        module = nn.Sequential(nn.Sequential(first), *others)
    if padded:
        module = nn.Sequential(nn.Flatten(), module, nn.Identity(), nn.Dropout(0.5)).eval()
    module = module.double()
    points = np.random.default_rng(seed).standard_normal((20, widths[0]))
    for held in (Weights.of(module), Weights(local.layers(module.state_dict()))):
        np.testing.assert_allclose(held.predict(points), module(torch.as_tensor(points)).detach().numpy(), atol=1e-10)
        assert all(W.dtype == b.dtype == np.float64 for W, b in held.layers)


def test_a_relu_used_twice_stands_in_both_places() -> None:
    relu = nn.ReLU()
    module = nn.Sequential(nn.Linear(5, 4), relu, nn.Linear(4, 3), relu, nn.Linear(3, 1)).double()
    np.testing.assert_allclose(Weights.of(module).predict(X), module(torch.as_tensor(X)).detach().numpy(), atol=1e-12)


def test_layers_are_copies() -> None:
    module = mlp([5, 4, 1]).double()
    held = Weights.of(module)
    before = held.layers[0][0].copy()
    with torch.no_grad():
        next(module.parameters()).add_(1)
    np.testing.assert_array_equal(held.layers[0][0], before)


def test_a_relu_in_forward_is_found_by_asking() -> None:
    held = Weights.of(Written())
    np.testing.assert_allclose(held.predict(X), Written().double()(torch.as_tensor(X)).detach().numpy(), atol=1e-12)
    with refused("expected linear layers with ReLU between them, got Bent, which computes something else"):
        Weights.of(Bent())


def test_a_layer_that_is_only_called_linear_is_found_out() -> None:
    class Twice(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    with refused("expected linear layers with ReLU between them, got Sequential, which computes something else"):
        Weights.of(nn.Sequential(Twice(5, 4), nn.ReLU(), nn.Linear(4, 1)))


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        (nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)), r"got layer '1' \(Tanh\); read the network without it"),
        (nn.Sequential(nn.Linear(5, 4), nn.Sequential(nn.LeakyReLU())), r"got layer '1.0' \(LeakyReLU\)"),
        (nn.Sequential(nn.Conv1d(1, 1, 1)), r"got layer '0' \(Conv1d\)"),
        (nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 1)), r"expected a ReLU before layer '1' \(Linear\).*merge the two"),
        (nn.Sequential(nn.ReLU(), nn.Linear(5, 4)), r"expected a linear layer first, got layer '0' \(ReLU\)"),
        (nn.Sequential(nn.Linear(5, 4), nn.ReLU()), "expected a linear layer last, got a ReLU"),
        (nn.Sequential(nn.Flatten()), "expected at least one linear layer, got none"),
        (
            nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(3, 1)),
            r"take the 4 values of the layer before it, got .*\(1, 3\)",
        ),
        (Ridge(), "expected MLPClassifier or MLPRegressor, alone or last in a pipeline, got Ridge; hold it as fitted"),
        ("ridge", "expected a torch module of Linear and ReLU layers, got str"),
    ],
)
def test_other_networks_are_refused_by_layer(module: Any, sentence: str) -> None:
    with refused(sentence):
        Weights.of(module)


def test_a_state_dict_is_read_in_the_order_of_its_numbers() -> None:
    module = mlp([5, *[4] * 12, 2]).double()
    shuffled = dict(sorted(module.state_dict().items(), reverse=True))
    np.testing.assert_allclose(
        Weights(local.layers(shuffled)).predict(X), module(torch.as_tensor(X)).detach().numpy(), atol=1e-12
    )


def test_a_layer_without_a_number_comes_last() -> None:
    found = local.layers(
        {"head.weight": np.ones((1, 4)), "body.1.weight": np.ones((4, 4)), "body.0.weight": np.ones((4, 2))}
    )
    assert [W.shape for W, _ in found] == [(4, 2), (4, 4), (1, 4)]
    assert all(not b.any() for _, b in found)


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ({"a.weight": np.ones((2, 2)), "b.weight": np.ones((2, 2))}, "cannot tell which layer comes first, 'b' or another"),
        ({"0.weight": np.ones((2, 2, 3, 3))}, r"got '0.weight' of shape \(2, 2, 3, 3\)"),
        ({"0.running_mean": np.ones(2)}, "expected '0.running_var' beside its running_mean"),
        ({"0.bias": np.ones(2)}, "expected '0.weight' beside '0.bias', got the bias alone"),
        ({"0.weight": np.ones((3, 2)), "2.weight": np.ones((1, 4))}, "expected 2 to take the 3 values"),
        ({}, "expected at least one linear layer, got none"),
    ],
)
def test_other_state_dicts_are_refused_by_key(state: dict[str, Any], sentence: str) -> None:
    with refused(sentence):
        local.layers(state)


# --- reading a fitted learner

SECRET = 0.31337


def every_number(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [one for part in value.values() for one in every_number(part)]
    if isinstance(value, Kernel):
        return [one for part in fields(value) for one in every_number(getattr(value, part.name))]
    if value is None or isinstance(value, str):
        return []
    return [float(one) for one in np.ravel(value)]


@pytest.mark.parametrize(
    "estimator",
    [
        Ridge(SECRET),
        Ridge(SECRET, solver="lsqr"),
        RidgeCV(alphas=[SECRET]),
        Lasso(SECRET),
        LassoCV(alphas=(SECRET,)),
        ElasticNet(alpha=SECRET, l1_ratio=SECRET / 2),
        ElasticNetCV(alphas=(SECRET,), l1_ratio=[SECRET / 2]),
        KernelRidge(alpha=SECRET, kernel="rbf"),
    ],
)
def test_a_fitted_learner_holds_none_of_its_hyperparameters(estimator: Any) -> None:
    fitted = Fitted.of(estimator.fit(X, Y))
    numbers = [one for part in fields(fitted) for one in every_number(getattr(fitted, part.name))]
    assert numbers
    assert not {SECRET, SECRET / 2} & set(numbers)
    assert not {"alpha", "alphas", "l1_ratio", "l1_ratios"} & set(fitted.settings)
    assert "alpha" not in vars(fitted)


@pytest.mark.parametrize(
    ("estimator", "learner", "known"),
    [
        (Ridge(SECRET, solver="svd"), "ridge", {"solver": "svd", "fit_intercept": True, "positive": False}),
        (RidgeCV(alphas=[SECRET]), "ridge", {"fit_intercept": True}),
        (Lasso(SECRET, tol=1e-9), "lasso", {"tol": 1e-9, "selection": "cyclic"}),
        (LassoCV(alphas=(SECRET,)), "lasso", {"max_iter": 1000}),
        (ElasticNet(alpha=SECRET), "elastic_net", {"positive": False}),
        (ElasticNetCV(alphas=(SECRET,)), "elastic_net", {"selection": "cyclic"}),
    ],
)
def test_a_linear_learner_gives_its_coefficients_and_settings(estimator: Any, learner: str, known: dict[str, Any]) -> None:
    fitted = Fitted.of(estimator.fit(X, Y))
    assert fitted.learner == learner
    assert fitted.coef is not None
    assert fitted.intercept is not None
    np.testing.assert_array_equal(fitted.coef, estimator.coef_)
    np.testing.assert_array_equal(fitted.intercept, estimator.intercept_)
    assert fitted.kernel is None
    assert fitted.dual_coef is None
    assert known.items() <= fitted.settings.items()


def test_without_an_intercept_there_is_none() -> None:
    assert Fitted.of(Ridge(fit_intercept=False).fit(X, Y)).intercept is None
    assert Fitted.of(KernelRidge().fit(X, Y)).intercept is None


def test_several_targets_keep_their_shapes() -> None:
    both = np.column_stack([Y, -Y])
    primal = Fitted.of(Ridge().fit(X, both)).coef
    duals = [Fitted.of(KernelRidge().fit(X, target)).dual_coef for target in (both, Y)]
    assert [None if found is None else found.shape for found in (primal, *duals)] == [(2, 5), (60, 2), (60,)]


@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian", "poly", "polynomial", "sigmoid", "cosine"])
@pytest.mark.parametrize("gamma", [None, 0.2])
def test_a_kernel_is_the_one_the_model_used(name: str, gamma: float | None) -> None:
    model = KernelRidge(50, kernel=name, gamma=gamma, degree=2, coef0=0.5).fit(X, Y)
    kernel, dual = Fitted.of(model).kernel, Fitted.of(model).dual_coef
    assert kernel is not None
    K = pairwise_kernels(
        X, metric=kernel.name, filter_params=True, gamma=kernel.gamma, degree=kernel.degree, coef0=kernel.coef0
    )
    np.testing.assert_allclose(K @ dual, model.predict(X), rtol=1e-10)
    if name == "rbf":
        assert kernel.gamma == (gamma or 1 / 5)


def test_kernels_that_cannot_be_written_down_are_refused() -> None:
    with refused("expected a kernel by name, got a function"):
        Fitted.of(KernelRidge(kernel=lambda a, b: float(a @ b)).fit(X, Y))
    with refused("got 'precomputed'"):
        Fitted.of(KernelRidge(kernel="precomputed").fit(X @ X.T, Y))


def test_unfitted_and_unsupported_learners_are_refused() -> None:
    for estimator in (Ridge(), KernelRidge(), LassoCV()):
        with refused("call fit first"):
            Fitted.of(estimator)
        with refused("call fit first"):
            Hyperparameters.of(estimator)
    with refused("Ridge, RidgeCV, .*Lasso, .*KernelRidge, .*got MultiTaskLasso"):
        Fitted.of(MultiTaskLasso())


@pytest.mark.parametrize(
    ("estimator", "told"),
    [
        (Ridge(SECRET), {"alpha": SECRET}),
        (Ridge(np.full(2, SECRET)), {"alpha": SECRET}),
        (RidgeCV(alphas=[SECRET]), {"alpha": SECRET}),
        (Lasso(SECRET), {"alpha": SECRET}),
        (LassoCV(alphas=(SECRET,)), {"alpha": SECRET}),
        (ElasticNet(alpha=SECRET, l1_ratio=0.7), {"alpha": SECRET, "l1_ratio": 0.7}),
        (ElasticNetCV(alphas=(SECRET,), l1_ratio=[0.7]), {"alpha": SECRET, "l1_ratio": 0.7}),
        (KernelRidge(alpha=SECRET), {"alpha": SECRET}),
    ],
)
def test_the_truth_is_what_the_estimator_was_told(estimator: Any, told: dict[str, float]) -> None:
    several = isinstance(estimator, Ridge) and np.ndim(estimator.alpha)
    estimator.fit(X, np.column_stack([Y, -Y]) if several else Y)
    assert Hyperparameters.of(estimator).values == told


def test_one_alpha_a_target_is_refused() -> None:
    with refused("expected one alpha for the whole model, got 2 different ones"):
        Hyperparameters.of(Ridge(np.array([1.0, 2.0])).fit(X, np.column_stack([Y, -Y])))


def test_reading_the_module_imports_neither_torch_nor_scikit_learn() -> None:
    code = "import sys, divulge.targets.files; sys.exit(bool({'torch', 'sklearn', 'pandas', 'onnx'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
