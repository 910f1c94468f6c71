"""The trace log and how it is explained, loss lines and the health probe, each by itself."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import islice

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel_evals import sampling
from otel_evals._internal.accounting.counters import LoggedTrace, judge_health
from otel_evals._internal.accounting.explanation import explain_logged, explain_unknown
from otel_evals._internal.accounting.ledger import (
    _EVALUATION_BYTES,
    _FORGOTTEN_AT_ONCE,
    _TRACE_BYTES,
    TraceLog,
)
from otel_evals._internal.accounting.problem_log import LossLog
from otel_evals.model import (
    Direction,
    Evaluation,
    Operation,
    OperationKind,
    Run,
    Sampled,
    Score,
    ScoredRun,
    SpanRecord,
)
from otel_evals.sampling import Chance
from tests.support.replacing import replace


def run(number: int, convention: str = "otel_genai") -> Run:
    trace_id = f"{number:032x}"
    span = SpanRecord(trace_id=trace_id, span_id=f"{number:016x}")
    operation = Operation(span=span, kind=OperationKind.AGENT, convention=convention)
    return Run(
        trace_id=trace_id,
        root_span_id=span.span_id,
        root_kind=OperationKind.AGENT,
        operations=(operation,),
    )


def scored(judged: Run, name: str = "a", value: float = 0.5) -> Evaluation:
    return Evaluation(
        evaluation_id="e",
        scorer_id=name,
        scorer_version="1",
        direction=Direction.HIGHER,
        trace_id=judged.trace_id,
        span_id=judged.root_span_id,
        outcome=Score(value=value),
        sampled=Sampled(1.0, "always()"),
        duration=0.25,
    )


def tell(log: TraceLog, number: int, rules: int = 2) -> None:
    """What the pipeline tells of one run that every rule scores."""
    judged = run(number)
    log.assembled(judged.trace_id, 3, [judged])
    evaluations = [scored(judged, f"rule{i}") for i in range(rules)]
    for evaluation in evaluations:
        log.decided(judged, evaluation.scorer_id, "queued", None, Chance(1.0))
        log.ended(evaluation.scorer_id, evaluation, evaluation.status, evaluation.reason)
    log.delivered("memory", [ScoredRun(run=judged, evaluations=tuple(evaluations))], "exported")


def test_a_trace_reads_like_an_answer() -> None:
    """From the first span to the destination, in the order it happened."""
    log = TraceLog()
    tell(log, 7, rules=1)
    trace = log.get(f"{7:032x}")
    assert trace is not None
    text = str(explain_logged(f"{7:032x}", trace, {"rule0": "always()"}))
    assert text.splitlines() == [
        f"Trace {7:032x}: scored.",
        "  Seen: 3 spans, read as otel_genai, in 1 run.",
        f"  rule0, span {7:016x}: sampled by always(); score 0.5 (took 0.250 s).",
        "  Destination memory: 1 scored run, exported (the destination accepted them).",
    ]


@given(
    st.sampled_from([2_000, 8_000]),
    st.lists(st.tuples(st.sampled_from([0, 100, 400]), st.integers(0, 3)), min_size=1, max_size=60),
)
@example(2_000, [(0, 0)] * 8)
def test_as_many_of_the_newest_traces_are_remembered_as_fit(most: int, traces: list[tuple[int, int]]) -> None:
    """Traces with two runs, the trace state of the last one, and decisions of some rules."""
    log, kept = TraceLog(max_bytes=most), dict[int, int]()
    for number, (length, rules) in enumerate(traces):
        kept[number] = _TRACE_BYTES
        while sum(kept.values()) > most and len(kept) > 1:
            for oldest in list(islice(kept, len(kept) // _FORGOTTEN_AT_ONCE + 1)):
                del kept[oldest]
        judged = replace(run(number), trace_state="s" * length)
        log.assembled(judged.trace_id, 3, [replace(judged, trace_state="other"), judged])
        for rule in range(rules):
            log.decided(judged, str(rule), "queued")
        kept[number] += length + rules * _EVALUATION_BYTES
    assert [number for number in range(len(traces)) if log.get(f"{number:032x}")] == list(kept)


def test_the_traces_remembered_by_default_fit_in_their_memory() -> None:
    """Two hundred of them, with two rules each, take less than a fiftieth of it."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    log = TraceLog()
    for number in range(1, 201):
        tell(log, number)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(log) == 200
    assert taken < 24 * 1024 * 1024 / 50


