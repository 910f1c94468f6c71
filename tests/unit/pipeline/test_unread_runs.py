"""What is left when scoring ends is counted once, unless a store has it."""

from __future__ import annotations

import pytest

from otel_evals._internal.capture.items import RecordedSpan
from otel_evals._internal.gather.gatherer import AssemblyLimits
from otel_evals._internal.gather.local_gatherer import LocalGatherer
from otel_evals._internal.pipeline.unread_runs import undecided, what_is_left
from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import SplitRuns
from otel_evals.model import SpanRecord
from tests.support.trace_builder import DIALECTS, TraceBuilder
from tests.support.traffic import said

LIMITS = AssemblyLimits(grace=1.0, max_age=600.0, max_traces=10, max_spans_per_trace=10, max_bytes=10**6)
ASKS = '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look_up"}]}]'
CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": said("user", "Where is my order?"),
    "gen_ai.output.messages": ASKS,
}


@pytest.mark.parametrize("kept", [False, True])
def test_open_runs_runs_that_wait_for_a_next_call_and_items_count_once(kept: bool) -> None:
    """A store has the first two; the third never reached it."""
    held = SplitRuns()
    (run,) = find_runs(TraceBuilder("app").add("chat m", CHAT).spans, DIALECTS)
    assert held.add(run, 0.0) == []
    gatherer = LocalGatherer(LIMITS, report_ended=kept)
    gatherer.add([RecordedSpan(SpanRecord(trace_id="b" * 32, span_id="b" * 16), 0)], 0.0)
    never_taken = RecordedSpan(SpanRecord(trace_id="c" * 32, span_id="c" * 16), 0)

    lost = what_is_left(gatherer, held, [never_taken], kept=kept)
    others = [] if kept else [undecided("b" * 32), undecided(run.trace_id)]
    assert sorted(loss.trace_id for loss in lost) == sorted(
        loss.trace_id for loss in [undecided("c" * 32), *others]
    )
    assert {(loss.reason, loss.count) for loss in lost} == {("undecided_at_shutdown", 1)}
    assert what_is_left(gatherer, held, [], kept=kept) == []
