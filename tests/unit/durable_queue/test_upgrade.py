"""Files that earlier versions wrote: their runs are scored as if nothing had been upgraded.

Each file in `data/` is the dump of a real queue with one run. If the format changes, add a file, edit none.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from otel_evals import Rule, Run, Score, sampling, scorer
from tests.support.traffic import Live
from tests.support.waits import SECONDS

EARLIER = sorted((Path(__file__).parent / "data").glob("*.sql"))
CENTURY = 3.2e9


@scorer(version="1")
def answered(run: Run) -> Score:
    return Score(value=1.0, explanation=f"{run.agent_name}: {run.input} {run.output}")


@pytest.mark.parametrize("dump", EARLIER, ids=lambda path: path.stem)
def test_a_run_that_an_earlier_version_left_is_scored(dump: Path, tmp_path: Path) -> None:
    """Its content, its sampling probability and the identity of its span are what they were."""
    path = tmp_path / "runs.db"
    connection = sqlite3.connect(path)
    connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    path.chmod(0o600)
    rule = Rule(answered, sample=sampling.ratio(0.25))
    with Live(rule, store=str(path), store_max_age=CENTURY) as live:
        (scored,) = live.scored.wait_for(1, SECONDS)
        stats = live.pipeline.stats()
    (evaluation,) = scored.evaluations
    assert isinstance(evaluation.outcome, Score)
    assert evaluation.outcome.explanation == "support: Where is order A-1001? It arrives tomorrow."
    assert (evaluation.trace_id, evaluation.span_id) == (
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "00f067aa0ba902b7",
    )
    assert evaluation.sampled.probability == 0.25
    assert stats.check() == []
