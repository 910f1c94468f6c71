"""What becomes of each trace can be asked: explain, stats, health and log lines."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, set_span_in_context

import otel_evals
from otel_evals import Rule, Run, Scorer, sampling, scorer
from otel_evals.errors import DestinationError
from otel_evals.scorers import answered
from tests.behaviour.app import App
from tests.behaviour.commands import otel_evals_command
from tests.support.waits import SECONDS, eventually

AGENT = {"gen_ai.operation.name": "invoke_agent"}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}


@scorer(version="1", inline=True)
def one(run: Run) -> float:
    return 1.0


def waits(event: threading.Event, name: str = "waits") -> Scorer:
    async def wait(run: Run) -> float:
        while not event.is_set():  # noqa: ASYNC110  # set on another thread
            await asyncio.sleep(0.005)
        return 1.0

    return scorer(id=name, version="1")(wait)  # type: ignore[no-any-return]  # it makes one


# --- explain ---


def test_a_scored_trace_is_explained_from_its_spans_to_its_destination() -> None:
    app = App(Rule(one, sample=sampling.ratio(1)), Rule(answered(), when=lambda run: False))
    found = app.run()
    app.settle()
    answer = app.pipeline.explain(found)
    assert answer.status == "scored"
    assert (answer.spans, answer.runs, answer.conventions) == (3, 1, ("otel_genai",))
    scored, skipped = answer.decisions
    assert (scored.rule, scored.status, scored.attempts, scored.value) == ("one", "scored", 1, 1.0)
    assert scored.probability == 1.0
    assert (skipped.rule, skipped.status, skipped.reason) == ("answered", "not_sampled", "not_applicable")
    assert answer.deliveries == (("memory", "exported"),)
    assert "not_applicable (the rule's `when` excludes the run)" in str(answer)


def test_a_trace_that_was_sampled_out_is_explained_with_the_numbers() -> None:
    """At its first span, where nothing is kept of it, and by its rule, where another rule wanted it."""
    app = App(Rule(one, sample=sampling.ratio(0.2)))
    lost = next(found for found in iter(app.run, "") if not sampling.is_sampled(0.2, int(found, 16)))
    answer = app.pipeline.explain(lost)
    assert answer.status == "ruled_out"
    assert f"randomness, {answer.randomness:.6f}" in str(answer)
    assert "below 0.800000, the lowest sampling threshold of all rules (probability 0.2)" in str(answer)

    app = App(Rule(one, sample=sampling.ratio(0.2)), answered())
    lost = next(found for found in iter(app.run, "") if not sampling.is_sampled(0.2, int(found, 16)))
    app.settle()
    (decision,) = [d for d in app.pipeline.explain(lost).decisions if d.rule == "one"]
    assert (decision.status, decision.reason) == ("not_sampled", "sampled_out")
    assert decision.threshold == pytest.approx(0.8)


def test_the_traces_that_were_seen_and_those_that_were_ruled_out_are_all_there_are() -> None:
    app = App(Rule(one, sample=sampling.ratio(0.3)))
    traces = [app.run() for _ in range(100)]
    app.settle()
    verdicts = Counter(app.pipeline.explain(found).status for found in traces)
    seen = app.pipeline.stats().seen
    assert verdicts == {"scored": seen, "ruled_out": 100 - seen}


def statuses(app: App, found: str) -> list[str]:
    return [decision.status for decision in app.pipeline.explain(found).decisions]


def test_every_stage_that_a_trace_can_be_in_is_told() -> None:
    """Open, running, queued, dropped, scored, unknown."""
    gate = threading.Event()
    app = App(Rule(waits(gate), concurrency=1), limits={"queue_size": 1}, grace=0.0)
    with app.tracer.start_as_current_span("invoke_agent open", attributes=AGENT) as root:
        first = f"{root.get_span_context().trace_id:032x}"
        app.tracer.start_span("chat", attributes={"gen_ai.operation.name": "chat"}).end()
        answer = app.pipeline.explain(first)
        assert (answer.status, answer.waiting_spans) == ("waiting_for_root", 1)
    traces = [first]
    eventually(lambda: statuses(app, first) == ["running"])
    for status in ("queued", "dropped"):
        traces.append(app.run())
        eventually(lambda status=status: statuses(app, traces[-1]) == [status])
    assert [app.pipeline.explain(found).status for found in traces] == ["pending", "pending", "dropped"]
    assert "queue_full (`limits.queue_size` evaluations" in str(app.pipeline.explain(traces[2]))
    gate.set()
    app.settle()
    assert [app.pipeline.explain(found).status for found in traces] == ["scored", "scored", "dropped"]
    stranger = app.pipeline.explain(12345)
    assert stranger.status == "unknown"
    assert "no convention claims its spans" in str(stranger)


def test_a_cascade_that_waits_is_told_and_shutdown_does_not_leave_it_waiting() -> None:
    """While the first scorer hangs the second waits; at the end it is not sampled, or dropped where it is."""
    gate = threading.Event()
    second = Rule(one, sample=sampling.below("waits", 2))
    third = Rule(answered(), sample=sampling.below("waits", 2) | sampling.ratio(1))
    app = App(third, second, waits(gate))
    found = app.run()
    statuses = {"waits": "running", "one": "waiting", "answered": "waiting"}
    eventually(lambda: {d.rule: d.status for d in app.pipeline.explain(found).decisions} == statuses)
    app.pipeline.shutdown(200)
    gate.set()
    assert app.pipeline.stats().check() == []
    assert app.rule("waits").dropped == {"shutdown": 1}
    assert app.rule("one").not_sampled == {"cascade_not_scored": 1}
    assert app.rule("answered").dropped == {"shutdown": 1}
    assert app.pipeline.explain(found).status == "dropped"


def test_a_trace_from_another_service_is_explained_with_its_tracestate() -> None:
    """The head sampler's threshold is part of the numbers, seen or unseen, where it is trusted."""
    state = TraceState([("ot", "th:8;rv:f0000000000000")])
    parent = SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)
    app = App(Rule(one, sample=sampling.ratio(0.5)), trust_remote=True)
    inside = set_span_in_context(NonRecordingSpan(parent))
    app.tracer.start_span("invoke_agent a", attributes=AGENT, context=inside).end()
    app.settle()
    (decision,) = app.pipeline.explain(7).decisions
    assert (decision.status, decision.probability, decision.threshold) == ("scored", 0.25, 0.75)
    unseen = app.pipeline.explain(9, "ot=th:8;rv:b0000000000000")
    assert unseen.status == "ruled_out"
    assert "is below 0.750000" in str(unseen)


