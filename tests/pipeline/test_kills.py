"""kill -9 at the worst of times: what it costs with a store, with real processes."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.support.kills import kill_often


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_kill_right_after_a_run_costs_that_run_at_most(tmp_path: Path) -> None:
    """Twenty times: what ended a moment before is in the store, and nothing is delivered twice."""
    damage = kill_often(tmp_path, 20)
    assert damage.issued > 200
    assert damage.doubled == 0
    assert statistics.median(damage.lost) <= 1
    assert damage.oldest < 0.25, "a machine that is busy with other work may take long to switch threads"


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_kill_a_little_later_costs_nothing(tmp_path: Path) -> None:
    """A quarter of a second is enough on any machine."""
    damage = kill_often(tmp_path, 3, pause=0.25)
    assert damage.lost == [0, 0, 0]
    assert damage.doubled == 0
