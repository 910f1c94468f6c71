"""A run is scored at its root's end where nothing comes later, and no log record is lost by that."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable

import anyio
import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.trace import Span, set_span_in_context

from otel_evals.model import Run, Score
from otel_evals.scorers import scorer
from tests.support.wired import Wired, wired

GRACE = 0.2


@scorer(inline=True)
def has_output(run: Run) -> bool:
    return run.output == "It is on its way."


def agent_span(wired: Wired, *, output: bool = True) -> Span:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    if output:
        message = {"role": "assistant", "parts": [{"type": "text", "content": "It is on its way."}]}
        attributes["gen_ai.output.messages"] = json.dumps([message])
    return wired.tracer.start_span("chat m", attributes=attributes)


async def after_many_runs(wired: Wired, run: Callable[[], object]) -> None:
    """Let enough runs wait for their grace period."""
    for _ in range(40):
        run()
    wired.feed()
    await asyncio.sleep(GRACE * 1.5)
    wired.feed()
    await wired.settled()


def eligible(wired: Wired) -> int:
    return wired.ledger.stats().rules["has_output"].eligible


def test_a_run_of_a_known_scope_is_read_as_soon_as_its_root_ends() -> None:
    async def main() -> None:
        async with wired(has_output, grace=GRACE) as steps:
            await after_many_runs(steps, lambda: agent_span(steps).end())
            agent_span(steps).end()
            steps.feed()
            assert eligible(steps) == 41, "it did not wait"

    anyio.run(main)


def test_a_run_waits_while_a_span_of_its_trace_is_open_in_another_thread() -> None:
    async def main() -> None:
        async with wired(has_output, grace=GRACE) as steps:
            await after_many_runs(steps, lambda: agent_span(steps).end())
            root = agent_span(steps)
            child = steps.tracer.start_span(
                "execute_tool t",
                context=set_span_in_context(root),
                attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"},
            )
            root.end()
            steps.feed()
            assert eligible(steps) == 40
            other = threading.Thread(target=child.end)
            other.start()
            other.join()
            steps.feed()
            await steps.settled()
            assert eligible(steps) == 41
            assert not steps.ledger.stats().ignored

    anyio.run(main)


@pytest.mark.parametrize("when", ["before", "after", "another thread"])
def test_no_log_record_is_lost_however_late_it_comes(when: str) -> None:
    async def main() -> None:
        async with wired(has_output, grace=GRACE) as steps:
            provider = LoggerProvider(shutdown_on_exit=False)
            provider.add_log_record_processor(steps.logs)
            logger = provider.get_logger("tests.app")

            def log(span: Span) -> None:
                logger.emit(
                    LogRecord(
                        context=set_span_in_context(span),
                        event_name="gen_ai.choice",
                        body={"index": 0, "message": {"role": "assistant", "content": "It is on its way."}},
                    )
                )

            def run() -> None:
                span = agent_span(steps, output=False)
                if when == "before":
                    log(span)
                span.end()
                if when == "after":
                    log(span)
                if when == "another thread":
                    other = threading.Thread(target=log, args=(span,))
                    other.start()
                    other.join()

            await after_many_runs(steps, run)
            for _ in range(3):
                span = agent_span(steps, output=False)
                span.end()
                steps.feed()
                log(span)
                steps.feed()
            evaluations = await steps.settled()
            outcomes = [e.outcome for e in evaluations]
            assert [o.value for o in outcomes if isinstance(o, Score)] == [1.0] * 43
            assert not steps.ledger.stats().ignored

    anyio.run(main)


def test_a_choice_that_was_logged_on_the_applications_span_is_the_answer() -> None:
    """Instrumentations log a stream's choice when it was read to its end, after the call's span."""

    async def main() -> None:
        async with wired(has_output, grace=GRACE) as steps:
            provider = LoggerProvider(shutdown_on_exit=False)
            provider.add_log_record_processor(steps.logs)
            logger = provider.get_logger("tests.app")
            for _ in range(5):
                request = set_span_in_context(steps.tracer.start_span("GET /answer"))
                attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
                steps.tracer.start_span("chat m", context=request, attributes=attributes).end()
                body = {"index": 0, "message": {"role": "assistant", "content": "It is on its way."}}
                logger.emit(LogRecord(context=request, event_name="gen_ai.choice", body=body))
                steps.feed()
            await asyncio.sleep(GRACE * 1.5)
            steps.feed()
            outcomes = [e.outcome for e in await steps.settled()]
            assert [o.value for o in outcomes if isinstance(o, Score)] == [1.0] * 5

    anyio.run(main)
