"""Every code-only scorer judges every run that real frameworks recorded, without a special case.

The captures are not part of the repository: name their folder in OTEL_EVALS_CAPTURES. With `-s` the table of
outcomes is printed.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from otel_evals import scorers
from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals.conventions import load_conventions
from otel_evals.model import Availability, NotScored, Run, Score
from otel_evals.scorers import FunctionScorer, checks
from tests.support.captures import FOLDERS, entries, paths_of

pytestmark = pytest.mark.skipif(not FOLDERS, reason="OTEL_EVALS_CAPTURES names no folder of captures")


def built() -> list[FunctionScorer]:
    return [
        scorers.answered(),
        scorers.completeness(),
        scorers.content_similarity(),
        scorers.grounded_in_tools(),
        scorers.keyword_coverage(),
        scorers.no_secrets(),
        scorers.repeated_calls(),
        scorers.same_language(),
        scorers.textual_difference(),
        scorers.tone_consistency(),
        scorers.tool_call_accuracy(expected_tool="get_weather"),
        scorers.tool_error_rate(),
        scorers.trajectory_accuracy(expected=["get_weather"]),
        scorers.trajectory_quality({"max_steps": 3, "max_tokens": 500, "max_seconds": 5}),
        scorers.unrecovered_tool_errors(),
        scorers.valid_json(),
        scorers.within_budget(max_tokens=500, max_seconds=5),
        checks.includes("weather"),
        checks.no_tool_errors(),
        checks.similarity("It is sunny in Paris"),
        checks.used_no_tools(),
    ]


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    conventions = load_conventions()
    found: list[Run] = []
    for folder, entry in entries():
        paths = paths_of(folder, entry)
        found += join_split_runs(run for trace in read_traces(paths) for run in find_runs(trace, conventions))
    assert len(found) > 300
    return found


@pytest.mark.slow
def test_no_captured_run_makes_a_code_scorer_fail(runs: list[Run]) -> None:
    async def judge() -> dict[str, Counter[str]]:
        table: dict[str, Counter[str]] = {}
        for scorer in built():
            outcomes = [await scorer.score(run) for run in runs]
            table[scorer.id] = Counter("scored" if isinstance(o, Score) else o.reason for o in outcomes)
        return table

    table = asyncio.run(judge())
    for name, counts in table.items():
        print(f"{name:<26}{counts.pop('scored', 0):>6}  {dict(counts.most_common())}")
    assert len(table) == len(built())


@pytest.mark.slow
def test_masked_content_is_told_apart_from_missing_content(runs: list[Run]) -> None:
    masked = [
        run for run in runs if run.availability.get("output") is Availability.CAPTURED_OFF and not run.output
    ]
    assert masked
    for run in masked:
        outcome = scorers.content_similarity()(run)
        assert isinstance(outcome, NotScored)
        assert "captured_off" in outcome.reason or "input" in outcome.reason
