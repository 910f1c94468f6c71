"""The steps, wired: spans in, scored runs out, and a reason for everything that does not get there."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, TraceFlags

from otel_evals import Rule, Run, Score, sampling, scorer
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.attach.hold import PendingScores
from otel_evals._internal.capture.items import CapturedSpan, RecordedSpan
from otel_evals._internal.evaluate.queue_interface import DurableQueue
from otel_evals._internal.read.runs import find_runs
from otel_evals.model import SpanRecord
from otel_evals.testing import InMemoryDestination
from tests.support.trace_builder import DIALECTS, TraceBuilder
from tests.support.traffic import agent_run, said
from tests.support.wired import Woken, wired

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}


@scorer(id="answered", version="1", inline=True)
def answered(run: Run) -> Score:
    return Score(value=float(bool(run.output)), explanation=run.output)


@scorer(id="asked", version="1")
async def asked(run: Run) -> Score:
    return Score(value=1.0, explanation=run.input)


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(body())


# --- in and out ---


def test_spans_become_a_run_with_a_score_of_each_rule() -> None:
    async def body() -> None:
        async with wired(Rule(answered), Rule(asked)) as w:
            trace_id = agent_run(w.tracer, "Where is it?", "On its way.")
            w.feed()
            evaluations = await w.settled()
            (scored,) = w.scored.runs
            assert scored.run.trace_id == f"{trace_id:032x}"
            assert [call.name for call in scored.run.tool_calls] == ["lookup_order"]
            found = {e.scorer_id: e.outcome.explanation for e in evaluations if isinstance(e.outcome, Score)}
            assert found == {"answered": "On its way.", "asked": "Where is it?"}
            stats = w.ledger.stats()
            assert (stats.seen, stats.eligible, stats.losses) == (1, 1, {})
            assert w.steps.rule_sets.waiting == 0

    run(body)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 4), st.randoms(use_true_random=False), st.integers(1, 20))
def test_however_spans_arrive_each_run_is_scored_once(count: int, rng: Any, size: int) -> None:
    """Runs interleaved, in batches of any size; each run's root last, as it ends last."""

    async def body() -> None:
        async with wired(Rule(answered)) as w:
            queues = []
            for _ in range(count):
                agent_run(w.tracer)
                items, w.captured = w.captured, []
                queues.append(items)
            traces = {f"{q[0].span.context.trace_id:032x}" for q in queues}  # type: ignore[union-attr]
            arrivals = []
            while any(queues):
                arrivals.append(rng.choice([q for q in queues if q]).pop(0))
            for start in range(0, len(arrivals), size):
                w.captured = arrivals[start : start + size]
                w.feed()
            await w.settled()
            assert sorted(s.run.trace_id for s in w.scored.runs) == sorted(traces)

    run(body)


def test_log_records_bring_the_content_of_their_span() -> None:
    async def body() -> None:
        async with wired(Rule(asked)) as w:
            loggers = LoggerProvider(shutdown_on_exit=False)
            loggers.add_log_record_processor(w.logs)
            with w.tracer.start_as_current_span("chat m", attributes={"gen_ai.operation.name": "chat"}):
                attributes = {"gen_ai.input.messages": said("user", "Where is it?")}
                loggers.get_logger("app").emit(
                    LogRecord(event_name="gen_ai.client.inference.operation.details", attributes=attributes)
                )
            w.feed()
            (evaluation,) = await w.settled()
            assert evaluation.outcome == Score(value=1.0, explanation="Where is it?")

    run(body)


def test_a_run_waits_for_its_grace_and_is_due_then() -> None:
    async def body() -> None:
        async with wired(Rule(answered), grace=0.05) as w:
            agent_run(w.tracer)
            before = time.monotonic()
            w.feed()
            assert w.ledger.stats().seen == 0
            assert w.steps.tick() <= before + 0.05 + 1.0
            await w.until(lambda: w.scored.runs)
            assert time.monotonic() >= before + 0.05

    run(body)


def test_spans_are_let_go_once_nothing_more_comes_for_them() -> None:
    """Those of a run that no rule judges at once; the judged one with its score."""

    async def body() -> None:
        scores, gone = PendingScores(), list[Any]()
        scores.add_exporter(Woken(gone))
        async with wired(Rule(asked, scope="agent"), attacher=Attacher(None, None, None, scores)) as w:
            agent_run(w.tracer)
            spans = [item.span.context for item in w.captured if isinstance(item, CapturedSpan)]
            keys = {(c.trace_id, c.span_id) for c in spans if c}
            for key in keys:
                scores.expect(*key)
            w.feed()
            root = next(key for key in keys if key not in gone)
            assert set(gone) == keys - {root}
            await w.settled()
            assert gone[-1] == root
            assert len(gone) == len(keys)

    run(body)


# --- what does not get there ---


def test_a_span_that_comes_after_its_run_is_lost_with_a_reason() -> None:
    async def body() -> None:
        async with wired(Rule(answered)) as w:
            agent_run(w.tracer)
            *early, late, root = w.captured
            w.captured = [*early, root]
            w.feed()
            await w.settled()
            w.captured = [late]
            w.feed()
            assert w.ledger.stats().losses == {"span_late": 1}
            logged = w.ledger.trace_log.get(w.scored.runs[0].run.trace_id)
            assert logged is not None
            assert logged.ignored == {"span_late": 1}
            assert len(w.scored.runs) == 1

    run(body)


