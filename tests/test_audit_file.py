"""AUDIT.toml: what it says is what is held, and every mistake is one sentence that names the place."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from divulge import Verdict, audit_file, datasets
from divulge.attacks import GradientExtraction
from divulge.contract import Access, Array, Candidates, Fitted, Gradients, Hyperparameters, TrainingData
from divulge.errors import BadInput

EXAMPLES = Path(__file__).parent.parent / "docs" / "examples"

A = TypeVar("A", bound=Access)

HELD = """
[held.data]
kind = "training_data"
file = "data.npz"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", X=np.eye(3), y=np.arange(3))
    np.savez(tmp_path / "coef.npz", coef=np.ones(3))
    return tmp_path


def read(folder: Path, text: str) -> audit_file.AuditFile:
    (folder / "audit.toml").write_text(text)
    return audit_file.read(folder / "audit.toml")


def sure(kind: type[A], value: object) -> A:
    """The same value, known to be of a kind."""
    assert isinstance(value, kind)
    return value


def truth_about(described: audit_file.AuditFile, name: str) -> Mapping[str, Access]:
    """What the file says is true of one thing that is held."""
    known = described.truth[name]
    assert isinstance(known, Mapping)
    return known


def test_everything_in_the_file_reaches_the_audit(folder: Path) -> None:
    described = read(
        folder,
        """
title = "Mine"
out = "kept/here"
seed = 4
workers = 2
attacks = ["hyperparameters"]
[budget]
seconds = 60
queries = 100
[held.model]
kind = "fitted"
file = "coef.npz"
learner = "ridge"
[held.data]
kind = "training_data"
file = "data.npz"
[held.points]
kind = "candidates"
dataset = "diabetes"
samples = 20
[truth.training_data]
file = "data.npz"
[truth.model.hyperparameters]
alpha = 2
[options.hyperparameters]
confidence = 0.9
""",
    )
    assert (described.title, described.out, described.seed, described.workers) == ("Mine", folder / "kept/here", 4, 2)
    assert described.attacks == ("hyperparameters",)
    assert described.budget is not None
    assert (described.budget.seconds, described.budget.queries) == (60, 100)
    assert isinstance(described.held["model"], Fitted)
    assert isinstance(described.held["data"], TrainingData)
    assert len(sure(Candidates, described.held["points"]).X) == 20
    assert described.sources == {"model": "coef.npz", "data": "data.npz", "points": "diabetes"}
    assert isinstance(described.truth["training_data"], TrainingData)
    assert sure(Hyperparameters, truth_about(described, "model")["hyperparameters"]).values == {"alpha": 2.0}
    assert described.options == {"hyperparameters": {"confidence": 0.9}}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("held = 3", "expected dict for 'held'"),
        ("", r"at least one \[held.NAME\] section"),
        (HELD + "[budgets]\nseconds = 1", "unknown key 'budgets'; did you mean 'budget'"),
        (HELD + "[budget]\nsecond = 1", "unknown key 'second'; did you mean 'seconds'"),
        (HELD + "[budget]\nseconds = 0", "positive budget of seconds"),
        (HELD.replace("training_data", "trainingdata"), r"\[held.data\] kind: unknown key 'trainingdata'; did you mean"),
        (HELD.replace("kind", "knd"), r"\[held.data\]: expected kind"),
        (HELD.replace('file = "data.npz"', ""), "expected one of file, url, dataset, got none"),
        (HELD + 'url = "http://127.0.0.1:1"', "got file and url; give exactly one"),
        (HELD.replace('"data.npz"', "3"), "expected text for 'file'"),
        (HELD.replace("data.npz", "date.npz"), r"\[held.data\]: .*date.npz.*found no such file"),
        (HELD + 'targt = "y"', "unknown key 'targt'; did you mean 'target'"),
        ("seed = 1.5" + HELD, "expected int for 'seed', got 1.5"),
        ('attacks = "all"' + HELD, "expected a list of names for 'attacks'"),
        (HELD + "[truth.hyperparameter]\nalpha = 1", "unknown key 'hyperparameter'; did you mean 'hyperparameters'"),
        (HELD + "[truth.data.hyperparameter]\nalpha = 1", r"\[truth.data\]: unknown key 'hyperparameter'"),
        (HELD + '[truth.hyperparameters]\nalpha = "big"', "finite number for hyperparameter 'alpha'"),
        ("seed = ", "cannot read .*audit.toml"),
        ('out = " "' + HELD, "name of a run folder for 'out'"),
        ("defend = 3" + HELD, r"\[\[defend\]\]: expected a defence such as \{ name = .*, got 3; write rounding=3"),
        ('defend = ["rouding=3"]' + HELD, r"\[\[defend\]\]: defence: unknown key 'rouding'; did you mean 'rounding'"),
        (HELD + "[truth]\ndata = 3", r"expected a section \[truth.data.KIND\], got data = 3"),
        (HELD.replace('file = "data.npz"', 'dataset = "diabetes"\nname = "x"'), "unknown key 'name'"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_remedy(folder: Path, text: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        read(folder, text)


def test_a_missing_audit_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="found none"):
        audit_file.read(tmp_path / "none.toml")


def test_a_command_line_source_takes_the_same_options(folder: Path) -> None:
    (folder / "data.csv").write_text("a,b,label\n1,2,0\n3,4,1\n")
    data = sure(TrainingData, audit_file.open_source("training_data", f"{folder}/data.csv#target=label"))
    assert data.X.tolist() == [[1, 2], [3, 4]]
    assert data.y is not None
    assert data.y.tolist() == [0, 1]
    (folder / "years.csv").write_text("a,2020\n1,2\n3,4\n")
    years = sure(TrainingData, audit_file.open_source("training_data", f"{folder}/years.csv#target=2020"))
    assert years.y is not None
    assert years.y.tolist() == [2, 4]
    with pytest.raises(BadInput, match="write FILE#option=value"):
        audit_file.open_source("training_data", f"{folder}/data.csv#target")


GUARDED = """
[held.api]
kind = "gradients"
file = "network.safetensors"
defence = { name = "rounding", decimals = 2 }
"""


def service(folder: Path, text: str) -> Gradients:
    """The explanation service that an audit file describes."""
    return sure(Gradients, read(folder, text).held["api"])


def test_an_owner_can_put_a_defence_before_a_model(tmp_path: Path) -> None:
    X = make_files(tmp_path)
    raw = service(tmp_path, GUARDED.replace("defence", "#"))
    guarded = service(tmp_path, GUARDED)
    assert np.array_equal(guarded.gradient(X), np.round(raw.gradient(X), 2))
    assert np.array_equal(guarded.value(X), np.round(raw.value(X), 2))
    assert guarded.identity != raw.identity
    assert guarded.identity == service(tmp_path, GUARDED).identity


def test_defences_can_stand_behind_each_other(tmp_path: Path) -> None:
    X = make_files(tmp_path)
    listed = '[{ name = "absolute" }, { name = "rounding", decimals = 2, of = "gradients" }]'
    both = service(tmp_path, GUARDED.replace('{ name = "rounding", decimals = 2 }', listed))
    raw = service(tmp_path, GUARDED.replace("defence", "#"))
    assert np.array_equal(both.gradient(X), np.round(np.abs(raw.gradient(X)), 2))


def test_a_defence_can_be_named_on_the_command_line(tmp_path: Path) -> None:
    make_files(tmp_path)
    source = f'{tmp_path}/network.safetensors#defence={{name="rounding",decimals=2}}'
    named = sure(Gradients, audit_file.open_source("gradients", source))
    assert named.identity == service(tmp_path, GUARDED).identity


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("decimals", "decimal"), r"\[held.api\]: defence 'rounding': unknown key 'decimal'; did you mean 'decimals'"),
        (('"rounding"', '"rouding"'), "did you mean 'rounding'"),
        (("{ name", "{ nam"), "expected a defence as a table with a name"),
        (('"gradients"', '"weights"'), "a defence changes what an API answers, got Weights"),
    ],
)
def test_a_mistake_in_a_defence_is_named(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    make_files(tmp_path)
    with pytest.raises(BadInput, match=sentence):
        read(tmp_path, GUARDED.replace(*change))


def make_files(folder: Path) -> Array:
    """The files the examples name: small, but real."""
    import pandas
    import torch
    from safetensors.numpy import save_file
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from skops.io import dump

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    np.savez(folder / "train.npz", X=X, y=y, X_val=X[:5], y_val=y[:5])
    np.savez(folder / "test.npz", X=X[:9], y=y[:9])
    digits = datasets.load("mnist", samples=24, seed=0)
    np.savez(folder / "pictures.npz", X=digits.X, y=digits.y)
    np.savez(folder / "labelled.npz", X=X, y=(y > 0).astype(int))
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(price=y, count=1.0)
    frame.to_csv(folder / "train.csv", index=False)
    frame.to_parquet(folder / "train.parquet")
    pandas.DataFrame({"record": range(30), "score": y, "member": y > 0}).to_csv(folder / "lira.csv", index=False)
    np.save(folder / "points.npy", X)
    dump(Ridge().fit(X, y), folder / "ridge.skops")
    dump(make_pipeline(StandardScaler(), Ridge(alpha=3.0)), folder / "pipeline.skops")
    np.savez(folder / "coef.npz", coef=np.ones(4), intercept=np.zeros(1))
    layers = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
    state = {name: value.numpy() for name, value in layers.state_dict().items()}
    save_file(state, folder / "network.safetensors")
    save_file(state, folder / "public.safetensors")
    save_file({name: value + 0.1 * X[0].mean() for name, value in state.items()}, folder / "tuned.safetensors")
    return X


def test_hyperparameters_of_a_model_file_can_be_the_truth(tmp_path: Path) -> None:
    make_files(tmp_path)
    described = read(
        tmp_path,
        '[held.model]\nkind = "fitted"\nfile = "ridge.skops"\n[truth.model.hyperparameters]\nfile = "ridge.skops"\n',
    )
    assert sure(Hyperparameters, truth_about(described, "model")["hyperparameters"]).values == {"alpha": 1.0}


def test_a_kind_of_explanation_can_be_told_and_reaches_the_attack(tmp_path: Path) -> None:
    make_files(tmp_path)
    held = service(
        tmp_path,
        '[held.api]\nkind = "gradients"\nfile = "network.safetensors"\n'
        'explained = { kind = "integrated gradients", of = "only output", baseline = 0.0 }\n',
    )
    assert held.explanation is not None
    assert str(held.explanation) == "integrated gradients of the only output from the baseline 0"
    finding = GradientExtraction()(held)
    assert finding.verdict is Verdict.NOT_APPLICABLE
    assert "integrated gradients of the only output from the baseline 0" in finding.summary


@pytest.mark.parametrize(
    ("kind", "told", "sentence"),
    [
        ("gradients", '"gradient"', "expected a table for explained, got 'gradient'"),
        ("gradients", '{ kin = "gradient" }', "expected a table for explained"),
        ("gradients", '{ kind = "gradient", off = "x" }', "explained: unknown key 'off'; did you mean 'of'?"),
        ("gradients", '{ kind = "saliency" }', "expected an Explanation of a kind among gradient, "),
        ("predictions", '{ kind = "gradient" }', "option 'explained' is for kind gradients, got it for predictions"),
    ],
)
def test_a_kind_of_explanation_that_is_none_is_refused(tmp_path: Path, kind: str, told: str, sentence: str) -> None:
    make_files(tmp_path)
    with pytest.raises(BadInput, match=sentence):
        read(tmp_path, f'[held.api]\nkind = "{kind}"\nfile = "network.safetensors"\nexplained = {told}\n')
