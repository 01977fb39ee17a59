"""What tests share: an installed plug-in, a real browser, and how properties are searched."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, Playwright, sync_playwright

HOW = "no browser found: install chromium, set DIVULGE_CHROMIUM to one, or run `playwright install chromium`"
PATIENCE = 300_000.0
"Milliseconds that a browser on a loaded machine may take for anything; a tenth of a second is usual."
QUIET = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-gpu",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
]

# In CI the same commit must pass or fail every time, so the examples of a property follow from the test alone; elsewhere
# every run searches further. A failure prints what repeats it. No deadlines: they would measure how busy the machine is.
settings.register_profile("searching", deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("searching"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "searching")


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process in which the plug-in beside this file is installed."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(Path(__file__).parent / "plugin")], check=True)
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(site), before)))}


def find_browser(playwright: Playwright) -> str | None:
    """The browser named by the environment, else the system's, else Playwright's own."""
    named = os.environ.get("DIVULGE_CHROMIUM")
    if named:
        return named
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


# Closed after each module: Playwright keeps an event loop running, and no other may start meanwhile.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = find_browser(playwright)
        if path is None:
            if os.environ.get("CI") == "true":
                pytest.fail(HOW)
            pytest.skip(HOW)
        root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium's own sandbox does not start for root
        browser = playwright.chromium.launch(executable_path=path, args=QUIET + ["--no-sandbox"] * root, timeout=PATIENCE)
        yield browser
        browser.close()
