"""A service whose every request is one agent run, to be served by real servers in processes of their own.

What it scored and exported stands in the folder named by SERVICE_FOLDER; SERVICE_OPTIONS are options of
`otel_evals.configure` as JSON, SERVICE_SECONDS is how long the judge takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import otel_evals
from otel_evals import Rule, Run
from otel_evals.scorers import scorer
from tests.support.traffic import agent_run

FOLDER = Path(os.environ.get("SERVICE_FOLDER", "."))


class SpanFile(SpanExporter):
    """Appends one line per span: trace id, name, whether it carries the score."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        lines = "".join(
            f"{s.context.trace_id:032x} {'otel_evals.score.judged' in (s.attributes or {})} {s.name}\n"
            for s in spans
            if s.context
        )
        file = os.open(FOLDER / "spans", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, lines.encode())
        os.close(file)
        return SpanExportResult.SUCCESS


@scorer(version="1")
async def judged(run: Run) -> float:
    await asyncio.sleep(float(os.environ.get("SERVICE_SECONDS", "0.3")))
    return 1.0


def configure() -> None:
    """Score this process's runs; as an application does when it is imported."""
    provider = TracerProvider()
    trace.set_tracer_provider(provider)
    pipeline = otel_evals.configure(
        rules=[Rule(judged, concurrency=100)],
        destinations=[{"jsonl": {"path": FOLDER / "scores.jsonl"}}],
        **json.loads(os.environ.get("SERVICE_OPTIONS", "{}")),
    )
    provider.add_span_processor(BatchSpanProcessor(pipeline.hold(SpanFile())))


def work(count: int = 1) -> list[str]:
    """Runs; returns their trace ids, which also go to a file."""
    traces = [f"{agent_run(trace.get_tracer('service')):032x}" for _ in range(count)]
    with open(FOLDER / "traces", "a", encoding="ascii") as file:
        file.write("".join(f"{each}\n" for each in traces))
    return traces


def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """The service as WSGI; `/hang` hangs after its run."""
    body = "\n".join(work()).encode()
    asyncio.run(asyncio.sleep(0.001))  # as applications call async clients
    if environ["PATH_INFO"] == "/hang":
        time.sleep(60)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async def app(scope: Any, receive: Any, send: Any) -> None:
    """The service as ASGI; `/slow` takes its time before its run, `/seen` says how many runs were seen."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        if os.environ.get("SERVICE_LEAVES"):  # as the documentation says
            await asyncio.to_thread(otel_evals.shutdown)
            await asyncio.to_thread(trace.get_tracer_provider().shutdown)
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["path"] == "/slow":
        (FOLDER / "slow").touch()
        await asyncio.sleep(1.5)
    if scope["path"] == "/seen":
        await asyncio.to_thread(otel_evals.force_flush)
        body = str(otel_evals.stats().seen)
    else:
        body = "\n".join(work())
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body.encode()})


def check_books(folder: Path, runs: int) -> None:
    """See that so many runs happened, that each was scored exactly once and left with its score."""
    traces = (folder / "traces").read_text().split()
    assert len(traces) == runs
    scored = [json.loads(line) for line in _lines(folder / "scores.jsonl")]
    values = [
        (each["trace_id"], evaluation["value"]) for each in scored for evaluation in each["evaluations"]
    ]
    assert Counter(values) == Counter((each, 1.0) for each in traces)
    spans = [line for line in _lines(folder / "spans") if line.endswith("invoke_agent support")]
    assert Counter(spans) == Counter(f"{each} True invoke_agent support" for each in traces)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


if os.environ.get("SERVICE_FOLDER") and os.environ.get("SERVICE_LATER") is None:
    configure()
