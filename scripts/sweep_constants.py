"""Move every number at the top of a module, one at a time, and say which moves no test notices.

    python scripts/sweep_constants.py src/divulge/solvers/images/span.py --tests tests/solvers/images

A number that nothing notices is either not needed, or not tested. The source is copied first; nothing here is changed.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HOME = Path(__file__).parent.parent


@dataclass(frozen=True)
class Number:
    """One number at the top of a module."""

    name: str
    line: int
    start: int
    end: int
    text: str

    @property
    def value(self) -> float:
        return float(ast.literal_eval(self.text))


def numbers(source: str) -> Iterator[Number]:
    """Numbers that a capital name is bound to, alone, in a tuple or in a dict."""
    offsets = [0]
    for line in source.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        name = ast.unparse(targets[0])
        if not name.strip("()").replace("_", "").replace(",", "").replace(" ", "").isupper():
            continue
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
                start = offsets[node.lineno - 1] + node.col_offset
                end = offsets[node.end_lineno - 1] + node.end_col_offset  # type: ignore[operator]  # parsed from text
                yield Number(name, node.lineno, start, end, source.encode()[start:end].decode())


def moves(number: Number, factor: float | None) -> list[str]:
    """A larger and a smaller value: by 10 where a number spans orders of magnitude, else by 2."""
    value = number.value
    far = factor or (10.0 if value and not 0.01 <= abs(value) <= 100 else 2.0)
    whole = number.text.replace("_", "").isdigit()
    moved = {value * far, value / far} if value else {1.0}
    if whole:
        moved = {float(round(one)) for one in moved} | ({value + 1} if value <= 1 else set())
    return [repr(int(one) if whole else one) for one in sorted(moved - {value})]


def noticed(copy: Path, tests: list[str], seconds: float) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:randomly", *tests]
    try:
        ran = subprocess.run(command, cwd=HOME, env=environment, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return True  # a move that makes the tests take this long is one that somebody notices
    return ran.returncode == 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", type=Path)
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--only", nargs="*", help="names to move; all by default")
    parser.add_argument("--factor", type=float, help="by how much; 10 or 2 by default")
    parser.add_argument("--seconds", type=float, default=600.0, help="the most that the tests may take")
    given = parser.parse_args()
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(HOME / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        if noticed(copy, given.tests, given.seconds):
            print("the tests fail as they are; mend them first")
            return 2
        for module in given.modules:
            path = copy / module.resolve().relative_to(HOME / "src")
            source = path.read_text(encoding="utf-8")
            for number in numbers(source):
                if given.only and not any(name.strip("() ") in given.only for name in number.name.split(",")):
                    continue
                for moved in moves(number, given.factor):
                    raw = source.encode()
                    path.write_bytes(raw[: number.start] + moved.encode() + raw[number.end :])
                    seen = noticed(copy, given.tests, given.seconds)
                    unnoticed += not seen
                    word = "noticed" if seen else "UNNOTICED"
                    print(f"{word:10} {module}:{number.line} {number.name} {number.text} -> {moved}", flush=True)
                path.write_text(source, encoding="utf-8")
    print(f"{unnoticed} moves that no test notices")
    return int(unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main())
