"""The demonstration's report as a reader meets it: screens, words, what is on the first one, size, and the time to draw it.

Each seed trains other models, so every page is another. Screens are heights of the window; words are those seen before
anything is unfolded. A page is drawn once before the clock runs, which loads the libraries; times are of the processor.

    python bench/report.py --seeds 500 501 502
"""

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Browser, sync_playwright

from divulge import auditing, demo, report
from divulge.report.opening import opening

WINDOWS = ((1280, 900), (390, 844))
DRAWN = "() => [...document.querySelectorAll('[data-chart]')].every(chart => chart.dataset.drawn)"
WORDS = "document.querySelector('main').innerText.split(/\\s+/).length"
ENDS = "document.querySelector('.top .totals').getBoundingClientRect().bottom"
STOLEN = (
    "[...document.querySelectorAll('.showcase img')].map(it => it.getBoundingClientRect())"
    ".filter(it => it.height).map(it => it.bottom)"
)
UNFOLD = "document.querySelectorAll('details').forEach(it => { it.open = true; })"
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[500, 501, 502])
    chosen = parser.parse_args()
    browser_path = os.environ.get("DIVULGE_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        for seed in chosen.seeds:
            run = Path(folder) / str(seed)
            record = demo.run(run, seed).record
            report.render(record)
            start = time.process_time()
            page = report.render(record)
            drawn = time.process_time() - start
            print(f"seed {seed}: {len(page.encode()) / 1e6:.2f} MB, drawn in {drawn:.2f} s, {len(record.findings)} findings")
            print(f"  {opening(auditing.reopen(run)).lead}")
            for width, height in WINDOWS:
                print(f"  {width} x {height}: {look(browser, run / 'report.html', width, height)}")
        browser.close()


def look(browser: Browser, file: Path, width: int, height: int) -> str:
    page = browser.new_page(viewport={"width": width, "height": height})
    page.set_default_timeout(300_000)
    page.goto(file.resolve().as_uri())
    page.wait_for_function(DRAWN)
    tall, words = page.evaluate("document.documentElement.scrollHeight"), page.evaluate(WORDS)
    ends, pictures = page.evaluate(ENDS), page.evaluate(STOLEN)
    page.evaluate(AXE)
    folded = len(page.evaluate("axe.run()")["violations"])
    page.evaluate(UNFOLD)
    unfolded = len(page.evaluate("axe.run()")["violations"])
    page.close()
    shown = sum(bottom <= height for bottom in pictures)
    return (
        f"{tall / height:.1f} screens, {words:,} words; what leaked, how badly and what to do end at {ends / height:.2f} "
        f"screens; {shown} of {len(pictures)} stolen and original pictures on the first; axe-core: {folded} violations "
        f"folded, {unfolded} unfolded"
    )


if __name__ == "__main__":
    main()
