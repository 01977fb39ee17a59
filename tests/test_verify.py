"""Whatever is changed in a run folder is named; what nobody touched verifies, wherever it lies."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import numpy as np
import pytest
from sklearn.linear_model import Ridge
from skops.io import dump

from divulge import auditing, cli, sealing
from divulge.report import machine

AUDIT = """
[held.model]
kind = "fitted"
file = "model.skops"

[held.data]
kind = "training_data"
file = "data.npz"

[held.members]
kind = "scores"
file = "scores.csv"
record = ""

[truth.hyperparameters]
file = "model.skops"
"""


class Sealed(NamedTuple):
    """A folder with an audit file whose audit has ended."""

    home: Path
    run: Path
    seal: str


def audit(home: Path, *more: str) -> Sealed:
    assert cli.main(["audit", str(home / "audit.toml"), *more]) == 0
    seal = auditing.seal_of(home / "runs" / "audit")
    assert seal is not None
    return Sealed(home, home / "runs" / "audit", seal)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Sealed:
    home = tmp_path_factory.mktemp("sealed")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=60)
    np.savez(home / "data.npz", X=X, y=y)
    dump(Ridge(alpha=0.5).fit(X, y), home / "model.skops")
    (home / "scores.csv").write_text("\n".join(["score", *map(str, rng.normal(size=200))]))
    (home / "audit.toml").write_text(AUDIT)
    return audit(home)


@pytest.fixture
def sealed(done: Sealed, tmp_path: Path) -> Sealed:
    home = tmp_path / "copied"
    shutil.copytree(done.home, home)
    return Sealed(home, home / "runs" / "audit", done.seal)


def verified(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    capfd.readouterr()
    code = cli.main(["verify", *map(str, arguments), "--json"])
    said = capfd.readouterr()
    assert said.err == ""
    return code, json.loads(said.out)


def wrong(found: dict[str, Any]) -> dict[str, str]:
    return {check["what"]: check["state"] for check in found["checks"] if check["state"] in ("changed", "missing")}


def states(found: dict[str, Any]) -> dict[str, str]:
    return {check["what"]: check["state"] for check in found["checks"]}


def test_a_run_that_nobody_touched_verifies_wherever_it_lies(sealed: Sealed, capfd: pytest.CaptureFixture[str]) -> None:
    code, found = verified(capfd, sealed.run)
    assert (code, found["unchanged"], found["confirmed"], found["seal"]) == (0, True, False, sealed.seal)
    assert states(found)["what report.json says"] == "unchanged"
    assert {"findings.json", "report.html", "report.json"} <= set(states(found))
    assert any(name.startswith("arrays/") for name in states(found))
    assert set(states(found).values()) == {"unchanged"}
    assert verified(capfd, sealed.run, "--seal", sealed.seal.upper())[1]["confirmed"] is True


def test_the_sealed_report_is_in_the_form_of_the_schema(sealed: Sealed) -> None:
    document = json.loads((sealed.run / "report.json").read_bytes())
    jsonschema.validate(document, json.loads(machine.schema()))
    assert document["leaks"] >= 1
    assert (
        document["seal"]["files"]["findings.json"] == hashlib.sha256((sealed.run / "findings.json").read_bytes()).hexdigest()
    )


def test_the_seal_can_be_computed_as_the_documentation_says(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sealed.home)
    page = (Path(__file__).parent.parent / "docs" / "runs.md").read_text("utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    did: dict[str, Any] = {}
    exec(snippet.replace("runs/mine", "runs/audit"), did)
    assert did["told"] == sealed.seal


def test_the_seal_is_printed_once_and_is_the_same_when_the_audit_runs_again(
    sealed: Sealed, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    assert audit(sealed.home).seal == sealed.seal
    assert capfd.readouterr().out.count(f"seal: {sealed.seal}") == 1
    assert cli.main(["audit", str(sealed.home / "audit.toml"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["seal"] == sealed.seal
    assert verified(capfd, sealed.run, "--seal", sealed.seal)[0] == 0


def test_a_page_that_is_drawn_again_has_the_same_seal(sealed: Sealed, capfd: pytest.CaptureFixture[str]) -> None:
    (sealed.run / "report.html").unlink()
    assert wrong(verified(capfd, sealed.run)[1]) == {"report.html": "missing"}
    assert cli.main(["report", str(sealed.run)]) == 0
    assert f"seal: {sealed.seal}" in capfd.readouterr().out
    code, found = verified(capfd, sealed.run, "--redraw")
    assert code == 0
    assert states(found)["what report.html shows"] == "unchanged"


def flip(path: Path) -> None:
    """Change one digit."""
    content = bytearray(path.read_bytes())
    place = content.rindex(b"0." if path.suffix == ".json" else b"0") + (2 if path.suffix == ".json" else 0)
    content[place] = ord("7") if content[place] != ord("7") else ord("3")
    path.write_bytes(bytes(content))


def arrays(run: Path) -> Path:
    return next((run / "arrays").iterdir())


def change_severity(run: Path) -> None:
    path = run / "report.json"
    text = path.read_text()
    assert '"severity": "low"' in text
    path.write_text(text.replace('"severity": "low"', '"severity": "high"', 1))


def repeat_a_key(run: Path) -> None:
    """JSON in which a program that takes the first of two keys reads something else than one that takes the last."""
    path = run / "report.json"
    path.write_text(path.read_text().replace('\n "title"', '\n "leaks": 0,\n "title"', 1))


def swap_arrays(run: Path) -> None:
    path = arrays(run)
    np.savez(path.with_suffix(""), a0=np.zeros(3))
    assert path.exists()


def link_away(run: Path) -> None:
    away = run.parent / "elsewhere.json"
    shutil.move(run / "findings.json", away)
    (run / "findings.json").symlink_to(away)


def link_arrays_away(run: Path) -> None:
    shutil.move(run / "arrays", run.parent / "elsewhere")
    (run / "arrays").symlink_to(run.parent / "elsewhere")


def pipe(run: Path) -> None:
    (run / "findings.json").unlink()
    os.mkfifo(run / "findings.json")


def deeply(run: Path) -> None:
    (run / "report.json").write_text("[" * 200_000)


def huge(run: Path) -> None:
    with (run / "report.json").open("r+b") as file:
        file.truncate(1 << 40)


def names_elsewhere(run: Path) -> None:
    """A forged seal that would have files outside the folder read."""
    document = json.loads((run / "report.json").read_bytes())
    document["seal"]["files"]["../../model.skops"] = "0" * 64
    (run / "report.json").write_bytes(sealing.as_written(document))


TAMPERING: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "one digit of the record": (lambda run: flip(run / "findings.json"), "findings.json", "changed"),
    "a truncated record": (lambda run: os.truncate(run / "findings.json", 1000), "findings.json", "changed"),
    "no record": (lambda run: (run / "findings.json").unlink(), "findings.json", "missing"),
    "a record elsewhere": (link_away, "findings.json", "changed"),
    "a pipe for a record": (pipe, "findings.json", "changed"),
    "other arrays": (swap_arrays, "arrays/", "changed"),
    "no arrays": (lambda run: arrays(run).unlink(), "arrays/", "missing"),
    "arrays elsewhere": (link_arrays_away, "arrays/", "changed"),
    "a word of the page": (lambda run: flip(run / "report.html"), "report.html", "changed"),
    "no page": (lambda run: (run / "report.html").unlink(), "report.html", "missing"),
    "a severity": (change_severity, "report.json", "changed"),
    "a repeated key": (repeat_a_key, "report.json", "changed"),
    "a truncated report.json": (lambda run: os.truncate(run / "report.json", 500), "report.json", "changed"),
    "an empty report.json": (lambda run: os.truncate(run / "report.json", 0), "report.json", "changed"),
    "no report.json": (lambda run: (run / "report.json").unlink(), "report.json", "missing"),
    "deeply nested JSON": (deeply, "report.json", "changed"),
    "a terabyte": (huge, "report.json", "changed"),
    "no JSON": (lambda run: (run / "report.json").write_bytes(bytes(range(256))), "report.json", "changed"),
    "other JSON": (lambda run: (run / "report.json").write_text('{"seal": [1]}'), "report.json", "changed"),
    "files elsewhere": (names_elsewhere, "report.json", "changed"),
}


@pytest.mark.parametrize("what", TAMPERING)
def test_every_change_is_named(what: str, sealed: Sealed, capfd: pytest.CaptureFixture[str]) -> None:
    tamper, name, state = TAMPERING[what]
    tamper(sealed.run)
    code, found = verified(capfd, sealed.run)
    assert code == 1
    assert found["unchanged"] is False
    assert [(what.startswith(name), said) for what, said in wrong(found).items()] == [(True, state)]
    assert cli.main(["verify", str(sealed.run)]) == 1
    said = capfd.readouterr()
    assert said.err == ""
    assert "Traceback" not in said.out
    assert "1 thing changed or missing." in said.out


@pytest.mark.parametrize("what", [what for what, (_, name, _) in TAMPERING.items() if name != "report.html"])
def test_drawing_the_report_again_never_vouches_for_a_change(
    what: str, sealed: Sealed, capfd: pytest.CaptureFixture[str]
) -> None:
    TAMPERING[what][0](sealed.run)
    before = wrong(verified(capfd, sealed.run)[1])
    page = (sealed.run / "report.html").read_bytes()
    drawn = cli.main(["report", str(sealed.run)])
    said = capfd.readouterr()
    if what == "no report.json":  # a folder that nobody sealed is drawn, and stays without a seal
        assert (drawn, "seal" in said.out) == (0, False)
    else:
        assert drawn == 2
        assert said.err.startswith("error: ")
        assert (sealed.run / "report.html").read_bytes() == page
    assert wrong(verified(capfd, sealed.run)[1]) == before


def test_a_changed_page_is_drawn_anew_and_verifies_again(sealed: Sealed, capfd: pytest.CaptureFixture[str]) -> None:
    flip(sealed.run / "report.html")
    assert cli.main(["report", str(sealed.run)]) == 0
    assert verified(capfd, sealed.run, "--seal", sealed.seal)[0] == 0


def test_a_seal_made_anew_after_a_change_does_not_hide_what_contradicts_the_record(
    sealed: Sealed, capfd: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((sealed.run / "report.json").read_bytes())
    document["findings"][0]["summary"] = "Nothing was found."
    (sealed.run / "report.html").write_text("<p>All is well.</p>")
    document["seal"]["files"]["report.html"] = sealing.hashed(sealed.run, "report.html")
    document["seal"]["sha256"] = sealing.own_hash(document)
    (sealed.run / "report.json").write_bytes(sealing.as_written(document))
    code, found = verified(capfd, sealed.run, "--redraw")
    assert code == 1
    assert wrong(found) == {"what report.json says": "changed", "what report.html shows": "changed"}


def test_another_run_in_its_place_is_told_by_the_seal_that_was_written_down(
    sealed: Sealed, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(sealed.run)
    other = audit(sealed.home, "--seed", "1")
    assert verified(capfd, other.run)[0] == 0
    code, found = verified(capfd, other.run, "--seal", sealed.seal)
    assert (code, found["confirmed"]) == (1, False)
    assert wrong(found) == {"seal": "changed"}


def test_an_added_file_is_named_and_is_no_failure(sealed: Sealed, capfd: pytest.CaptureFixture[str]) -> None:
    (sealed.run / "notes.txt").write_text("mine")
    (sealed.run / "arrays" / "more.npz").write_bytes(b"")
    code, found = verified(capfd, sealed.run)
    assert code == 0
    added = {what for what, state in states(found).items() if state == "added"}
    assert added == {"notes.txt", "arrays/more.npz"}


def test_a_hostile_name_of_a_file_stays_on_its_line(sealed: Sealed, capfd: pytest.CaptureFixture[str]) -> None:
    (sealed.run / os.fsdecode(b"\xff\x1b[31m\nall is well")).write_text("")
    (sealed.run / "[bold]x").write_text("")
    capfd.readouterr()
    assert cli.main(["verify", str(sealed.run)]) == 0
    said = capfd.readouterr()
    assert (said.err, "\x1b" in said.out, "\nall is well" in said.out) == ("", False, False)
    assert "[bold]x: the seal" in said.out
    assert verified(capfd, sealed.run)[0] == 0


def test_inputs_are_compared_with_what_was_audited(sealed: Sealed, capfd: pytest.CaptureFixture[str]) -> None:
    against = ["--against", sealed.home / "audit.toml"]
    code, found = verified(capfd, sealed.run, *against)
    assert code == 0
    assert states(found)["input model (model.skops)"] == "unchanged"
    with np.load(sealed.home / "data.npz") as data:
        X, y = data["X"], data["y"]
    dump(Ridge(alpha=2.0).fit(X, y), sealed.home / "model.skops")
    np.savez(sealed.home / "data.npz", y=y, X=X)  # another file with the same contents
    (sealed.home / "scores.csv").unlink()
    code, found = verified(capfd, sealed.run, *against)
    assert code == 1
    assert wrong(found) == {"input model (model.skops)": "changed", "input members (scores.csv)": "missing"}


@pytest.mark.parametrize("holdings", [None, [{"name": {"a": 1}}], ["model"]])
def test_holdings_of_any_form_are_compared_without_breaking(
    sealed: Sealed, capfd: pytest.CaptureFixture[str], holdings: Any
) -> None:
    """Whoever can write the folder can give any document the hash that it carries."""
    path = sealed.run / "report.json"
    document = json.loads(path.read_text("utf-8"))
    del document["holdings"]
    document |= {} if holdings is None else {"holdings": holdings}
    document["seal"]["sha256"] = sealing.own_hash(document)
    path.write_text(json.dumps(document), "utf-8")
    code, _ = verified(capfd, sealed.run, "--against", sealed.home / "audit.toml")
    assert code == 1


def test_an_input_at_an_address_is_not_asked(sealed: Sealed, capfd: pytest.CaptureFixture[str]) -> None:
    text = (sealed.home / "audit.toml").read_text()
    changed = text.replace('file = "model.skops"\n', 'url = "http://127.0.0.1:9/model"\n', 1)
    (sealed.home / "audit.toml").write_text(changed)
    code, found = verified(capfd, sealed.run, "--against", sealed.home / "audit.toml")
    assert code == 0
    assert states(found)["input model (model.skops)"] == "not checked"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "expected a run folder at nowhere, found none"),
        (["."], "is not a run folder"),
        (["model.skops"], "expected a run folder"),
        (["runs/audit", "--seal", "12"], "expected a seal of 64 hexadecimal digits"),
        (["runs/audit", "--against", "none.toml"], "expected an audit file"),
        (["runs/audit", "--against", "scores.csv"], "cannot read scores.csv"),
    ],
)
def test_what_cannot_be_verified_is_refused_in_one_sentence(
    arguments: list[str], said: str, sealed: Sealed, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sealed.home)
    capfd.readouterr()
    assert cli.main(["verify", *arguments]) == 2
    err = capfd.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err


def test_an_audit_that_was_cut_short_is_not_sealed(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record is another one, and the old seal would say that somebody changed it."""
    monkeypatch.setattr(auditing, "draw", lambda folder, record: (_ for _ in ()).throw(KeyboardInterrupt))
    assert cli.main(["audit", str(sealed.home / "audit.toml")]) == cli.INTERRUPTED
    assert not (sealed.run / "report.json").exists()
    assert (sealed.run / "findings.json").exists()


def test_a_report_for_machines_is_sealed_where_nothing_can_draw_the_page(sealed: Sealed) -> None:
    shutil.rmtree(sealed.run)
    script = "import sys; sys.modules['jinja2'] = None; from divulge import cli; sys.exit(cli.main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "audit", str(sealed.home / "audit.toml")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "pip install 'divulge[report]'" in ran.stderr
    assert not (sealed.run / "report.html").exists()
    assert cli.main(["verify", str(sealed.run)]) == 0


def test_what_is_written_from_the_record_later_can_be_sealed_too(sealed: Sealed, capfd: pytest.CaptureFixture[str]) -> None:
    other = sealed.run / "report.sarif"
    other.write_text("{}")
    sealing.seal(sealed.run, auditing.reopen(sealed.run), other)
    assert verified(capfd, sealed.run)[0] == 0
    assert cli.main(["report", str(sealed.run)]) == 0
    other.write_text("{ }")
    assert wrong(verified(capfd, sealed.run)[1]) == {"report.sarif": "changed"}
    assert cli.main(["report", str(sealed.run)]) == 0  # writes it again, of the record that was sealed
    assert wrong(verified(capfd, sealed.run)[1]) == {}
    assert json.loads(other.read_text())["version"] == "2.1.0"
