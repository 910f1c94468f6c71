"""A short attack: everything hostile at once, and the promises checked after each round."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ATTACK = Path(__file__).parents[2] / "benchmarks" / "attack.py"


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(sys.platform != "linux", reason="it forks, and reads memory as Linux tells it")
def test_nothing_hostile_reaches_the_application() -> None:
    """Two rounds of fixed seeds, among them one with a store, a fork and threads that do not start."""
    command = [sys.executable, str(ATTACK), "--rounds", "2", "--seed", "5", "--length", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=390, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    found = json.loads(done.stdout)
    assert found["failed_seeds"] == []
    assert found["rounds"] == 2
    assert found["runs"] > 5
    assert found["spans"] > found["runs"]
