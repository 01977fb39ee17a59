"""Pictures while an audit runs: there from the first to the end, in nobody's way, and nothing that is hostile gets in."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from divulge import cli, datasets, registry, runner, terminal
from divulge.attacks import Poisoning
from divulge.auditing import audit
from divulge.contract import Context, Cost, Directions, Finding, Pipeline, Preview, TrainingData, Weights
from divulge.errors import BadInput
from divulge.graph import Step
from divulge.report import previews
from divulge.runner import Nobody
from divulge.storage import fingerprint
from divulge.victims import margins

from .report.test_page import HOSTILE, hashed, text

QUICK: dict[str, Any] = {"steps": 150, "count": 12, "fewest": 1, "setups": 2}
OPTIONS = {"kkt-reconstruction": QUICK}
FLAGS = [word for name, value in QUICK.items() for word in (f"--{name}", str(value))]


class Watcher(Nobody):
    """Looks at the page whenever a picture is shown, as a person may."""

    def __init__(self, folder: Path) -> None:
        self.page = folder / "live.html"
        self.pages: list[str] = []
        self.previews: list[Preview] = []
        self.said: list[str] = []

    def preview(self, step: Step, made: Callable[[], Preview]) -> None:
        self.previews.append(made())
        self.pages.append(self.page.read_text("utf-8"))

    def log(self, sentence: str) -> None:
        self.said.append(sentence)


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be left out because it comes too soon."""
    monkeypatch.setattr(runner, "PREVIEW_SECONDS", 0.0)
    monkeypatch.setattr(runner, "PREVIEW_SHARE", np.inf)


@pytest.fixture(scope="module")
def weights() -> Weights:
    """A network that was trained to its margin on 12 digits."""
    digits = datasets.load("mnist-odd-even", samples=12, seed=3)
    mean = digits.X.mean(axis=0)
    layers = margins.train(digits.X - mean, digits.y, np.random.default_rng(1), hidden=(60, 60))
    return Weights(tuple(layers), mean=mean, shape=digits.shape)


def content(findings: tuple[Finding[Any], ...]) -> str:
    """Everything that was found, without the time it took."""
    return fingerprint([replace(finding, cost=Cost(finding.cost.points)) for finding in findings])


@pytest.mark.slow
def test_a_long_reconstruction_shows_its_candidates_and_takes_the_page_away_at_its_end(
    weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    parts: dict[str, Any] = {}
    for number, (W, b) in enumerate(weights.layers):
        parts |= {f"{2 * number}.weight": np.ascontiguousarray(W), f"{2 * number}.bias": b}
    save_file(parts, tmp_path / "network.safetensors")
    assert weights.mean is not None
    np.save(tmp_path / "mean.npy", weights.mean)
    monkeypatch.chdir(tmp_path)
    always(monkeypatch)
    watcher = Watcher(tmp_path / "run")
    monkeypatch.setattr(terminal.Lines, "preview", lambda self, step, made: watcher.preview(step, made))
    held = "network.safetensors#shape=[28,28]&mean=mean.npy"
    assert cli.main(["attack", "kkt-reconstruction", "--weights", held, *FLAGS, "--out", "run"]) == 0
    assert capfd.readouterr().out.count("pictures so far: run/live.html\n") == 1
    assert sorted(path.name for path in (tmp_path / "run").iterdir() if path.is_file()) == [
        ".lock", "findings.json", "report.html", "report.json",
    ]  # fmt: skip
    descents = [one for one in watcher.previews if one.title.startswith("Candidates of the search")]
    assert [re.findall(r"step (\d+) of 150", one.note) for one in descents] == [["100"], ["150"], ["100"], ["150"]]
    assert [one.note.endswith("the smoothest first.") for one in descents] == [True, True, False, False]
    assert any(one.title == "Pictures in the span of the first layer" for one in watcher.previews)
    for page, preview in zip(watcher.pages, watcher.previews, strict=True):
        assert "kkt-reconstruction on weights" in text(page)
        assert preview.note in text(page)
        assert page.count("<img ") >= min(24, len(preview.X))


@pytest.mark.slow
def test_the_same_seed_finds_the_same_watched_or_not(
    weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacks = ["kkt-reconstruction", "span-reconstruction"]
    alone = audit(weights, attacks=attacks, options=OPTIONS, seed=5)
    seldom = audit(weights, attacks=attacks, options=OPTIONS, seed=5, out=tmp_path / "seldom")
    always(monkeypatch)
    watcher = Watcher(tmp_path / "often")
    often = audit(weights, attacks=attacks, options=OPTIONS, seed=5, out=tmp_path / "often", observer=watcher)
    assert len(watcher.previews) >= 8
    assert content(alone.findings) == content(seldom.findings) == content(often.findings)
    assert {finding.verdict.value for finding in often.findings} == {"leak"}


@pytest.fixture
def showing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Context], None]], None]:
    """Let the search of the span show something else, and find nothing."""

    def change(show: Callable[[Context], None]) -> None:
        def run(self: object, held: Directions, context: Context) -> Finding[TrainingData]:
            show(context)
            return Finding.none_found("Nothing.", power="Little.")

        monkeypatch.setattr(registry.attack("span-reconstruction"), "run", run)

    return change


