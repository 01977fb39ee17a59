"""An audit of a model on a server, killed at random moments, pays for no answer twice and ends with the same finding."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parent.parent / "bench" / "kills.py"


@pytest.mark.slow
def test_twenty_kills_lose_nothing_damage_nothing_and_pay_for_no_answer_twice() -> None:
    ended = subprocess.run([sys.executable, str(BENCH), "20"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 contradictions" in ended.stdout