def test_one_trace_with_endless_decisions_and_deliveries_is_bounded() -> None:
    log = TraceLog()
    judged = run(1)
    for number in range(2_000):
        log.decided(judged, f"rule{number}", "not_sampled", "sampled_out")
        log.delivered("memory", [ScoredRun(run=judged)], "exported")
    trace = log.get(judged.trace_id)
    assert trace is not None
    assert len(trace.deliveries) == 500
    explanation = explain_logged(judged.trace_id, trace, {})
    assert (len(explanation.decisions), explanation.more) == (500, 1500)
    assert "1500 more decisions." in str(explanation)


@given(st.integers(1, (1 << 128) - 1), st.floats(0, 1))
def test_an_unseen_trace_is_explained_by_its_id(number: int, ceiling: float) -> None:
    """Lost at the start if and only if no rule could pick it."""
    explanation = explain_unknown(f"{number:032x}", ceiling, "", ("doubt",))
    lost = not sampling.is_sampled(ceiling, number)
    assert explanation.status == ("ruled_out" if lost else "unknown")
    assert ("doubt" in str(explanation)) is not lost


def test_what_is_ignored_is_explained_with_its_reason() -> None:
    trace = LoggedTrace(ignored=Counter({"too_many_bytes": 2}))
    explanation = explain_logged("1" * 32, trace, {})
    assert explanation.status == "ignored"
    assert "Ignored: 2, too_many_bytes (open traces exceeded `limits.max_bytes`" in str(explanation)


# --- loss lines ---


class Losing:
    """Totals and a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.totals: Counter[str] = Counter()
        self.log = LossLog(clock=lambda: self.now)

    def go(self, seconds: float, losses_per_second: int = 0) -> None:
        for _ in range(int(seconds * 10)):
            self.now += 0.1
            if losses_per_second:
                self.totals["runs (queue_full)"] += losses_per_second // 10
            self.log.poll(self.totals)


def test_losses_are_told_once_a_minute_and_in_total(
    caplog: pytest.LogCaptureFixture,
) -> None:
    losing = Losing()
    for _ in range(20):
        losing.go(3, losses_per_second=10)
        losing.go(27)
    losing.log.close(losing.totals)
    losing.go(100, losses_per_second=10)  # the totals are the last line
    *lines, last = (r.getMessage() for r in caplog.records)
    assert 9 <= len(lines) <= 11
    assert int(last.split("in total: ")[1].split()[0]) == 600


def test_without_losses_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    losing = Losing()
    losing.go(100)
    losing.log.close(losing.totals)
    assert not caplog.records


# --- health ---


def health(**changes: object) -> str:
    facts = {
        "closed": False,
        "started": True,
        "thread_alive": True,
        "waiting": 0,
        "pending": 0,
        "since_beat": 0.1,
        "since_progress": 0.1,
        "beat_limit": 10.0,
        "progress_limit": 60.0,
    }
    status, problem = judge_health(**{**facts, **changes})  # type: ignore[arg-type]  # facts of many types
    assert (problem is None) is (status in ("healthy", "idle")), "what is wrong is said"
    return status


def test_health_tells_stalled_from_busy_and_idle() -> None:
    assert health() == "idle"
    assert health(pending=5) == health(waiting=5) == "healthy"
    assert health(since_beat=11.0) == "stalled"
    assert health(pending=1, since_progress=61.0) == "stalled"
    assert health(pending=0, since_progress=3600.0) == "idle"
    assert health(thread_alive=False) == "stalled"
    assert health(problems=["scores do not reach jsonl"]) == "degraded"
    assert [health(failing={"judge": "timeout"}, closed=closed) for closed in (False, True)] == [
        "degraded",
        "idle",
    ]
    assert health(thread_alive=False, closed=True) == "idle"
    assert health(thread_alive=False, started=False, since_beat=None) == "idle"
    beginning = {"thread_alive": False, "started": False, "since_beat": None, "waiting": 7}
    assert health(**beginning) == "healthy"  # its first item was put, and it is being started
    assert health(**beginning, unstartable=True) == "stalled"