Showing = Callable[[Callable[[Context], None]], None]


def test_nothing_is_computed_for_nobody() -> None:
    def unwanted() -> Preview:
        raise AssertionError

    Context(0).show(unwanted)


def test_the_first_picture_is_shown_at_once_and_the_next_not_before_a_while(
    weights: Weights, tmp_path: Path, showing: Showing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "PREVIEW_SECONDS", math.inf)
    made: list[int] = []

    def preview(number: int) -> Preview:
        made.append(number)
        return Preview(f"Number {number}", np.zeros((1, 784)), (28, 28))

    def often(context: Context) -> None:
        for number in range(50):
            context.show(partial(preview, number))

    showing(often)
    watcher = Watcher(tmp_path / "run")
    audit(weights, attacks=["span-reconstruction"], out=tmp_path / "run", observer=watcher)
    assert set(made) == {0}
    assert "Number 0" in text(watcher.pages[0])


@pytest.mark.parametrize("X", [None, "text", np.array(["a"])])
def test_a_preview_that_breaks_costs_the_attack_nothing(
    X: Any, weights: Weights, tmp_path: Path, showing: Showing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Preview:
        return Preview("Broken", X, (28, 28), str(1 / len(X)))

    def thrice(context: Context) -> None:
        context.show(lambda: Preview("Whole", np.zeros((1, 784)), (28, 28)))
        context.show(broken)
        context.show(broken)
        context.progress(1, 2)

    always(monkeypatch)
    showing(thrice)
    watcher = Watcher(tmp_path / "run")
    held = {"one": weights, "other": replace(weights, mean=None)}
    done = audit(held, attacks=["span-reconstruction"], out=tmp_path / "run", observer=watcher)
    assert [finding.verdict for finding in done.findings] == ["none found", "none found"]
    assert len(watcher.pages) == 2
    assert sum("No pictures are shown" in sentence for sentence in watcher.said) == 2


@pytest.mark.parametrize("ends", [KeyboardInterrupt, BadInput])
def test_no_page_is_left_behind_by_an_audit_that_is_stopped(
    ends: type[BaseException], weights: Weights, tmp_path: Path, showing: Showing
) -> None:
    def show(context: Context) -> None:
        context.show(lambda: Preview("A", np.zeros((1, 784)), (28, 28)))
        raise ends("stopped")

    showing(show)
    watcher = Watcher(tmp_path / "run")
    with pytest.raises(ends):
        audit(weights, attacks=["span-reconstruction"], out=tmp_path / "run", observer=watcher)
    assert len(watcher.pages) == 1
    assert not watcher.page.exists()


def test_a_page_that_a_killed_audit_left_is_removed_by_the_next(weights: Weights, tmp_path: Path, showing: Showing) -> None:
    showing(lambda context: None)
    audit(weights, attacks=["span-reconstruction"], out=tmp_path / "run")
    (tmp_path / "run" / "live.html").write_text("stale")
    audit(weights, attacks=["span-reconstruction"], out=tmp_path / "run")
    assert not (tmp_path / "run" / "live.html").exists()


def test_a_hostile_name_stays_text_and_the_policy_lets_nothing_in() -> None:
    preview = Preview(HOSTILE, np.random.default_rng(0).normal(size=(3, 784)), (28, 28), HOSTILE)
    page = previews.render(HOSTILE, HOSTILE, 3.0, [previews.section(HOSTILE, preview)])
    assert "<script" not in page
    assert "<img src=x" not in page
    assert page.count("<img ") == 3
    assert text(page).count(HOSTILE) == 6
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0])
    style = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)[0]
    assert policy == (f"default-src 'none'; img-src data:; style-src {hashed(style)}; base-uri 'none'; form-action 'none'")


@pytest.mark.parametrize(
    ("X", "shape"),
    [
        (np.zeros((0, 784)), (28, 28)),
        (np.zeros((2, 60)), (60,)),
        (np.zeros((2, 60)), (28, 28)),
        (np.full((2, 784), np.nan), (28, 28)),
        (np.full((2, 3072), 1e300), (32, 32, 3)),
    ],
)
def test_what_is_no_picture_leaves_a_page_all_the_same(X: Any, shape: tuple[int, ...]) -> None:
    page = previews.render("Audit", "a on b", 1.0, [previews.section("a", Preview("Odd", X, shape, "Two of them."))])
    assert "Two of them." in text(page)


def test_contributed_points_are_shown_as_they_grow_in_number() -> None:
    digits = datasets.load("mnist-0-8", samples=60, seed=0)
    held = Pipeline(digits.X[:40], digits.y[:40], digits.X[40:], digits.y[40:], shape=digits.shape)
    shown: list[Preview] = []
    settings: dict[str, Any] = {"points": 4, "batch": 2, "iterations": 4, "starts": 1, "alone": True}
    Poisoning(**settings)(held, context=Context(0, show=lambda made: shown.append(made())))
    assert [one.note for one in shown] == ["2 of 4 points, the last first.", "4 of 4 points, the last first."]
    assert [one.X.shape for one in shown] == [(2, 784), (4, 784)]