def test_runs_that_no_rule_is_asked_about_have_a_reason() -> None:
    async def body() -> None:
        async with wired(Rule(answered)) as w:
            context = SpanContext(5, 6, is_remote=False, trace_flags=TraceFlags(0))
            unsampled = ReadableSpan("invoke_agent", context, attributes=AGENT, start_time=1, end_time=2)
            w.put(CapturedSpan(unsampled, 0))
            with w.tracer.start_as_current_span("model", attributes={"gen_ai.system": "m"}):
                pass
            w.feed()
            await w.settled()
            stats = w.ledger.stats()
            assert stats.ignored == {"trace_not_sampled": 1, "nothing_to_judge": 1}
            assert (stats.seen, stats.eligible, w.scored.runs) == (2, 0, ())

    run(body)


def test_a_root_that_never_ends_is_given_up_by_age_and_at_the_end() -> None:
    async def body() -> None:
        async with wired(Rule(answered), max_age=0.02) as w:
            for _ in range(2):
                with trace.use_span(w.tracer.start_span("invoke_agent", attributes=AGENT)):
                    agent_run(w.tracer)
                w.feed()
                await asyncio.sleep(0.05)
                if not w.ledger.stats().ignored:
                    await w.until(lambda: w.ledger.stats().ignored)
                    assert w.ledger.stats().ignored == {"root_never_ended": 1}
            with trace.use_span(w.tracer.start_span("invoke_agent", attributes=AGENT)):
                agent_run(w.tracer)
            w.feed()
            await w.steps.finish_all(time.monotonic() + 1)
            w.steps.end(())
            ended = w.ledger.stats().ignored
            assert ended == {"root_never_ended": 2, "root_not_ended_at_shutdown": 1}

    run(body)


def test_what_is_not_scored_by_the_end_is_dropped_and_counted() -> None:
    async def body() -> None:
        never = asyncio.Event()

        @scorer(id="hangs", version="1")
        async def hangs(run: Run) -> float:
            await never.wait()
            return 1.0

        async with wired(Rule(hangs), Rule(answered)) as w:
            agent_run(w.tracer)
            w.feed()
            assert not await w.steps.flush(time.monotonic() + 0.05)
            assert w.scored.runs == (), "a run is delivered whole"
            await w.steps.finish_all(time.monotonic() + 1)
            stats = w.ledger.stats()
            assert stats.rules["hangs"].dropped == {"shutdown": 1}
            assert stats.rules["answered"].scored == 1
            (scored,) = w.scored.runs
            assert {e.scorer_id: e.status for e in scored.evaluations} == {
                "hangs": "dropped",
                "answered": "scored",
            }

    run(body)


# --- deliveries, picks, and the end ---


def test_a_scored_run_can_be_handed_to_the_destinations_by_name() -> None:
    async def body() -> None:
        async with wired(Rule(answered)) as w:
            agent_run(w.tracer)
            w.feed()
            (evaluation,) = await w.settled()
            (scored,) = w.scored.runs
            assert w.steps.fan_out.put(scored) == ["memory"]
            assert w.steps.fan_out.put(scored, ["elsewhere"]) == []
            await w.settled()
            assert w.scored.runs == (scored, scored)
            assert await w.steps.fan_out.lacking([evaluation.evaluation_id], 1) == ["memory"]

    run(body)


class Keeper(InMemoryDestination):
    """Keeps what rules picked, if it is not down."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.told: list[Sequence[Any]] = []

    async def keep_picks(self, rows: Sequence[Any]) -> None:
        if self.down:
            raise OSError("the disk is full")
        self.told.append(rows)


def test_picks_that_a_destination_took_are_not_reported_again_and_others_are() -> None:
    async def body() -> None:
        keeper = Keeper()
        async with wired(Rule(answered, sample=sampling.ratio(0.999)), destinations=[keeper]) as w:
            agent_run(w.tracer)
            w.feed()
            keeper.down = True
            await w.steps.report_picks()
            assert keeper.told == []
            keeper.down = False
            await w.steps.report_picks()
            await w.steps.report_picks()
            ((row,),) = keeper.told
            assert (row.rule, row.picks.runs) == ("answered", 1)

    run(body)


class Keeping(DurableQueue):
    keeps = True


ASKS = '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "look_up"}]}]'
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": "Where?", "gen_ai.output.messages": ASKS}


@pytest.mark.parametrize("store", [DurableQueue(), Keeping()])
def test_open_runs_runs_that_wait_for_a_next_call_and_items_count_once(store: DurableQueue) -> None:
    """A store has the first two; the third never reached it."""

    async def body() -> None:
        async with wired(Rule(answered), store=store, grace=60.0) as w:
            agent_run(w.tracer)
            w.feed()
            (waits,) = find_runs(TraceBuilder("app").add("chat m", CHAT).spans, DIALECTS)
            w.steps._split_runs.add(waits, 0.0)
            never_taken = RecordedSpan(SpanRecord(trace_id="c" * 32, span_id="c" * 16), 0)
            for items in ([never_taken], []):
                w.steps.end(items)
                lost = 1 if store.keeps else 3
                assert w.ledger.stats().ignored == {"undecided_at_shutdown": lost}

    run(body)


# --- the cost of waiting ---


def test_a_run_that_waits_for_its_judge_leaves_the_garbage_collector_little() -> None:
    """A full collection of the application walks every tracked object of every run in flight."""

    async def main() -> None:
        gate, runs = asyncio.Event(), 64

        @scorer(id="waits", version="1")
        async def waits(_: Run) -> bool:
            return await gate.wait()

        def tracked() -> int:
            gc.collect()
            return len(gc.get_objects())

        async with wired(Rule(waits, concurrency=runs)) as steps:
            agent_run(steps.tracer)
            steps.feed()
            before = tracked()
            for _ in range(runs):
                agent_run(steps.tracer)
            steps.feed()
            await asyncio.sleep(0)
            assert (tracked() - before) / runs < 32
            gate.set()
            assert len(await steps.settled()) == runs + 1

    run(main)
