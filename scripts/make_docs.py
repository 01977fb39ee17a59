"""Write the parts of the documentation that the program knows best; with --check, only say whether they are current."""

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import grimp

from divulge import registry
from divulge.targets import protocols

HOME = Path(__file__).parent.parent
COMMANDS = (
    "",
    "demo",
    "init",
    "audit",
    "attack",
    "attack hyperparameters",
    "attacks",
    "study",
    "studies",
    "risk",
    "reproduce",
    "report",
    "verify",
)


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


def protocol_table() -> str:
    """Every protocol that comes with divulge."""
    lines = ["| protocol | what speaks it | address | explanations |", "|---|---|---|---|"]
    for name in protocols.names():
        preset = protocols.read(name)
        if preset.explain is None:
            explained = "where you say"
        else:
            explained = "in the same answer" if preset.explain.get("values") else f"`{preset.explain['url']}`"
        lines.append(f"| [`{name}`]({preset.described}) | {preset.about} | `{preset.address}` | {explained} |")
    return "\n".join(lines)


def services() -> str:
    text = (HOME / "docs" / "services.md").read_text(encoding="utf-8")
    return re.sub(
        r"(<!-- protocols:.*?-->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{protocol_table()}\n{m[2]}", text, flags=re.DOTALL
    )


def command_line() -> str:
    parts = ["# The command line\n\nWritten by `make docs` from the program itself.\n"]
    for command in COMMANDS:
        words = [sys.executable, "-m", "divulge.cli", *command.split(), "--help"]
        plain = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        shown = subprocess.run(words, env=plain, capture_output=True, text=True, check=True).stdout
        shown = "\n".join(line.rstrip() for line in shown.strip().splitlines())
        parts.append(f"## divulge {command}".rstrip() + f"\n\n```\n{shown}\n```\n")
    return "\n".join(parts)


def rooms() -> dict[str, set[str]]:
    """Room -> rooms that it imports, by what stands in the source; a room is a module or package right under divulge."""
    graph = grimp.build_graph("divulge", cache_dir=None)
    imports: dict[str, set[str]] = {}
    for module in graph.modules:
        if module.count("."):
            imports.setdefault(module.split(".")[1], set())
            for other in graph.find_modules_directly_imported_by(module):
                if other.count("."):
                    imports[module.split(".")[1]].add(other.split(".")[1])
    return {room: found - {room} for room, found in imports.items()}


def nearest(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without the arrows that follow from two others."""

    def reached(room: str) -> set[str]:
        return imports[room] | {far for near in imports[room] for far in reached(near)}

    return {room: {one for one in near if not any(one in reached(other) for other in near - {one})}
            for room, near in imports.items()}  # fmt: skip


def purpose(path: Path) -> str:
    """The first sentence of a module's or package's docstring."""
    source = path / "__init__.py" if path.is_dir() else path
    return (ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def architecture() -> str:
    """Rooms and the arrows between them, and what each folder of solvers solves, from the source."""
    imports, home = rooms(), HOME / "src" / "divulge"
    arrows = [f"  {room} --> {other}" for room, near in sorted(nearest(imports).items()) for other in sorted(near)]
    places = {room: home / room if (home / room).is_dir() else home / f"{room}.py" for room in sorted(imports)}
    table = [f"| `{room}` | {purpose(path)} |" for room, path in places.items()]
    folders = sorted(path for path in (home / "solvers").iterdir() if (path / "__init__.py").exists())
    solved = [f"| `solvers/{path.name}` | {purpose(path)} | {_modules(path)} |" for path in folders]
    leaks = sorted(path for path in (home / "attacks").iterdir() if (path / "__init__.py").exists())
    attacked = [f"| `attacks/{path.name}` | {purpose(path)} |" for path in leaks]
    return "\n".join(
        [
            "# Architecture",
            "",
            "Written by `make docs` from the source. An arrow is an import; those that follow from two others are left out.",
            "",
            "```mermaid",
            "flowchart TD",
            *arrows,
            "```",
            "",
            "| room | what it is |",
            "|---|---|",
            *table,
            "",
            "## Where each problem is solved",
            "",
            "| folder | the problem | modules |",
            "|---|---|---|",
            *solved,
            "",
            "## Where each leak is",
            "",
            "| folder | the leak |",
            "|---|---|",
            *attacked,
            "",
        ]
    )


def _modules(path: Path) -> str:
    return ", ".join(sorted(file.stem for file in path.glob("*.py") if file.stem != "__init__"))


def picture(path: Path) -> None:
    """The top of the demonstration's report, as a browser shows it."""
    from playwright.sync_api import sync_playwright

    from divulge import demo

    sys.path.insert(0, str(HOME / "tests"))
    from conftest import QUIET, find_browser  # type: ignore[import-not-found]  # beside the tests, found by the line above

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = demo.run(Path(folder) / "run", seed=0).report
        browser = playwright.chromium.launch(executable_path=find_browser(playwright), args=[*QUIET, "--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 1000}, color_scheme="light")
        page.goto(f"file://{page_file}")
        page.wait_for_load_state()
        page.screenshot(path=path)
        browser.close()


def main() -> int:
    docs = HOME / "docs"
    wanted = {
        HOME / "README.md": readme(),
        docs / "command-line.md": command_line(),
        docs / "architecture.md": architecture(),
        docs / "services.md": services(),
    }
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
