"""Every learner of the paper, fitted as people fit it, gives up its hyperparameters in its own units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler, TargetEncoder, scale
from sklearn.svm import SVC, SVR, LinearSVC

from divulge import Fitted, Hyperparameters, TrainingData, Verdict, datasets
from divulge.arrays import Array
from divulge.attacks import HyperparameterStealing
from divulge.contract import Finding
from divulge.errors import BadInput

TIGHT: dict[str, Any] = {"tol": 1e-12, "max_iter": 100_000}
ODD = 0.7318291  # no round number: it cannot be guessed


def numbers(name: str = "diabetes") -> tuple[Array, Array]:
    loaded = datasets.load(name, standardised=True)
    return loaded.X, np.asarray(loaded.y, float)


def labels(name: str = "breast-cancer") -> tuple[Array, Array]:
    loaded = datasets.load(name, standardised=True)
    return loaded.X, loaded.y


def named(case: Any) -> str:
    """As it prints itself; a function, whose address differs between processes, by its name."""
    return getattr(case, "__name__", None) or str(case)


def steal(estimator: Any, X: Array, y: Array, weight: Array | None = None, **options: Any) -> Finding[Any]:
    truth = {"hyperparameters": Hyperparameters.of(estimator)}
    return HyperparameterStealing(**options)(Fitted.of(estimator), TrainingData(X, y, weight), truth=truth)


def worst(finding: Finding[Any]) -> float:
    return max(score.value for name, score in finding.scores.items() if name.startswith("relative error"))


def holds(finding: Finding[Any], estimator: Any) -> bool:
    assert finding.loot is not None
    known = Hyperparameters.of(estimator).values
    return all(low <= known[name] <= high for name, (low, high) in finding.loot.intervals.items())


REGRESSORS = [
    *(Ridge(ODD, solver=solver, random_state=0) for solver in ("svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga")),
    Ridge(ODD, positive=True),
    Lasso(ODD),
    ElasticNet(ODD, l1_ratio=0.37),
    KernelRidge(alpha=ODD, kernel="rbf"),
    SVR(C=ODD),
    SVR(C=ODD, kernel="linear", epsilon=3.3),
    HuberRegressor(alpha=0.5),
    PoissonRegressor(alpha=ODD),
    PoissonRegressor(alpha=ODD, solver="newton-cholesky"),
    SGDRegressor(alpha=ODD, random_state=0),
    SGDRegressor(alpha=0.01, penalty="l1", random_state=0),
]
CLASSIFIERS = [
    RidgeClassifier(ODD),
    *(
        LogisticRegression(C=ODD, solver=solver, random_state=0)
        for solver in ("newton-cg", "newton-cholesky", "liblinear", "sag", "saga")
    ),
    LogisticRegression(C=0.7),
    LogisticRegression(C=ODD, l1_ratio=1, solver="liblinear", random_state=0),
    LogisticRegression(C=ODD, l1_ratio=1, solver="saga", random_state=0),
    LogisticRegression(C=0.5, l1_ratio=0.3, solver="saga", random_state=0),
    LinearSVC(C=0.07),
    LinearSVC(C=0.07, penalty="l1", random_state=0),
    LinearSVC(C=0.07, loss="hinge", random_state=0),
    SVC(C=ODD),
    SVC(C=ODD, kernel="linear"),
    SVC(C=ODD, kernel="poly", degree=2),
    SGDClassifier(alpha=0.01, random_state=0),
    SGDClassifier(alpha=ODD / 10, loss="log_loss", random_state=0),
    SGDClassifier(alpha=0.01, loss="modified_huber", penalty="elasticnet", l1_ratio=0.2, random_state=0),
    SGDClassifier(alpha=0.01, loss="squared_hinge", random_state=0),
]
MULTICLASS = [
    RidgeClassifier(ODD),
    LogisticRegression(C=0.7),
    LogisticRegression(C=ODD, solver="newton-cholesky"),
    OneVsRestClassifier(LogisticRegression(C=ODD, solver="liblinear")),
    LinearSVC(C=0.07),
    SVC(C=ODD),
    SGDClassifier(alpha=0.01, random_state=0),
    MLPClassifier(hidden_layer_sizes=(5,), alpha=0.3, solver="lbfgs", random_state=0, max_iter=2000),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "data"),
    [(one, numbers) for one in REGRESSORS]
    + [(one, labels) for one in CLASSIFIERS]
    + [(one, lambda: labels("iris")) for one in MULTICLASS],
    ids=lambda one: str(one).replace(" ", "").replace("\n", "") if hasattr(one, "fit") else "",
)
def test_at_its_default_tolerance_a_learner_gives_up_its_hyperparameters(
    estimator: Any, data: Callable[[], tuple[Array, Array]]
) -> None:
    X, y = data()
    estimator.fit(X, y)
    finding = steal(estimator, X, y)
    assert finding.verdict is Verdict.LEAK, finding.summary
    assert worst(finding) <= 1e-6
    assert holds(finding, estimator)


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (LogisticRegression(C=ODD, solver="newton-cg", **TIGHT), labels),
        (LogisticRegression(C=ODD, solver="newton-cholesky", **TIGHT), lambda: labels("iris")),
        (PoissonRegressor(alpha=ODD, solver="newton-cholesky", **TIGHT), numbers),
        (LinearSVC(C=0.07, **TIGHT), labels),
        (LinearSVC(C=0.01, loss="hinge", tol=1e-10, max_iter=10**6, random_state=0), labels),
        (SVC(C=ODD, tol=1e-10), labels),
    ],
    ids=named,
)
def test_converged_learners_give_up_theirs_without_training_again(
    estimator: Any, data: Callable[[], tuple[Array, Array]]
) -> None:
    X, y = data()
    finding = steal(estimator.fit(X, y), X, y, trainings=0)
    assert finding.verdict is Verdict.LEAK, finding.summary
    assert worst(finding) <= 1e-6
    assert holds(finding, estimator)


@pytest.mark.parametrize(
    "scaler", [StandardScaler(), MinMaxScaler((-1, 2)), MaxAbsScaler(), RobustScaler(), PCA(6, whiten=True)], ids=named
)
def test_the_attacker_who_holds_a_pipeline_prepares_the_data_as_it_does(scaler: Any) -> None:
    loaded = datasets.load("diabetes")
    pipeline = make_pipeline(scaler, Ridge(ODD)).fit(loaded.X, loaded.y)
    finding = steal(pipeline, loaded.X, loaded.y)
    assert finding.verdict is Verdict.LEAK
    assert worst(finding) <= 1e-9


def test_a_pipeline_in_a_search_is_unwrapped() -> None:
    X, y = labels()
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.3, 0.7]}, cv=2).fit(X, y)
    assert worst(steal(search, X, y)) == 0


def test_a_pipeline_with_a_step_that_cannot_be_repeated_is_refused_with_a_remedy() -> None:
    X, y = numbers()
    with pytest.raises(BadInput, match=r"got TargetEncoder, which .* by cross-fitting.*; fit on the data as prepared"):
        Fitted.of(make_pipeline(TargetEncoder(target_type="continuous"), Ridge()).fit(np.round(X), y))


@pytest.mark.parametrize("weights", ["balanced", {0: 2.0, 1: 0.5}])
@pytest.mark.parametrize("make", [RidgeClassifier, LogisticRegression, LinearSVC, SVC], ids=lambda one: one.__name__)
def test_class_weights_are_taken_into_account(make: Any, weights: Any) -> None:
    X, y = labels()
    estimator = make(class_weight=weights).fit(X, y)
    finding = steal(estimator, X, y)
    assert finding.verdict is Verdict.LEAK
    assert worst(finding) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [RidgeClassifier(0.3), LogisticRegression(C=0.3), LinearSVC(C=0.03), SVC(C=0.3), SVC(C=0.3, class_weight={0: 3})],
    ids=named,
)
def test_sample_weights_of_classifiers_are_taken_into_account(estimator: Any) -> None:
    X, y = labels()
    weight = np.random.default_rng(0).uniform(0.5, 3, size=len(X))
    estimator.fit(X, y, sample_weight=weight)
    assert worst(steal(estimator, X, y, weight)) <= 1e-9
    assert steal(estimator, X, y).verdict is not Verdict.LEAK or worst(steal(estimator, X, y)) > 1e-3


@pytest.mark.parametrize("estimator", [LogisticRegression(C=0.3), SVC(C=0.3)], ids=named)
def test_points_that_weigh_nothing_change_nothing(estimator: Any) -> None:
    X, y = labels()
    weight = np.random.default_rng(0).uniform(0.5, 3, size=len(X))
    weight[::7] = 0
    estimator.fit(X, y, sample_weight=weight)
    assert worst(steal(estimator, X, y, weight)) <= 1e-9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_models_tuned_by_cross_validation_give_up_what_was_chosen() -> None:
    X, y = labels()
    for estimator in (LogisticRegressionCV(Cs=[0.01, 0.3], cv=3), RidgeClassifierCV([0.1, 3.0])):
        finding = steal(estimator.fit(X, y), X, y)
        assert finding.verdict is Verdict.LEAK
        assert worst(finding) <= 1e-3
        assert holds(finding, estimator)


@pytest.mark.parametrize("alpha", [0.02, 0.3, 47.1])
@pytest.mark.parametrize("free", [True, False])
def test_intervals_of_hubers_regression_hold_where_only_its_equations_speak(alpha: float, free: bool) -> None:
    X, y = numbers()
    estimator = HuberRegressor(alpha=alpha, epsilon=1.5, fit_intercept=free, max_iter=1000).fit(X, y)
    finding = steal(estimator, X, y, trainings=0)
    assert finding.loot is None or holds(finding, estimator)


@pytest.mark.parametrize("estimator", [LinearSVC(C=0.3), LogisticRegression(C=0.3, solver="liblinear")], ids=named)
def test_a_training_that_hardly_depends_on_its_penalty_tells_it_all_the_same(estimator: Any) -> None:
    """C = 0.3 and C = 10 agree in eight digits here; in which way the others change says where to look."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 1] + 0.5 * rng.normal(size=80) > 0).astype(int)
    X = X * [1e5, 1] + [1e6, 0]
    finding = steal(estimator.fit(X, y), X, y)
    assert finding.verdict is Verdict.LEAK
    assert worst(finding) == 0
    assert holds(finding, estimator)


