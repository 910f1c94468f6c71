"""A short soak: live traffic with faults of every kind at once, and the counters checked at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.skipif(sys.platform != "linux", reason="its faults need Linux")
def test_the_books_balance_and_every_span_leaves_whatever_breaks() -> None:
    """25 seconds in which every fault happens: it is found in the counters, and nothing else is."""
    command = [sys.executable, str(SOAK), "--minutes", "0.42", "--rate", "60", "--share", "0.1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=140, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)

    assert found["violations"] == []
    assert found["flushed"] or found["pending_after_flush"], "only what is tried again may be under way"
    assert found["seen"] == found["runs"] > 1_000
    assert found["spans_missing"] == 0
    judge, isolated = found["rules"]["judge"], found["rules"]["counts_letters"]
    assert sum(rule["pending"] for rule in found["rules"].values()) == 0
    assert sum(sum(rule["dropped"].values()) for rule in found["rules"].values()) == 0

    assert {"RuntimeError", "timeout"} <= set(judge["failed"])
    assert found["killed"] >= 2, "processes that score were killed"
    assert isolated["scored"] > 50
    assert "the journal: " in done.stderr, "the disk was full"
    assert found["journal_left"] == [], "what is delivered is deleted"
    assert found["destinations"]["unreliable"]["losses"] == {}
    assert "did not accept a batch" in done.stderr, "the destination was down"
