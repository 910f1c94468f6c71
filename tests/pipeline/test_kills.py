"""kill -9 at the worst of times: what it costs with a store, with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kills import kill_often


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("kills", "unwritten"), [(20, 1), (3, 0)])
def test_a_kill_costs_what_the_store_had_not_written(tmp_path: Path, kills: int, unwritten: int) -> None:
    """What was written is kept, and nothing is delivered twice."""
    damage = kill_often(tmp_path, kills, unwritten=unwritten)
    assert damage.issued >= 5 * kills
    assert damage.doubled == 0
    assert max(damage.lost) <= unwritten
