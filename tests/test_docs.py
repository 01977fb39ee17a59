"""The documentation says what the program does."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from divulge import Hyperparameters, TrainingData, Weights, registry
from divulge.contract.finding import remedies

HOME = Path(__file__).parent.parent
PAGES = [HOME / "README.md", HOME / "CONTRIBUTING.md", *sorted((HOME / "docs").glob("*.md"))]

GIVEN = """
from collections.abc import Callable as _Callable
from sklearn.linear_model import Ridge as _Ridge
from torch.nn import Module as _Module
from divulge import TrainingData as _TrainingData, Weights as _Weights
from divulge.arrays import Array as _Array

X: _Array
y: _Array
X_val: _Array
y_val: _Array
X_test: _Array
y_test: _Array
images: _Array
scores: _Array
members: _Array
records: _Array
ridge: _Ridge
model: _Module
module: _Module
weights: _Weights
data: _TrainingData
f: _Callable[[_Array], _Array]
g: _Callable[[_Array], _Array]
"""
"What snippets take as given. A type without a value: who runs a snippet fills it in."


@pytest.mark.slow
def test_what_the_program_writes_into_the_documentation_is_current() -> None:
    check = [sys.executable, str(HOME / "scripts" / "make_docs.py"), "--check"]
    ran = subprocess.run(check, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


NUMBER = r"\d[\d.,]*\d|\d"
STRETCH = 45
"Lines of the longest table that a remedy quotes, with its heading."
MEASURED = [
    pytest.param(remedy.measured, id=f"{name} {number}")
    for name in (*registry.attacks(), *registry.others())
    for number, remedy in enumerate(remedies(registry.procedure(name).remedy))
    if remedy.measured
]


@pytest.mark.parametrize("said", MEASURED)
def test_what_a_remedy_was_measured_to_do_is_on_the_page_that_it_names(said: str) -> None:
    """Every number of the sentence, as it is written there, and all in one stretch of the page: a table or two."""
    claim, page = re.fullmatch(r"(.+) \((docs/\w+\.md)\)\.", said).groups()  # type: ignore[union-attr]  # no match fails
    lines = [set(re.findall(NUMBER, line)) for line in (HOME / page).read_text(encoding="utf-8").splitlines()]
    numbers = set(re.findall(NUMBER, claim))
    assert len(numbers) >= 2
    stretches = (set().union(*lines[place : place + STRETCH]) for place in range(len(lines)))
    assert any(numbers <= stretch for stretch in stretches)


def test_the_worst_leaks_have_a_remedy_that_was_measured() -> None:
    for name in ("span-reconstruction", "kkt-reconstruction", "span-membership", "margin-membership", "poisoning"):
        assert remedies(registry.procedure(name).remedy)[0].measured, name


def test_every_link_of_the_documentation_leads_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} -> {link}"


def snippets(page: Path) -> str:
    """The Python of a page from its top to its end: a later snippet may use what an earlier one made."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))


def complaints(folder: Path, codes: dict[str, str]) -> dict[str, list[str]]:
    """What mypy, as strict as with our own code, says of each piece of code."""
    for name, code in codes.items():
        (folder / f"{name}.py").write_text(f"{GIVEN}\n{code}", encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *(str(folder / f"{name}.py") for name in codes)],
        cwd=HOME,  # for the configuration, and for what `make lint` has kept of an earlier check
        env={**os.environ, "MYPYPATH": str(HOME / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    said: dict[str, list[str]] = {name: [] for name in codes}
    for line in filter(None, (ran.stdout + ran.stderr).splitlines()):
        said.setdefault(Path(line.split(":")[0]).stem, []).append(line)
    return said


@pytest.mark.slow
def test_every_snippet_of_the_documentation_passes_a_strict_type_checker(tmp_path: Path) -> None:
    codes = {f"{page.stem.lower().replace('-', '_')}_page": snippets(page) for page in PAGES if snippets(page)}
    assert {"readme_page", "contributing_page"} < set(codes)
    misspelt = "from divulge import Fitted\nFitted.off(ridge)"
    said = complaints(tmp_path, {**codes, "misspelt": misspelt})
    assert '"type[Fitted]" has no attribute "off"' in said.pop("misspelt")[0]
    assert not any(said.values()), "\n".join(line for lines in said.values() for line in lines)


def run(page: Path, folder: Path, patch: pytest.MonkeyPatch, **given: Any) -> ModuleType:  # what the page takes as given
    """Import the snippets of a page as a module that has what they take as given."""
    path = folder / f"{page.stem.lower()}_page.py"
    path.write_text(snippets(page), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update(given)
    patch.setitem(sys.modules, path.stem, module)  # where options look for the sentences under them
    spec.loader.exec_module(module)
    return module


def test_the_first_lines_of_python_in_the_readme_do_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=60)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.ReLU(), torch.nn.Linear(6, 1)).double()
    did = vars(run(HOME / "README.md", tmp_path, monkeypatch, X=X, y=y, ridge=Ridge(0.31).fit(X, y), module=network))
    loot = {type(value.loot): value.loot for value in did.values() if hasattr(value, "loot")}
    assert loot[Hyperparameters].values == pytest.approx({"alpha": 0.31})
    assert [W.shape for W, _ in loot[Weights].layers] == [(6, 5), (1, 6)]
    assert "alpha" in (tmp_path / "runs" / "mine" / "report.html").read_text(encoding="utf-8")


def test_the_attack_that_contributors_start_from_conforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    rng = np.random.default_rng(0)
    images = rng.normal(size=(3, 4))
    weights = Weights(((rng.normal(size=(2, 4)), np.zeros(2)), (rng.normal(size=(1, 2)), np.zeros(1))))
    page = run(HOME / "CONTRIBUTING.md", tmp_path, monkeypatch, images=images, weights=weights, data=TrainingData(images))
    page.test_it_conforms()
