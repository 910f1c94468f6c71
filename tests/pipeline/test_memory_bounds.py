"""What is held is bounded in bytes at every stage, whatever the spans hold: measured as resident memory."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest

MAX_BYTES = 10_000_000
SENT = 300_000_000
"""Bytes of content that each attack sends."""
ALLOWED = 150_000_000
"""Bytes that the process may grow by: a few steps of `max_bytes`, each once read and once redacted."""

APPLICATION = """
    import gc, json, os, resource, tempfile, time
    from opentelemetry import trace
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry._logs import LogRecord
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    import otel_evals
    from otel_evals import Rule, Run, sampling
    from otel_evals import scorer
    from otel_evals._internal.model import SpanRecord
    from otel_evals.testing import InMemoryDestination

    MAX_BYTES, SENT, SIZE = {max_bytes}, {sent}, 200_000
    AGENT = {{"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}}
    TOOL = {{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"}}
    COUNT = SENT // SIZE
    JOURNAL = os.path.join(tempfile.mkdtemp(), "journal")
    loggers = LoggerProvider()
    logger = loggers.get_logger("app")
    provider = TracerProvider(span_limits=SpanLimits(max_span_attribute_length=None))
    tracer = provider.get_tracer("app")

    class Down(InMemoryDestination):
        async def export(self, batch):
            raise ConnectionError("nobody there")

    def text(number):
        return str(number) + "x" * SIZE

    def rss():
        gc.collect()
        return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

    def configured(*rules, destinations=(), **options):
        return otel_evals.configure(
            rules=list(rules), destinations=list(destinations), tracer_provider=provider,
            logger_provider=loggers, limits={{"max_bytes": MAX_BYTES}}, **options,
        )

    @scorer(inline=True, version="1")
    def answered(run: Run) -> float:
        return 1.0

    @scorer(version="1", id="slow")
    async def slow(run: Run) -> float:
        import asyncio
        await asyncio.sleep(3600)
        return 1.0

    def root(**attributes):
        with tracer.start_as_current_span("invoke_agent", attributes={{**AGENT, **attributes}}) as span:
            return span

    def said(span, body):
        logger.emit(LogRecord(event_name="e", body=body, context=trace.set_span_in_context(span)))

    {attack}

    before = rss()
    scoring = attack()
    after = max(rss(), before)
    stats = scoring.stats()
    print(json.dumps({{
        "grown": after - before, "losses": dict(stats.losses), "ignored": dict(stats.ignored),
        "dropped": {{k: dict(r.dropped) for k, r in stats.rules.items()}},
        "lost": dict(stats.conversations.lost), "seen": stats.seen, "problems": stats.check(),
    }}), flush=True)
    os._exit(0)
"""

OPEN = """
    def attack():
        scoring = configured(Rule(answered))
        with tracer.start_as_current_span("invoke_agent", attributes=AGENT):
            for number in range(COUNT):
                {span}
                if number % 10 == 0:
                    time.sleep(0.01)
        time.sleep(0.5)
        return scoring
"""
TOOLS = {
    "texts": 'with tracer.start_as_current_span("t", attributes={**TOOL, "x": text(number)}): pass',
    "tuples": (
        'with tracer.start_as_current_span("t", attributes={**TOOL, "x": [text(number)[k::50] '
        "for k in range(50)]}): pass"
    ),
    "keys": 'with tracer.start_as_current_span("t", attributes={**TOOL, text(number): 1}): pass',
    "names": "with tracer.start_as_current_span(text(number), attributes=TOOL): pass",
    "events": (
        'with tracer.start_as_current_span("t", attributes=TOOL) as span: '
        'span.add_event("e", {"x": text(number)})'
    ),
    "links": (
        'with tracer.start_as_current_span("t", attributes=TOOL, links=[trace.Link(trace.SpanContext(n + 1, '
        "n + 1, False)) for n in range(128)], ) as span: span.set_attribute('x', text(number))"
    ),
    "statuses": (
        'with tracer.start_as_current_span("t", attributes=TOOL) as span: '
        "span.set_status(trace.StatusCode.ERROR, text(number))"
    ),
    "log records": (
        'with tracer.start_as_current_span("t", attributes=TOOL) as span: said(span, {"x": [text(number)]})'
    ),
    "log records of nobody": ('with tracer.start_as_current_span("t") as span: said(span, text(number))'),
}
LATER = {
    "a judge that hangs": """
    def attack():
        scoring = configured(Rule(slow, concurrency=2, timeout=3600), grace=0.0)
        for number in range(COUNT):
            root(x=text(number))
            time.sleep(0.003)
        time.sleep(1.0)
        return scoring
    """,
    "a destination that is down": """
    def attack():
        scoring = configured(Rule(answered), destinations=[Down()], grace=0.0)
        for number in range(COUNT):
            root(x=text(number))
            time.sleep(0.003)
        time.sleep(1.0)
        return scoring
    """,
    "a destination that is down, with a journal": """
    def attack():
        scoring = configured(Rule(answered), destinations=[Down()], journal=JOURNAL, grace=0.0)
        for number in range(COUNT):
            root(x=text(number))
            time.sleep(0.003)
        time.sleep(1.0)
        return scoring
    """,
    "a journal in which another process left runs": """
    def attack():
        from pathlib import Path
        from otel_evals._internal.engine.journal.journal import Journal
        from otel_evals._internal.engine.journal.runs import RunJournal
        from otel_evals._internal.gather.trace import SpanGroup
        journal = RunJournal(Journal(Path(JOURNAL)))
        for number in range(1, COUNT // 10):
            texts = {f"x{place}": text(number) for place in range(10)}
            span = SpanRecord(
                trace_id=f"{number:032x}", span_id=f"{number:016x}", name="invoke_agent", trace_flags=1,
                start_time=1, end_time=2, attributes=AGENT | texts,
            )
            journal.sampled(SpanGroup((span,), {}))
        journal.close()
        scoring = configured(Rule(answered), journal=JOURNAL, grace=0.0)
        while scoring.stats().seen < COUNT // 10 - 1:
            time.sleep(0.1)
        assert not scoring.stats().ignored
        return scoring
    """,
    "conversations": """
    def attack():
        scoring = configured(Rule(answered, scope="conversation", idle=3600), grace=0.0)
        for number in range(COUNT):
            root(**{"gen_ai.conversation.id": text(number)})
            time.sleep(0.003)
        time.sleep(1.0)
        return scoring
    """,
    "an engine that is stopped": """
    def attack():
        @scorer(inline=True, version="1")
        def blocking(run: Run) -> float:
            time.sleep(3600)

        scoring = configured(Rule(blocking))
        root()
        time.sleep(1.0)
        for number in range(4 * COUNT):
            root(x=text(number))
        return scoring
    """,
}


def grown(attack: str) -> dict[str, Any]:
    code = textwrap.dedent(APPLICATION.format(max_bytes=MAX_BYTES, sent=SENT, attack="ATTACK"))
    code = code.replace("ATTACK", textwrap.dedent(attack).strip())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("shape", TOOLS)
def test_an_open_trace_holds_no_more_than_it_may(shape: str) -> None:
    """The run that had more is lost, and told; log records of spans that nobody claims go for nothing."""
    found = grown(OPEN.replace("{span}", TOOLS[shape]))
    assert found["grown"] < ALLOWED, found
    assert found["problems"] == []
    assert found["ignored"].get("too_many_bytes") or found["losses"].get("log_limit"), found


@pytest.mark.slow
@pytest.mark.parametrize("place", LATER)
def test_what_waits_is_bounded_wherever_it_waits(place: str) -> None:
    found = grown(LATER[place])
    assert found["grown"] < ALLOWED, found
    assert found["problems"] == []