def test_without_a_configuration_explain_and_health_answer_too() -> None:
    otel_evals.shutdown()
    assert otel_evals.explain("abc").status in ("unknown", "ruled_out")
    assert otel_evals.health().status == "idle"
    with pytest.raises(ValueError, match="not a trace id"):
        otel_evals.explain("nonsense")


def test_the_counters_and_explanations_can_be_read_after_the_shutdown() -> None:
    found = App(one).run()
    otel_evals.shutdown()
    assert otel_evals.stats().rules["one"].scored == 1
    assert otel_evals.explain(found).status == "scored"


def test_the_command_explains_from_a_file_of_scores(tmp_path: Path) -> None:
    app = App("answered", destinations=[{"jsonl": {"path": tmp_path / "scores.jsonl"}}])
    found = app.run()
    app.settle()
    options = ("--scores", tmp_path / "scores.jsonl")
    code, printed = otel_evals_command("explain", found, *options)
    assert (code, f"Trace {found}: scored" in printed) == (0, True), printed
    code, printed = otel_evals_command("explain", "f" * 32, *options)
    assert code == 1, printed


# --- stats ---


def test_a_span_that_ends_long_after_its_run_is_counted_as_late() -> None:
    app = App(one)
    roots: list[Any] = []
    app.run(during=roots.append)
    app.settle()
    app.tracer.start_span("late", attributes=TOOL, context=trace.set_span_in_context(roots[0])).end()
    app.settle()
    assert app.pipeline.stats().losses == {"span_late": 1}
    assert [len(each.run.tool_calls) for each in app.scored.runs] == [1]


# --- health ---


def test_health_notices_a_blocked_engine_and_its_recovery() -> None:
    """A scorer that blocks the engine's own thread."""
    inside, gate = threading.Event(), threading.Event()

    @scorer(version="1", inline=True)
    def blocks(run: Run) -> float:
        inside.set()
        gate.wait(SECONDS)
        return 1.0

    app = App(blocks, grace=0.0)
    assert otel_evals.health().status == "idle"
    app.run()
    assert inside.wait(SECONDS)
    app.run()
    time.sleep(0.3)  # the time without a beat counts, not what else goes on
    sick = otel_evals.health(stalled_after=0.2)
    assert (sick.status, sick.ok, sick.thread_alive) == ("stalled", False, True)
    assert sick.problem
    app.pipeline.explain(1)  # answers even while the engine is blocked
    gate.set()
    app.settle()
    well = otel_evals.health()
    assert (well.ok, well.problem, well.waiting, well.pending) == (True, None, 0, 0)
    assert well.last_end is not None


def test_health_names_rules_and_destinations_that_fail() -> None:
    class Refusing:
        name = "refusing"

        async def export(self, batch: Any) -> None:
            raise DestinationError("503", retryable=True)

        async def shutdown(self) -> None:
            return None

    @scorer(version="1")
    def raises(run: Run) -> float:
        raise KeyError("order")

    app = App(raises, destinations=[Refusing()], shutdown_timeout=0.3)
    traces = [app.run() for _ in range(12)]
    eventually(lambda: otel_evals.health().failing_destinations == ("refusing",))
    eventually(lambda: list(otel_evals.health().failing_rules) == ["raises"])
    assert not otel_evals.health().ok
    assert [point.value for point in app.points("otel_evals.rules.failing")] == [1]
    otel_evals.shutdown()
    assert app.pipeline.explain(traces[-1]).deliveries == (("refusing", "shutdown"),)
    assert app.pipeline.health().losses["scored runs for refusing (shutdown)"] == 12


# --- log lines ---


def lines(caplog: pytest.LogCaptureFixture, says: str = "") -> list[str]:
    """What the product logged and contains a text."""
    found = [record.getMessage() for record in caplog.records if record.name.startswith("otel_evals")]
    return [line for line in found if says in line]


def test_an_overload_is_two_lines_and_every_loss_is_in_the_last(caplog: pytest.LogCaptureFixture) -> None:
    """One line when it begins, one with the totals at the end."""
    gate = threading.Event()
    caplog.set_level(logging.WARNING)
    app = App(Rule(waits(gate), concurrency=1), limits={"queue_size": 5})
    for _ in range(50):
        app.run()
    eventually(lambda: len(lines(caplog)) == 1)
    gate.set()
    app.settle()
    app.pipeline.shutdown()
    dropped = app.rule("waits").dropped["queue_full"]
    first, last = lines(caplog)
    assert first.startswith("scoring is losing data: ")
    assert last.startswith("scoring lost data before shutdown, in total: ")
    assert f"{dropped} evaluations by waits (queue_full)" in last
