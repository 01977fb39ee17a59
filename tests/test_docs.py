"""The documentation says what the program does."""

import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parent.parent


def test_what_the_program_writes_into_the_documentation_is_current():
    check = [sys.executable, HOME / "scripts" / "make_docs.py", "--check"]
    ran = subprocess.run(check, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_link_of_the_documentation_leads_somewhere():
    import re

    for page in (HOME / "README.md", HOME / "CONTRIBUTING.md", *(HOME / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name} -> {link}"
