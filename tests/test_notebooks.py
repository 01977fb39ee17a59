"""Cells of real notebooks, run by a real kernel: what they show, and one display that is updated while an audit runs."""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import numpy as np
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from divulge import Fitted, TrainingData, audit, live
from divulge.contract import Finding, Record

from .test_docs import HOME, snippets

pytestmark = pytest.mark.slow  # a kernel takes seconds to start, and torch to load in it

PATIENCE = 600
"Seconds that a cell on a loaded machine may take."
BAR = """
from divulge import live
from divulge.contract import display
live.EVERY = live.PATIENCE = 0
with display.bar("<b>search</b>") as progress:
    for done in range(4):
        progress(done, 3)
"""
QUICK = """
live.PATIENCE = 1e9
with display.bar("nothing to see") as progress:
    progress(1, 2)
"""
STOPPED = """
from divulge import Fitted, TrainingData, audit
from divulge.runner import Nobody
quiet = audit([Fitted.of(ridge), TrainingData(X, y)], attacks=["hyperparameters"], observer=Nobody())
"""


@dataclass
class Ran:
    """Cells that were run, and the messages that each sent."""

    cells: list[Any]
    messages: list[Counter[str]] = field(default_factory=list)
    updates: list[list[str]] = field(default_factory=list)
    "What the display of each cell said, one after the other."

    def html(self, number: int) -> str:
        """What the last value of a cell shows."""
        (shown,) = (one for one in self.cells[number].outputs if one.output_type == "execute_result")
        return str(shown.data["text/html"])


