"""Write the parts of the documentation that the program knows best; with --check, only say whether they are current."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from divulge import registry

HOME = Path(__file__).parent.parent
COMMANDS = ("", "demo", "audit", "attack", "attack hyperparameters", "attacks", "study", "studies", "reproduce", "report")


def attack_table() -> str:
    """Needs, yields and paper of every attack that comes with divulge."""
    lines = ["| attack | from | wins | paper |", "|---|---|---|---|"]
    for name, attack in registry.attacks().items():
        if attack.__module__.startswith("divulge."):
            needs = " + ".join(f"`{need.kind}`" for need in attack.needs)
            lines.append(f"| `{name}` | {needs} | `{attack.yields.kind}` | {attack.paper} |")
    return "\n".join(lines)


def study_table() -> str:
    """Needs, purpose and paper of every study and baseline that comes with divulge."""
    lines = ["| study or baseline | from | what it does |", "|---|---|---|"]
    for name, study in registry.others().items():
        if study.__module__.startswith("divulge."):
            needs = " + ".join(f"`{need.kind}`" for need in study.needs)
            kind = "" if study.yields is None else "Baseline: "
            purpose = (study.__doc__ or "").strip().partition("\n")[0]
            lines.append(f"| `{name}` | {needs} | {kind}{purpose} |")
    return "\n".join(lines)


def readme() -> str:
    text = (HOME / "README.md").read_text(encoding="utf-8")
    for mark, table in (("attacks", attack_table()), ("studies", study_table())):
        text = re.sub(rf"(<!-- {mark}:.*?-->\n).*?(\n<!-- end -->)", rf"\1{table}\2", text, flags=re.DOTALL)
    return text


def command_line() -> str:
    parts = ["# The command line\n\nWritten by `make docs` from the program itself.\n"]
    for command in COMMANDS:
        words = [sys.executable, "-m", "divulge.cli", *command.split(), "--help"]
        plain = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        shown = subprocess.run(words, env=plain, capture_output=True, text=True, check=True).stdout
        shown = "\n".join(line.rstrip() for line in shown.strip().splitlines())
        parts.append(f"## divulge {command}".rstrip() + f"\n\n```\n{shown}\n```\n")
    return "\n".join(parts)


def picture(path: Path) -> None:
    """The top of the demonstration's report, as a browser shows it."""
    from playwright.sync_api import sync_playwright

    from divulge import demo

    sys.path.insert(0, str(HOME / "tests"))
    from conftest import QUIET, find_browser

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = demo.run(Path(folder) / "run", seed=0).report
        browser = playwright.chromium.launch(executable_path=find_browser(playwright), args=[*QUIET, "--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 1000}, color_scheme="light")
        page.goto(f"file://{page_file}")
        page.wait_for_load_state()
        page.screenshot(path=path)
        browser.close()


def main() -> int:
    wanted = {HOME / "README.md": readme(), HOME / "docs" / "command-line.md": command_line()}
    if "--check" in sys.argv:
        stale = [path.name for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        if stale:
            print(f"{' and '.join(stale)} do not say what the program does; run make docs")
        return len(stale)
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    if "--text" not in sys.argv:
        picture(HOME / "docs" / "report.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
