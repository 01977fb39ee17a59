"""Data and models as people have them, through every door: Python, an audit file and the command line."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import skops.io
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
    normalize,
)
from sklearn.svm import SVC, LinearSVC

from divulge import Fitted, Hyperparameters, Parameters, TrainingData, Truth, Verdict, cli, storage
from divulge.attacks import AlgorithmIdentification, HyperparameterStealing
from divulge.attacks.hyperparameters.formulate import build_problem
from divulge.contract import Table
from divulge.errors import BadInput
from divulge.studies.rounded_release import RoundedRelease
from divulge.targets import files

RNG = np.random.default_rng(5)
N = 150
NUMBERS: Any = pd.DataFrame(RNG.normal(size=(N, 4)), columns=["age", "income", "rooms", "year"])
TARGET = NUMBERS.to_numpy() @ RNG.normal(size=4) + 0.3 * RNG.normal(size=N)
BINARY = TARGET > 0
THREE = np.digitize(TARGET, [-1.0, 1.0])
CITIES: Any = pd.Series(np.array(["Bonn", "Köln", "Ulm"])[THREE]).where(RNG.random(N) > 0.1)
MIXED: Any = NUMBERS.assign(city=CITIES, age=NUMBERS.age.where(RNG.random(N) > 0.1))
WORDS = np.array(["loan", "house", "train", "river", "music", "winter", "paper", "stone"])
TEXTS: Any = pd.DataFrame({"text": [" ".join(RNG.choice(WORDS, 6)) + (" good" if good else " bad") for good in BINARY]})
SPARSE: Any = scipy.sparse.random(N, 30, 0.2, random_state=3, format="csr")


def prepared() -> ColumnTransformer:
    numeric = make_pipeline(SimpleImputer(), StandardScaler())
    text = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    return ColumnTransformer([("numbers", numeric, ["age", "income"]), ("text", text, ["city"])], remainder="passthrough")


def named(y: Any, *names: str) -> Any:
    return np.array(names)[np.asarray(y, int)]


@dataclass(frozen=True)
class Case:
    model: Any
    X: Any
    y: Any
    "What the model is fitted on."


CASES = {
    "objects as labels": Case(RidgeClassifier(0.3), NUMBERS, pd.Series(named(BINARY, "no", "yes"), dtype=object)),
    "strings as labels": Case(LogisticRegression(C=0.3), NUMBERS, pd.Series(named(THREE, "a", "b", "c"), dtype="str")),
    "categories as labels": Case(RidgeClassifier(0.3), NUMBERS, pd.Series(named(THREE, "a", "b", "c"), dtype="category")),
    "true and false as labels": Case(LogisticRegression(C=0.3), NUMBERS, BINARY),
    "a column of targets": Case(Ridge(0.3), NUMBERS, TARGET.reshape(-1, 1)),
    "a column of objects": Case(Ridge(0.3), NUMBERS, pd.DataFrame({"y": TARGET}, dtype=object).astype(float)),
    "columns, gaps and text": Case(make_pipeline(prepared(), LogisticRegression(C=0.3)), MIXED, BINARY),
    "the same in a search": Case(
        GridSearchCV(make_pipeline(prepared(), Ridge()), {"ridge__alpha": [0.3, 0.7]}, cv=2), MIXED, TARGET
    ),
    "one-hot": Case(make_pipeline(OneHotEncoder(), RidgeClassifier(0.3)), MIXED[["city"]], BINARY),
    "imputed": Case(make_pipeline(SimpleImputer(), Lasso(0.03)), MIXED[["age", "income", "rooms"]], TARGET),
    "selected": Case(make_pipeline(SelectKBest(f_regression, k=3), Ridge(0.3)), NUMBERS, TARGET),
    "polynomial": Case(make_pipeline(PolynomialFeatures(2, include_bias=False), Ridge(0.3)), NUMBERS, TARGET),
    "texts": Case(make_pipeline(TfidfVectorizer(), LogisticRegression(C=0.3)), TEXTS, BINARY),
    "a sparse matrix, logistic": Case(LogisticRegression(C=0.3), SPARSE, BINARY),
    "a sparse matrix, scaled": Case(make_pipeline(MaxAbsScaler(), LogisticRegression(C=0.3)), SPARSE, THREE),
    "a sparse matrix, ridge": Case(Ridge(0.3), SPARSE, TARGET),
    "a sparse matrix, lasso": Case(Lasso(0.003), SPARSE, TARGET),
    "a sparse matrix, linear SVM": Case(LinearSVC(C=0.3), SPARSE, BINARY),
    "targets through a function": Case(
        TransformedTargetRegressor(Ridge(0.3), func=np.arcsinh, inverse_func=np.sinh), NUMBERS, TARGET
    ),
    "targets through a transformer": Case(
        make_pipeline(
            StandardScaler(), TransformedTargetRegressor(Ridge(0.3), transformer=QuantileTransformer(n_quantiles=50))
        ),
        NUMBERS,
        TARGET,
    ),
    "one against the rest": Case(OneVsRestClassifier(LogisticRegression(C=0.3)), NUMBERS, THREE),
    "calibrated, one model": Case(CalibratedClassifierCV(LogisticRegression(C=0.3), ensemble=False), NUMBERS, BINARY),
}
every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def fitted(case: Case) -> Any:
    y = case.y.to_numpy().ravel() if isinstance(case.y, pd.DataFrame) else case.y
    X = case.X["text"] if case.X is TEXTS else case.X
    return case.model.fit(X, np.ravel(y) if isinstance(case.model, Ridge) else y)


def saved(case: Case, folder: Path, table: str = "csv") -> str:
    """The data as a person keeps it; what to write after its name on the command line."""
    y = np.ravel(np.asarray(case.y))
    if case.X is SPARSE:
        scipy.sparse.save_npz(folder / "data.npz", case.X)
        np.save(folder / "y.npy", y)
        return "data.npz#target=y.npy"
    frame = case.X.assign(target=y)
    if table == "csv":
        frame.to_csv(folder / "data.csv", index=False)
    else:
        frame.to_parquet(folder / "data.parquet")
    return f"data.{table}#target=target"


def error(values: dict[str, float], model: Any) -> float:
    truth = Hyperparameters.of(model).values
    return max(abs(values[name] / true - 1) for name, true in truth.items())


@every
def test_the_hyperparameter_is_found_in_python(case: Case) -> None:
    model = fitted(case)
    finding = HyperparameterStealing()(Fitted.of(model), TrainingData(case.X, case.y))
    assert finding.verdict is Verdict.LEAK, finding.summary
    assert finding.loot is not None
    assert error(dict(finding.loot.values), model) <= 1e-8


@every
def test_the_same_from_files_and_the_command_line(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model = fitted(case)
    monkeypatch.chdir(tmp_path)
    skops.io.dump(model, "model.skops")
    data = saved(case, tmp_path)
    code = cli.main(["attack", "hyperparameters", "--fitted", "model.skops", "--training-data", data, "--json"])
    said = capfd.readouterr()
    assert code == 0, said.err
    loot = found(json.loads(said.out))
    assert error(loot, model) <= 1e-8


@pytest.mark.parametrize("name", ["columns, gaps and text", "texts", "a sparse matrix, logistic", "strings as labels"])
@pytest.mark.parametrize("table", ["csv", "parquet"])
def test_the_same_from_an_audit_file(
    name: str, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    model = fitted(case)
    monkeypatch.chdir(tmp_path)
    skops.io.dump(model, "model.skops")
    file, _, target = saved(case, tmp_path, table).partition("#target=")
    Path("audit.toml").write_text(
        f'[held.model]\nkind = "fitted"\nfile = "model.skops"\n'
        f'[held.data]\nkind = "training_data"\nfile = "{file}"\ntarget = "{target}"\n'
        f'[truth.hyperparameters]\nfile = "model.skops"\n'
    )
    for _ in range(2):  # the second time, what is kept is found again
        assert cli.main(["audit", "audit.toml", "--json"]) == 0
        assert error(found(json.loads(capfd.readouterr().out)), model) <= 1e-8


def found(said: dict[str, Any]) -> dict[str, float]:
    finding = next(one for one in said.get("findings", [said]) if one["verdict"] == "leak")
    values: dict[str, float] = finding["loot"]
    return values


OVO = OneVsOneClassifier(LogisticRegression()).fit(NUMBERS, THREE)
REFUSED = {
    "calibrated folds": (
        CalibratedClassifierCV(LogisticRegression()).fit(NUMBERS, BINARY),
        r"got a CalibratedClassifierCV.*; audit calibrated_classifiers_\[0\].estimator with the rows of its fold",
    ),
    "one against one": (
        OVO,
        r"got a OneVsOneClassifier.*; audit its estimators_\[0\] with the rows of its first two classes",
    ),
    "several targets": (
        MultiOutputRegressor(Ridge()).fit(NUMBERS, NUMBERS),
        r"got a MultiOutputRegressor.*; audit its estimators_\[0\] with y\[:, 0\]",
    ),
    "several labels": (
        MultiOutputClassifier(LogisticRegression()).fit(NUMBERS, NUMBERS > 0),
        r"got a MultiOutputClassifier.*; audit its estimators_\[0\] with y\[:, 0\]",
    ),
    "labels that come together": (
        OneVsRestClassifier(LogisticRegression()).fit(NUMBERS, np.asarray(NUMBERS > 0, int)),
        r"got several; audit its estimators_\[0\] with y\[:, 0\]",
    ),
}


@pytest.mark.parametrize(("model", "sentence"), REFUSED.values(), ids=REFUSED)
def test_a_wrapper_of_several_models_is_refused_with_what_to_pass(
    model: Any, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInput, match=sentence):
        Fitted.of(model)
    monkeypatch.chdir(tmp_path)
    skops.io.dump(model, "model.skops")
    NUMBERS.to_csv("data.csv", index=False)
    assert cli.main(["attack", "hyperparameters", "--fitted", "model.skops", "--training-data", "data.csv"]) != 0
    assert re.search(sentence, " ".join(capfd.readouterr().err.split()))


def test_what_a_refusal_says_to_pass_is_read() -> None:
    rows = np.isin(THREE, OVO.classes_[:2])
    pair = TrainingData(NUMBERS[rows], THREE[rows] == OVO.classes_[1])
    assert HyperparameterStealing()(Fitted.of(OVO.estimators_[0]), pair).verdict is Verdict.LEAK
    several = MultiOutputRegressor(Ridge(0.3)).fit(NUMBERS, NUMBERS**2)
    first = TrainingData(NUMBERS, NUMBERS.iloc[:, 0] ** 2)
    assert HyperparameterStealing()(Fitted.of(several.estimators_[0]), first).verdict is Verdict.LEAK


def test_text_and_gaps_without_a_pipeline_are_refused_by_the_name_of_their_column() -> None:
    model = Fitted.of(Ridge().fit(NUMBERS, TARGET))
    for frame, sentence in ((MIXED, "got .* in column 'city'"), (MIXED.drop(columns="city"), "got gaps in column 'age'")):
        with pytest.raises(BadInput, match=rf"{sentence} of the training points; pass the pipeline that prepares them"):
            HyperparameterStealing()(model, TrainingData(frame, TARGET))


def test_a_column_that_a_pipeline_misses_and_a_step_that_fails_are_named() -> None:
    model = Fitted.of(make_pipeline(prepared(), Ridge()).fit(MIXED, TARGET))
    with pytest.raises(BadInput, match="expected the column 'city', which the model was fitted on"):
        HyperparameterStealing()(model, TrainingData(MIXED.rename(columns={"city": "town"}), TARGET))
    with pytest.raises(BadInput, match="the step ColumnTransformer before the model cannot take this data"):
        HyperparameterStealing()(model, TrainingData(MIXED.assign(age="old"), TARGET))


def test_columns_are_found_by_name_in_any_order() -> None:
    model = make_pipeline(prepared(), Ridge(0.3)).fit(MIXED, TARGET)
    turned = TrainingData(MIXED[MIXED.columns[::-1]], TARGET)
    assert HyperparameterStealing()(Fitted.of(model), turned).verdict is Verdict.LEAK


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (pd.Series(["a", None, *["b"] * (N - 2)]), "expected a label for each of the training points, got 1 without"),
        (pd.Series(["a", 1, *["b"] * (N - 2)], dtype=object), "expected labels of one kind .* got int and str"),
        (pd.Series(pd.date_range("2020", periods=N)), "expected numbers for the training labels"),
    ],
)
def test_labels_that_say_nothing_are_refused(y: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        TrainingData(NUMBERS, y)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (SVC(), "kernels, support vectors and networks are solved on dense points, got sparse ones; pass X.toarray()"),
        (LinearSVC(loss="hinge"), "equations of hinge losses are solved on dense points, got sparse ones"),
    ],
)
def test_what_cannot_take_sparse_points_says_so(model: Any, sentence: str) -> None:
    finding = HyperparameterStealing()(Fitted.of(model.fit(SPARSE, BINARY)), TrainingData(SPARSE, BINARY))
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert sentence in finding.summary


def test_a_study_and_the_truth_do_not_take_sparse_points() -> None:
    model, data = Fitted.of(Ridge().fit(SPARSE, TARGET)), TrainingData(SPARSE, TARGET)
    finding = RoundedRelease()(model, data)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "takes dense training points, got sparse ones; pass X.toarray()" in finding.summary
    with pytest.raises(BadInput, match="truth: expected training data as a dense array"):
        Truth({"training_data": data})


def test_a_step_that_subtracts_is_refused_on_sparse_points() -> None:
    model = make_pipeline(StandardScaler(), Ridge()).fit(SPARSE.toarray(), TARGET)
    with pytest.raises(BadInput, match="expected dense points for the step 'subtract'"):
        HyperparameterStealing()(Fitted.of(model), TrainingData(SPARSE, TARGET))


def test_the_algorithm_is_named_from_sparse_points() -> None:
    model = Lasso(0.003).fit(SPARSE, TARGET)
    finding = AlgorithmIdentification()(Parameters(model.coef_, np.array([model.intercept_])), TrainingData(SPARSE, TARGET))
    assert finding.loot is not None
    assert finding.loot.learner == "lasso"
    assert any("Hinge losses are not among them" in note for note in finding.notes)
    dual = AlgorithmIdentification()(Parameters(dual_coef=np.ones(N)), TrainingData(SPARSE, TARGET))
    assert "Kernels are compared on dense points, got sparse ones" in dual.summary
    with pytest.raises(BadInput, match=r"got .* in column 'city'; pass the data as it enters the model"):
        AlgorithmIdentification()(Parameters(np.ones(5)), TrainingData(MIXED, TARGET))


def test_rounded_parameters_of_sparse_points_keep_their_interval() -> None:
    model = LogisticRegression(C=0.3, tol=1e-10, max_iter=1000).fit(SPARSE, BINARY)
    model.coef_ = np.round(model.coef_, 5)
    noises = [build_problem(Fitted.of(model), TrainingData(X, BINARY)).system.noise for X in (SPARSE, SPARSE.toarray())]
    assert noises[0] == pytest.approx(noises[1], rel=0.3)
    finding = HyperparameterStealing(trainings=0)(Fitted.of(model), TrainingData(SPARSE, BINARY))
    assert finding.loot is not None
    low, high = finding.loot.intervals["C"]
    assert low <= 0.3 <= high


def test_many_columns_of_short_texts_do_not_widen_the_interval() -> None:
    words = scipy.sparse.random(2000, 5000, 0.01, random_state=0, format="csr")
    X = normalize(words)
    y = X @ RNG.normal(size=5000) > 0
    model = LogisticRegression(C=0.37, tol=1e-8, max_iter=1000).fit(X, y)
    finding = HyperparameterStealing(trainings=0)(Fitted.of(model), TrainingData(X, y))
    assert finding.loot is not None
    low, high = finding.loot.intervals["C"]
    assert 0.37 / 1.05 <= low <= 0.37 <= high <= 0.37 * 1.05


def test_other_data_through_the_same_pipeline_is_not_claimed() -> None:
    model = make_pipeline(prepared(), LogisticRegression(C=0.3)).fit(MIXED[:75], BINARY[:75])
    finding = HyperparameterStealing()(Fitted.of(model), TrainingData(MIXED[75:], BINARY[75:]))
    assert finding.verdict is not Verdict.LEAK


def test_a_table_stays_what_it_was_when_it_is_stored() -> None:
    data = TrainingData(MIXED, BINARY)
    again = storage.unpack(*storage.pack(data))
    assert isinstance(again.X, Table)
    assert storage.fingerprint(again) == storage.fingerprint(data)
    assert storage.fingerprint(TrainingData(MIXED.assign(city="Ulm"), BINARY)) != storage.fingerprint(data)
    sparse = storage.unpack(*storage.pack(TrainingData(SPARSE, BINARY)))
    assert (sparse.X != SPARSE).nnz == 0


def damaged(**changes: Any) -> dict[str, Any]:
    parts = {"data": SPARSE.data, "indices": SPARSE.indices, "indptr": SPARSE.indptr, "shape": SPARSE.shape, "format": "csr"}
    return parts | changes


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        (damaged(indices=SPARSE.indices + 30), {}, "cannot read data.npz as a sparse matrix"),
        (damaged(indptr=SPARSE.indptr[:-1]), {}, "cannot read data.npz as a sparse matrix"),
        (damaged(shape=[-1, 30]), {}, "expected a list of whole numbers"),
        (damaged(format="coo"), {}, "expected a sparse matrix by rows in data.npz, got format 'coo'; save X.tocsr"),
        (damaged(data=np.full(SPARSE.nnz, np.nan)), {}, "expected finite numbers for the training points"),
        (damaged(data=SPARSE.data.astype(str)), {}, "expected numbers in data.npz"),
        (damaged(), {"scale": True}, "expected no option scale for data.npz, which holds a sparse matrix"),
        (damaged(), {"target": "y.npy"}, "the target of data.npz in the file"),
        (damaged(y=BINARY[1:]), {}, "expected one label for each of the 150 training points"),
    ],
)
def test_a_damaged_sparse_file_is_refused(content: Any, options: Any, sentence: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **content)
    with pytest.raises(BadInput, match=sentence):
        files.read("training_data", tmp_path / "data.npz", options)


def test_labels_may_lie_in_the_archive_of_a_sparse_matrix_and_rows_be_cut(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **damaged(y=TARGET))
    data = files.read("training_data", tmp_path / "data.npz", {"rows": [10, 60]})
    assert isinstance(data, TrainingData)
    assert data.X.shape == (50, 30)
    assert np.array_equal(np.asarray(data.y), TARGET[10:60])
