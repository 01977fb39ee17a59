"""The page in a real browser: drawn, quiet, readable on a phone, in the dark and on paper."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page

from divulge import report
from divulge.contract import Record

from .test_page import HOSTILE, hostile_record

pytestmark = pytest.mark.browser

Scheme = Literal["light", "dark"]

PATIENCE = 300_000.0
"Milliseconds that a page on a loaded machine may take for anything."
PHONE, DESKTOP = 390, 1280
DRAWN = "() => [...document.querySelectorAll('[data-chart]')].every(chart => chart.dataset.drawn)"
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
UNFOLD = "document.querySelectorAll('details').forEach(it => { it.open = true; })"
WATCH = "window.violations = []; addEventListener('securitypolicyviolation', it => violations.push(it.violatedDirective))"
BRIGHTNESS = """selector => {
  const style = getComputedStyle(document.querySelector(selector));
  const colour = selector === 'body' ? style.backgroundColor : style.fill;
  return colour.match(/[0-9]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 765;
}"""


@dataclass
class Visit:
    """A page, and everything it asked for or complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def ask(self, question: str, *rest: Any) -> Any:
        return self.page.evaluate(question, *rest)


@pytest.fixture(scope="module")
def file(record: Record, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.write(record, tmp_path_factory.mktemp("run"))


@contextmanager
def visit(
    browser: Browser, file: Path, width: int = DESKTOP, scheme: Scheme = "light", fragment: str = ""
) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page.set_default_timeout(PATIENCE)
    made = Visit(page)
    page.on("request", lambda request: made.requests.append(request.url))
    page.on("console", lambda message: made.complaints.append(message.text))
    page.on("pageerror", lambda error: made.complaints.append(str(error)))
    page.on("dialog", lambda dialog: made.complaints.append(f"dialog {dialog.message}"))
    page.add_init_script(WATCH)
    page.goto(file.as_uri() + fragment)
    page.wait_for_function(DRAWN)
    yield made
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_page_is_drawn_without_a_request_a_complaint_or_a_sideways_scroll(
    chromium: Browser, file: Path, width: int, scheme: Scheme
) -> None:
    with visit(chromium, file, width, scheme) as made:
        assert [url for url in made.requests if not url.startswith("data:")] == [file.as_uri()]
        assert made.complaints == []
        assert made.ask("violations") == []
        assert made.page.locator("[data-drawn] svg").count() == 7
        shapes = "[...document.querySelectorAll('[data-chart]')].map(it => it.querySelectorAll('svg path').length)"
        assert all(count > 10 for count in made.ask(shapes))
        assert made.ask("document.documentElement.scrollWidth") == width
        assert made.ask("[...document.images].every(image => image.complete && image.naturalWidth === 28)")


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_everything_stays_within_the_width_of_the_page(chromium: Browser, file: Path, width: int) -> None:
    outside = """width => [...document.querySelectorAll('main *')]
      .filter(it => !it.closest('.graph') && !it.closest('[data-chart] svg') && !it.closest('thead'))
      .filter(it => it.getBoundingClientRect().right > width + 0.5).map(it => it.outerHTML.slice(0, 80))"""
    with visit(chromium, file, width) as made:
        assert made.ask(outside, width) == []
        made.ask(UNFOLD)
        assert made.ask(outside, width) == []


def test_the_text_is_where_it_should_be(chromium: Browser, file: Path, record: Record) -> None:
    with visit(chromium, file) as made:
        page = made.page
        assert page.locator("h1").inner_text() == record.title
        assert page.locator(".lead").inner_text().startswith("An open explanation endpoint (api) gives away what")
        assert page.locator(".assets tbody tr").count() == 5
        for number, finding in enumerate(record.findings, 1):
            section = page.locator(f"#finding-{number}")
            assert section.locator(".badge").first.text_content() == str(finding.verdict)
        page.locator(".graph a").nth(1).click()
        assert page.url.endswith("#finding-2")


def test_a_link_unfolds_what_it_leads_to(chromium: Browser, file: Path) -> None:
    with visit(chromium, file) as made:
        power = made.page.locator("#finding-4 .power")
        assert not power.is_visible()
        made.page.locator(".graph a").nth(3).click()
        power.wait_for(state="visible")
        assert "Power of this attempt" in power.inner_text()
    with visit(chromium, file, fragment="#finding-4") as made:
        made.page.locator("#finding-4 .power").wait_for(state="visible")


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_what_a_table_is_about_stands_above_it_in_one_line(chromium: Browser, file: Path, width: int) -> None:
    with visit(chromium, file, width) as made:
        caption = made.page.locator(".assets caption").bounding_box()
        first = made.page.locator(".assets tbody tr").first.bounding_box()
        assert caption is not None
        assert first is not None
        assert caption["y"] + caption["height"] <= first["y"]
        assert caption["height"] < 30
        if width == DESKTOP:
            head = made.page.locator(".assets thead").bounding_box()
            assert head is not None
            assert caption["y"] + caption["height"] <= head["y"]


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_stolen_pictures_are_on_the_first_screen(chromium: Browser, file: Path, width: int) -> None:
    with visit(chromium, file, width) as made:
        low = "Math.max(...[...document.querySelectorAll('.showcase img')].map(it => it.getBoundingClientRect().bottom))"
        assert 0 < made.ask(low) < 900


@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "light"), (DESKTOP, "dark")])
def test_whoever_does_not_see_the_page_can_use_it(chromium: Browser, file: Path, width: int, scheme: Scheme) -> None:
    """No rule of axe-core is broken, folded or unfolded."""
    with visit(chromium, file, width, scheme) as made:
        for unfolded in (False, True):
            if unfolded:
                made.ask(UNFOLD)
            made.ask(AXE)
            found = made.ask("axe.run()")
            assert [(it["id"], it["nodes"][0]["html"]) for it in found["violations"]] == []
            assert len(found["passes"]) > 30