class Client(NotebookClient):
    """Counts messages as they come: outputs alone do not tell what was updated."""

    ran: Ran

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        self.ran.messages[cell_index][msg["msg_type"]] += 1
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.ran.updates[cell_index].append(msg["content"]["data"]["text/html"])
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The example, then the snippet of the documentation, then bars."""
    home = tmp_path_factory.mktemp("jupyter")
    example = nbformat.read(HOME / "docs" / "examples" / "audit.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in example.cells)
    codes = [cell.source for cell in example.cells if cell.cell_type == "code"]
    codes += [snippets(HOME / "docs" / "notebooks.md"), BAR, QUICK, STOPPED]
    cells = [nbformat.v4.new_code_cell(code) for code in codes]  # type: ignore[no-untyped-call]
    notebook = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(home / name))
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        # Sockets that are files: free ports may be taken before the kernel has them.
        manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(home / "k"))
        client = Client(
            notebook, km=manager, timeout=PATIENCE, startup_timeout=PATIENCE, resources={"metadata": {"path": home}}
        )
        client.ran = Ran(notebook.cells, [Counter() for _ in codes], [[] for _ in codes])
        client.execute(cleanup_kc=True)
    return client.ran


def test_an_audit_in_a_cell_shows_what_leaked_and_the_stolen_pictures(ran: Ran) -> None:
    shown = ran.html(1)
    assert "gives away what it was trained on" in shown
    assert re.search(r"<b>training data</b></td><td[^>]*>critical<", shown)
    assert "<b>hyperparameters</b>" in shown
    assert shown.count("<img ") == 24
    assert shown.count('class="divulge-badge divulge-leak"') == 2


def test_findings_in_a_cell_show_verdict_scores_beside_nulls_charts_and_pictures(ran: Ran) -> None:
    for number in (2, 3):
        shown = ran.html(number)
        assert ">leak</b>" in shown
        assert ">null</th>" in shown
        assert "<svg " in shown
        assert "What helps" in shown
    assert "alpha = 0.31" in ran.html(2)
    assert "training image 1" in ran.html(3)
    assert "severity critical (confirmed by the truth)" in ran.html(3)


def test_loot_and_figures_show_themselves(ran: Ran) -> None:
    assert ran.html(4).count('<img src="data:image/png;base64,') == 12
    assert ran.html(5).count("<svg ") == 1


def test_the_snippet_of_the_documentation_shows_its_finding(ran: Ran) -> None:
    assert "alpha = 0.31" in ran.html(6)


def test_an_audit_updates_one_display_in_its_place_and_says_nothing_else(ran: Ran) -> None:
    assert ran.messages[1]["display_data"] == 1
    assert ran.messages[1]["update_display_data"] >= 2
    assert [one.output_type for one in ran.cells[1].outputs] == ["display_data", "execute_result"]
    first, last = ran.updates[1][0], ran.cells[1].outputs[0].data["text/html"]
    assert ">leak</span>" not in first
    assert last == ran.updates[1][-1]
    assert last.count(">leak</span>") == 2
    assert "Hyperparameter stealing on ridge, patients" in last


def test_no_cell_prints_or_warns(ran: Ran) -> None:
    assert not [one for cell in ran.cells for one in cell.outputs if one.output_type in ("stream", "error")]
    assert not any(messages["stream"] for messages in ran.messages)


def test_an_attack_that_takes_its_time_has_a_bar_and_a_quick_one_has_none(ran: Ran) -> None:
    assert ran.messages[7]["display_data"] == 1
    assert ran.messages[7]["update_display_data"] == 4
    assert "&lt;b&gt;search&lt;/b&gt;: 3 of 3" in ran.updates[7][3]
    assert "width:66.7%" in ran.updates[7][2]
    assert "width" not in ran.updates[7][4]  # done: a line is left
    assert ran.cells[8].outputs == []


def test_an_observer_of_ones_own_keeps_a_cell_quiet(ran: Ran) -> None:
    assert ran.cells[9].outputs == []


def test_updates_are_few_and_short_however_much_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def show(display: live.Display, html: str, text: str) -> None:
        display.shown = 1.0
        sent.append(html)

    monkeypatch.setattr(live.Display, "show", show)
    monkeypatch.setattr(live.Display, "due", property(lambda display: not display.shown))
    step: Any = SimpleNamespace(attack=SimpleNamespace(title="Search"), inputs=[SimpleNamespace(name="<i>model</i>")])
    cell = live.Cell()
    cell.starts(step)
    for done in range(10_000):
        cell.progress(done, 10_000)
        cell.sent(done, 1)
        cell.log("<script>" * 1000)
    cell.ends(step, Finding.not_applicable("<u>because</u>"), kept=True)
    assert len(sent) == 2
    assert len(sent[1]) < 60_000
    assert "9981 lines before these" in sent[1]
    assert (
        ">not applicable</span> Search on &lt;i&gt;model&lt;/i&gt; (kept from an earlier run): &lt;u&gt;because" in sent[1]
    )
    assert not re.search("<script|<i>|<u>", sent[1])


def test_outside_a_notebook_nothing_is_displayed(capfd: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    assert live.observer() is None
    audit([Fitted("ridge", coef=X[0], intercept=np.zeros(1)), TrainingData(X, X[:, 0])], attacks=["hyperparameters"])
    assert capfd.readouterr() == ("", "")


def test_a_cell_falls_back_to_text_where_a_library_is_missing_and_nothing_is_loaded_before_it() -> None:
    script = """
import sys, divulge
from divulge.contract import Curve, Finding, Record
import numpy as np
assert not {"divulge.report", "IPython", "vl_convert", "jinja2", "torch"} & set(sys.modules)
finding = Finding.none_found("nothing", power="much", figures=(Curve("c", "x", "y", {"a": (np.arange(3), np.arange(3))}),))
if sys.argv[1]: sys.modules[sys.argv[1]] = None
print(finding._repr_html_())
print("text:", finding)
"""
    said = {
        name: subprocess.run([sys.executable, "-c", script, name], capture_output=True, text=True, check=True).stdout
        for name in ("", "jinja2", "PIL", "vl_convert")
    }
    assert "<svg " in said[""]
    assert said["jinja2"] == said["PIL"] == "None\ntext: Finding(none found: nothing)\n"
    for name in ("vl_convert",):
        assert f"Drawing this needs {name}: pip install" in said[name]


def test_findings_and_records_are_short_as_text() -> None:
    finding: Finding[Any] = Finding.failed("too few points")
    assert repr(finding) == "Finding(failed: too few points)"
    assert repr(Record("Mine", (), (finding,) * 500)) == "Record(Mine: 0 of 500 findings are leaks)"


def test_the_example_is_saved_without_outputs() -> None:
    assert Path(HOME / "docs" / "examples" / "audit.ipynb").stat().st_size < 10_000