def test_weights_that_are_equal_by_symmetry_are_not_taken_for_the_bound() -> None:
    X = np.array([[0.0, 0], [1, 1], [0, 1], [1, 0]])
    y = np.array([0, 0, 1, 1])
    finding = steal(SVC(C=100.0).fit(X, y), X, y)
    assert finding.verdict is Verdict.NOT_APPLICABLE


def test_a_margin_with_nothing_inside_gives_no_number() -> None:
    for seed in range(20, 26):
        X = np.random.default_rng(seed).normal(size=(2, 4))
        y = np.array([0, 1])
        finding = steal(LinearSVC(C=0.3, loss="hinge", random_state=1).fit(X, y), X, y, trainings=0)
        assert finding.loot is None or worst(finding) <= 1e-6


def test_wrappers_around_other_learners_are_refused_with_a_remedy() -> None:
    X, y = labels("iris")
    with pytest.raises(BadInput, match=r"got SVC; audit its estimators_ one at a time"):
        Fitted.of(OneVsRestClassifier(SVC()).fit(X, y))


def test_class_weights_that_differ_by_output_are_refused_with_the_reason() -> None:
    X, y = labels("iris")
    finding = steal(LinearSVC(class_weight="balanced").fit(X, y), X, y)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "differ from output to output" in finding.summary


