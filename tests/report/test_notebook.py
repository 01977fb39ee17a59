"""Fragments for a notebook's cell: complete, escaped, bounded, and readable in whatever theme they land."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page
from scipy.sparse import csr_array

from divulge.auditing import Audit
from divulge.contract import (
    Access,
    Candidates,
    Curve,
    Directions,
    Figure,
    Finding,
    Fitted,
    Gradients,
    HeatMap,
    Histogram,
    Hyperparameters,
    ImagePairs,
    Membership,
    Parameters,
    Poison,
    Record,
    Scatter,
    Score,
    Scores,
    TrainingData,
    Trial,
    Weights,
)
from divulge.report import notebook
from divulge.report.opening import SHOWN

from .test_page import HOSTILE, hostile_record, text

RNG = np.random.default_rng(0)
LINE = (np.arange(5.0), np.arange(5.0))
FIGURES: list[Figure] = [
    Curve("curve", "x", "y", {"a": LINE, "b": LINE}, marks={"here": 2.0}, bands={"a": (LINE[0], LINE[0], LINE[0] + 1)}),
    Histogram("histogram", "x", {"a": RNG.normal(size=50), "b": RNG.normal(size=50)}),
    HeatMap("heat map", "x", "y", RNG.uniform(size=(3, 4)), np.arange(4), np.arange(3)),
    HeatMap("drawn over", "x", "y", RNG.uniform(size=(3, 4)), np.arange(4), np.arange(3), groups={"a": ([1.0], [1.0])}),  # type: ignore[dict-item]
    Scatter("scatter", "x", "y", {"a": LINE, "b": LINE}, lines={"path": LINE}),
    ImagePairs("pairs", RNG.uniform(size=(2, 8, 8)), RNG.uniform(size=(2, 8, 8)), "true", "found"),
]
ROWS = RNG.uniform(size=(3, 4))
HELD: list[Access] = [
    TrainingData(ROWS, np.arange(3), shape=(2, 2)),
    TrainingData(csr_array(ROWS)),  # type: ignore[arg-type]
    TrainingData(pd.DataFrame({"name": ["a", "b", None], "age": [1.0, 2.0, np.nan]})),  # type: ignore[arg-type]
    Candidates(ROWS),
    Weights(((ROWS, np.zeros(3)), (np.ones((1, 3)), np.zeros(1)))),
    Directions(ROWS),
    Parameters(coef=ROWS[0]),
    Fitted("ridge", coef=ROWS[0]),
    Hyperparameters({"alpha": 0.31}, {"alpha": (0.3, 0.32)}),
    Membership(ROWS[0], ROWS[0] > 0.5),
    Scores(ROWS[0]),
    Poison(ROWS, np.arange(3)),
    Gradients(lambda X: X, 4, gradient=lambda X: X),
]
PALE = "#ffffff"
DIM = "#111111"
"Backgrounds of Jupyter Lab's two themes."
LAB = """
body { margin: 0; font: 14px system-ui; }
.jp-RenderedHTMLCommon { padding: 8px; line-height: 1.7; }
.jp-RenderedHTMLCommon table { border-collapse: collapse; font-size: 12px; table-layout: fixed; margin: 0 auto 1em; }
.jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th { text-align: right; vertical-align: middle; padding: .5em; }
.jp-RenderedHTMLCommon tbody tr:nth-child(odd) { background: rgb(245, 245, 245); }
.jp-RenderedHTMLCommon tbody tr:hover { background: rgb(200, 220, 250); }
.jp-RenderedHTMLCommon img { display: block; max-width: 100%; }
.badge { display: none; }
"""
"What Jupyter Lab's own style sheet does to what is in a cell, and a class of Bootstrap's in classic notebooks."


def test_a_finding_shows_verdict_severity_scores_beside_nulls_pictures_charts_remedy_and_cost(record: Record) -> None:
    shown = notebook.finding(record.findings[1])
    said = text(shown)
    assert "leak Kkt reconstruction on weights of api · training data, severity" in said
    assert "50 training images were found in the weights." in said
    assert "images recovered 50 44.1 to 50 0.4 the nearest image of another sample 125× the null" in said
    assert "0.4 published" in said
    assert shown.count("<img ") == 100 + 1  # pairs, and a heat map of too many cells for shapes
    assert shown.count("<svg ") == 2
    assert "What helps Train with differential privacy." in said
    assert "0 queries, 1 h 12 min." in said


def test_what_was_not_found_comes_with_its_power(record: Record) -> None:
    assert "Power of this attempt. With 150 members" in text(notebook.finding(record.findings[3]))


def test_an_audit_shows_its_headline_leaks_by_asset_every_verdict_and_its_report(record: Record) -> None:
    shown = Audit(record, Path("runs/of mine"))._repr_html_()
    assert shown is not None
    said = text(shown)
    assert "gives away what it was trained on: 50 pictures, for 12,345 queries" in said
    assert re.search(r"training data (low|medium|high|critical) 1 Kkt reconstruction on weights of api", said)
    assert [said.count(f" {verdict} ") for verdict in ("none found", "not applicable", "failed")] == [1, 1, 1]
    assert '<a href="runs/of%20mine/report.html">' in shown
    assert shown.count("<img ") == 2 * SHOWN


def test_an_audit_says_what_its_defences_did(record: Record) -> None:
    trial = Trial("rounding, digits = 3", ("api",), (), {"accuracy": (0.9, 0.88)}, {"name": "rounding", "digits": 3})
    said = text(notebook.audit(replace(record, trials=(trial,))))
    assert "Behind rounding to 3 digits, 0 of the" in said
    assert "accuracy falls from 0.9 to 0.88." in said
    assert "Before and after" not in text(notebook.audit(record))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.title)
def test_every_kind_of_figure_is_drawn(figure: Figure) -> None:
    shown = figure._repr_html_()
    assert shown is not None
    assert figure.title in shown
    assert shown.count("<img " if isinstance(figure, ImagePairs) else "<svg ") >= 1
    assert "var(" not in shown


@pytest.mark.parametrize("held", HELD, ids=lambda held: type(held).__name__)
def test_every_kind_of_access_is_a_table(held: Access) -> None:
    shown = held._repr_html_()
    assert shown is not None
    assert f"<h3>{held.kind.replace('_', ' ')}</h3>" in shown
    assert "<td" in shown


def everything(record: Record) -> list[str]:
    parts: list[Any] = [*FIGURES, *HELD, *record.findings, record]
    return [shown for part in parts if (shown := notebook.show(part)) is not None]


def test_fragments_hold_no_script_and_nothing_from_outside(record: Record) -> None:
    for shown in everything(record):
        assert not re.search(r"<(script|link|iframe|object|foreignObject|use)\b|@import|url\((?!#)|\son\w+=", shown)
        assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'src="([^"]*)"', shown))


def test_charts_of_one_notebook_share_no_id() -> None:
    one, other = (notebook.figure(replace(FIGURES[2], title=title)) for title in ("one", "another"))
    assert notebook.figure(FIGURES[2]).count("gradient") > 1
    ids = [re.findall(r'id="([^"]*)"', shown) for shown in (one, other)]
    assert ids[0]
    assert len(set(ids[0] + ids[1])) == len(ids[0] + ids[1])


def test_hostile_text_is_text() -> None:
    record = hostile_record()
    shown = [
        notebook.show(part) for part in (record, record.findings[0], record.findings[0].loot, record.findings[0].figures[0])
    ]
    for one in filter(None, shown):
        assert "<script>alert" not in one
        assert "<img src=x" not in one
        assert HOSTILE.replace("`", "") in text(one).replace("`", "")


@pytest.mark.slow
def test_a_cell_stays_small_however_much_a_finding_holds() -> None:
    million = (np.arange(1e6), RNG.normal(size=1_000_000))
    noise = RNG.uniform(size=(100, 64, 64, 3))
    finding = Finding.leak(
        TrainingData(noise.reshape(100, -1), shape=(64, 64, 3)),
        "much",
        scores={f"score {number}": Score(1, 0, "a guess") for number in range(5000)},
        figures=(
            Curve("curve", "x", "y", {str(number): million for number in range(6)}),
            Scatter("scatter", "x", "y", {str(number): million for number in range(6)}),
            HeatMap("map", "x", "y", RNG.uniform(size=(1000, 1000)), np.arange(1000), np.arange(1000)),
            *(ImagePairs(f"pairs {number}", noise, noise, "true", "found") for number in range(5)),
        ),
    )
    shown = notebook.finding(finding)
    assert len(shown) < 2_000_000
    assert "figures left out for want of room" in shown
    record = Record("Many", (), (finding,) * 2000)
    assert len(notebook.audit(record)) < 1_500_000


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", [name for name in notebook.COLOURS if name.startswith("series")])
def test_colours_of_charts_stand_out_from_light_and_dark(name: str) -> None:
    """Contrast of at least 3 to 1, as WCAG asks of what is drawn."""
    colour = luminance(notebook.COLOURS[name])
    assert (luminance(PALE) + 0.05) / (colour + 0.05) >= 3
    assert (colour + 0.05) / (luminance(DIM) + 0.05) >= 3


@contextmanager
def cell(
    browser: Browser, folder: Path, fragments: list[str], width: int, back: str, ink: str
) -> Iterator[tuple[Page, list[str]]]:
    """Fragments as cells of Jupyter Lab, where a theme gives the colour of text and background."""
    complaints: list[str] = []
    theme = f"body {{ background: {back}; color: {ink}; }}"
    cells = "".join(f'<div class="jp-RenderedHTMLCommon">{fragment}</div>' for fragment in fragments)
    path = folder / "cells.html"
    path.write_text(f'<!doctype html><meta charset="utf-8"><style>{LAB}{theme}</style><body>{cells}', encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    yield page, complaints
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize(("back", "ink"), [(PALE, "#212121"), (DIM, "#e0e0e0")], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_cells_fit_their_width_and_take_the_colours_of_the_theme(
    chromium: Browser, tmp_path: Path, record: Record, width: int, back: str, ink: str
) -> None:
    hostile = hostile_record()
    fragments = [*everything(record), *(str(notebook.show(part)) for part in (hostile, *hostile.findings))]
    with cell(chromium, tmp_path, fragments, width, back, ink) as (page, complaints):
        assert page.evaluate("document.documentElement.scrollWidth") == width
        outside = """width => [...document.querySelectorAll('.divulge, .divulge *')]
          .filter(it => !it.closest('svg') || it.tagName == 'svg').filter(it => !it.closest('thead'))
          .filter(it => it.getBoundingClientRect().right > width + .5).map(it => it.outerHTML.slice(0, 90))"""
        assert page.evaluate(outside, width) == []
        assert page.evaluate("[...document.images].every(it => it.complete && it.naturalWidth > 0)")
        odd = """() => { const ink = getComputedStyle(document.body).color;
          return [...document.querySelectorAll('.divulge *:not(style)')].filter(it => !it.closest('svg'))
            .filter(it => !it.matches('.divulge-leak') && getComputedStyle(it).color != ink).map(it => it.outerHTML) }"""
        assert page.evaluate(odd) == []
        row = "it => [getComputedStyle(it).backgroundColor, getComputedStyle(it.firstElementChild).textAlign]"
        assert page.locator("tbody tr").first.evaluate(row) == ["rgba(0, 0, 0, 0)", "left"]
        label = "it => getComputedStyle(it).fill"
        assert page.locator("svg .role-axis-label text").first.evaluate(label) == page.evaluate(
            "getComputedStyle(document.body).color"
        )
        assert complaints == []


@pytest.mark.browser
def test_badges_can_be_read(chromium: Browser, tmp_path: Path, record: Record) -> None:
    with cell(chromium, tmp_path, [notebook.audit(record)], 1280, PALE, "#212121") as (page, _):
        assert page.locator(".divulge-badge").all_inner_texts() == [*["leak"] * 3, "none found", "not applicable", "failed"]
        assert page.locator(".divulge-badge").first.evaluate("it => getComputedStyle(it).color") == "rgb(255, 255, 255)"
    assert (luminance("#ffffff") + 0.05) / (luminance("#c8371f") + 0.05) >= 4.5