def test_a_phone_is_told_the_ways_in_words(chromium: Browser, file: Path) -> None:
    with visit(chromium, file, PHONE) as made:
        assert not made.page.locator(".graph").is_visible()
        first = made.page.locator(".ways li").first
        assert first.inner_text().replace("\n", " ") == (
            "api → Gradient extraction → weights → Kkt reconstruction → training data"
        )
        assert made.ask("parseFloat(getComputedStyle(document.querySelector('.ways li')).fontSize)") >= 14
    with visit(chromium, file) as made:
        assert made.page.locator(".graph").is_visible()
        assert not made.page.locator(".ways").is_visible()


def test_colours_follow_the_scheme_without_redrawing(chromium: Browser, file: Path) -> None:
    with visit(chromium, file) as made:
        label = "[data-chart] .role-axis-label text"
        assert made.ask(BRIGHTNESS, "body") > 0.9
        assert made.ask(BRIGHTNESS, label) < 0.5
        made.page.emulate_media(color_scheme="dark")
        assert made.ask(BRIGHTNESS, "body") < 0.15
        assert made.ask(BRIGHTNESS, label) > 0.5


def test_charts_answer_the_pointer(chromium: Browser, file: Path) -> None:
    with visit(chromium, file) as made:
        made.ask(UNFOLD)
        point = made.page.locator("[data-chart='chart-1-1'] .mark-symbol.role-mark path").nth(40)
        point.hover(force=True)
        tooltip = made.page.locator("#vg-tooltip-element.visible")
        tooltip.wait_for()
        assert "largest weight error" in tooltip.inner_text()
        assert "undefined" not in tooltip.inner_text()
        assert made.complaints == []
        assert made.ask("violations") == []


def test_paper_is_light_and_shows_the_charts(chromium: Browser, file: Path) -> None:
    with visit(chromium, file, scheme="dark") as made:
        made.page.emulate_media(media="print", color_scheme="dark")
        assert made.ask(BRIGHTNESS, "body") == 1
        assert made.ask(BRIGHTNESS, "[data-chart] .role-axis-label text") < 0.5
        made.page.set_viewport_size({"width": 680, "height": 900})
        assert made.ask("document.documentElement.scrollWidth") == 680
        assert made.ask("[...document.querySelectorAll('.graph > svg')].every(it => it.clientWidth < 680)")
        assert len(made.page.pdf(format="A4")) > 50_000


def test_headings_are_in_order_and_pictures_have_words(chromium: Browser, file: Path) -> None:
    with visit(chromium, file) as made:
        levels = made.ask("[...document.querySelectorAll('h1, h2, h3, h4')].map(it => Number(it.tagName[1]))")
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(later - sooner <= 1 for sooner, later in pairwise(levels))
        assert made.ask("[...document.images].every(image => image.alt)")
        assert made.ask("[...document.querySelectorAll('th')].every(it => it.scope)")
        assert made.ask("document.documentElement.lang") == "en"


def test_text_stands_out_from_its_background(chromium: Browser, file: Path) -> None:
    """Contrast of at least 4.5 to 1, as WCAG asks of text, for every pair of colours that the page uses."""
    contrast = """([front, back]) => {
      const style = getComputedStyle(document.documentElement);
      const light = name => {
        const hex = style.getPropertyValue(name).trim().slice(1).replace(/^(.)(.)(.)$/, '$1$1$2$2$3$3');
        const part = at => { const c = parseInt(hex.slice(at, at + 2), 16) / 255;
          return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
        return 0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4);
      };
      const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
      return (a + 0.05) / (b + 0.05);
    }"""
    pairs = [(front, back) for front in ("--ink", "--soft", "--accent") for back in ("--paper", "--raised", "--tint")]
    schemes: tuple[Scheme, ...] = ("light", "dark")
    for scheme in schemes:
        with visit(chromium, file, scheme=scheme) as made:
            for pair in [*pairs, ("--on-accent", "--accent"), ("--ink", "--accent-tint")]:
                assert made.ask(contrast, list(pair)) >= 4.5, (scheme, pair)


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_hostile_text_does_nothing_and_breaks_nothing(chromium: Browser, tmp_path: Path, width: int) -> None:
    with visit(chromium, report.write(hostile_record(), tmp_path), width) as made:
        assert made.complaints == []
        assert made.ask("violations") == []
        assert [url for url in made.requests if not url.startswith("data:")] == [(tmp_path / "report.html").as_uri()]
        assert made.page.locator("h1").inner_text() == HOSTILE
        assert made.page.locator("[data-drawn] svg").count() == 2
        assert made.ask("document.images.length") == 0
        assert made.ask("document.documentElement.scrollWidth") == width