def test_labels_may_be_names() -> None:
    X, y = labels()
    named = np.where(y == 1, "benign", "malignant")
    assert worst(steal(LogisticRegression(C=0.3).fit(X, named), X, named)) == 0


@pytest.mark.parametrize(
    ("estimator", "data"),
    [
        (KernelRidge(alpha=ODD, kernel="rbf", gamma=0.0123), numbers),
        (KernelRidge(alpha=30.0, kernel="laplacian", gamma=0.05), numbers),
        (SVC(C=ODD, gamma=0.0123), labels),
        (SVC(), lambda: labels("iris")),
        (SVR(C=20.0, gamma=0.07, epsilon=3.0), numbers),
    ],
    ids=named,
)
def test_the_bandwidth_of_an_unknown_kernel_is_found_along_with_the_rest(
    estimator: Any, data: Callable[[], tuple[Array, Array]]
) -> None:
    X, y = data()
    truth = {"hyperparameters": Hyperparameters.of(estimator.fit(X, y))}
    finding = HyperparameterStealing()(Fitted.of(estimator).without_gamma(), TrainingData(X, y), truth=truth)
    assert finding.verdict is Verdict.LEAK
    assert finding.scores["relative error of gamma"].value <= 1e-6
    assert worst(finding) <= 1e-6


def test_a_solver_whose_random_numbers_are_unknown_is_not_replayed() -> None:
    X, y = labels()
    finding = steal(SGDClassifier(alpha=0.01).fit(X, y), X, y)
    assert finding.verdict is not Verdict.LEAK


def test_no_support_vector_at_its_bound_leaves_the_penalty_open() -> None:
    X, y = labels()
    finding = steal(SVC(C=1e4).fit(X, y), X, y)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "No support vector of the svc model is at the bound" in finding.summary


def test_columns_that_depend_on_each_other_are_no_evidence_for_a_penalty() -> None:
    """One-hot columns beside an intercept: of thirteen equations twelve are 0 = 0 for any model, and C would be 1.404."""
    rng = np.random.default_rng(247)
    n = int(rng.integers(60, 400))
    numbers = rng.normal(size=(n, int(rng.integers(1, 5))))
    kinds = [np.eye(k)[rng.integers(0, k, n)] for k in rng.integers(2, 6, int(rng.integers(1, 4)))]
    X = scale(np.column_stack([numbers, *kinds]))
    y = (X @ rng.normal(size=(X.shape[1], 4)) + rng.gumbel(size=(n, 4))).argmax(axis=1)
    with pytest.warns(ConvergenceWarning):
        estimator = LinearSVC(C=10.0, loss="hinge", random_state=0, max_iter=20_000).fit(X, y)
    assert steal(estimator, X, y, trainings=0).loot is None


@pytest.mark.parametrize("C", [0.3, 1.0, 10.0])
def test_a_margin_that_hides_the_penalty_leaves_an_interval_that_holds(C: float) -> None:
    widths = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, 2))
        y = (X[:, 0] + 0.8 * rng.normal(size=60) > 0).astype(int)
        estimator = LinearSVC(C=C, loss="hinge", tol=1e-10, max_iter=10**6, random_state=0).fit(X, y)
        finding = steal(estimator, X, y, trainings=0)
        assert finding.verdict is Verdict.NONE_FOUND
        low, high = (float(end) for end in finding.power.split("between ")[1].split(" can")[0].split(" and "))
        assert low <= 1.005 * C
        assert high >= 0.995 * C
        widths.append(high / low)
    assert min(widths) < 20


OTHERS = [RidgeClassifier(), LogisticRegression(), LinearSVC(), SVC(), SVC(kernel="linear"), SGDClassifier(random_state=0)]


@pytest.mark.slow
@pytest.mark.parametrize("estimator", OTHERS, ids=named)
def test_a_classifier_of_other_data_is_not_given_a_number(estimator: Any) -> None:
    X, y = labels()
    estimator.fit(X[:-1], y[:-1])
    for data in ((X[:-1], 1 - y[:-1]), (1.1 * X[:-1], y[:-1]), (X[:-60], y[:-60]), (X[100:], y[100:])):
        if isinstance(estimator, SVC) and estimator.support_.max() >= len(data[0]):
            with pytest.raises(BadInput, match="pass the data the model was fitted on"):
                HyperparameterStealing()(Fitted.of(estimator), TrainingData(*data))
            continue
        finding = HyperparameterStealing(trainings=6)(Fitted.of(estimator), TrainingData(*data))
        # Rows without a support vector add nothing to the sums, so C stands without them.
        assert finding.loot is None or (isinstance(estimator, SVC) and holds(finding, estimator)), finding.summary
    # One row too many is less than the tolerance of some solvers: then the interval says so.
    finding = HyperparameterStealing(trainings=6)(Fitted.of(estimator), TrainingData(X, y))
    assert finding.loot is None or holds(finding, estimator)


def test_unsupported_estimators_name_the_supported_ones() -> None:
    from sklearn.tree import DecisionTreeClassifier

    X, y = labels()
    with pytest.raises(BadInput, match=r"Ridge.*HuberRegressor.*got DecisionTreeClassifier"):
        Fitted.of(DecisionTreeClassifier().fit(X, y))
    for unfitted in (LogisticRegression(), MLPClassifier(), SVC(), make_pipeline(StandardScaler(), Ridge())):
        with pytest.raises(BadInput, match="learned nothing; call fit first"):
            Fitted.of(unfitted)


def test_data_of_another_width_is_refused() -> None:
    X, y = labels()
    for estimator in (LogisticRegression(), SVC(), make_pipeline(StandardScaler(), RidgeClassifier())):
        fitted = Fitted.of(estimator.fit(X, y))
        with pytest.raises(BadInput, match=r"(got 7|the 7 features, got 30); pass the data"):
            HyperparameterStealing()(fitted, TrainingData(X[:, :7], y))


def test_without_a_penalty_there_is_nothing_to_steal() -> None:
    X, y = labels()
    finding = steal(SGDClassifier(penalty=None, random_state=0).fit(X, y), X, y)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "without a penalty" in finding.summary


def test_the_finding_says_which_estimator_won_and_what_the_others_said() -> None:
    X, y = labels()
    finding = steal(LogisticRegression(C=0.7).fit(X, y), X, y)
    assert "training again with this value gives the same parameters bit for bit" in finding.summary
    assert [note.split(":")[0] for note in finding.notes] == ["stationarity", "replay"]


def test_a_model_that_did_not_converge_says_so_when_it_may_not_be_trained_again() -> None:
    X, y = labels()
    with pytest.warns(ConvergenceWarning):
        estimator = LogisticRegression(C=100.0, max_iter=3).fit(X, y)
    finding = steal(estimator, X, y, trainings=0)
    assert finding.verdict is not Verdict.LEAK
    assert worst(steal(estimator, X, y)) == 0
