"""`otel-evals destinations`: lists the backends for scores, and tests one."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Annotated, Any, cast

import anyio
import typer

from otel_evals._internal.cli.backends import backend
from otel_evals._internal.cli.terminal import AsJson, echo
from otel_evals._internal.deliver.api import ApiDestination
from otel_evals._internal.deliver.destination import ENTRY_POINT_GROUP
from otel_evals._internal.deliver.items import items_of
from otel_evals._internal.model import Direction, Evaluation, OperationKind, Run, Sampled, Score, ScoredRun
from otel_evals._internal.read.runs import evaluation_id
from otel_evals._internal.util.installed import entry_points, extra, load
from otel_evals.errors import ConfigError, DestinationError, OtelEvalsError

app = typer.Typer(help="List the backends for scores, and test one.", no_args_is_help=True)

_EVERY = 1.0


@app.command("list")
def show(as_json: AsJson = False) -> None:
    """List the destinations of scores, with the environment variables that each needs."""
    found = [_described(point) for point in sorted(entry_points(group=ENTRY_POINT_GROUP))]
    if as_json:
        echo(json.dumps(found, indent=2))
        return
    for each in found:
        needs = ", ".join(name + " (not set)" * (not os.environ.get(name)) for name in each["needs"])
        echo(f"{each['name']:12} {each['kind']:5} {needs}".rstrip())


def _described(point: EntryPoint) -> dict[str, Any]:
    try:
        found = load(point, point.name)
    except ConfigError as error:
        missing = getattr(error.__cause__, "name", None)
        kind = f"needs {missing}" if missing else error.problem
        return {"name": point.name, "kind": kind, "needs": []}
    return {
        "name": point.name,
        "kind": getattr(found, "kind", "local"),
        "needs": [*getattr(found, "needs", ())],
    }


@app.command("test")
def try_out(
    name: Annotated[str, typer.Argument(help="NAME, or NAME=URL.")],
    trace: Annotated[str | None, typer.Option(help="Id of an existing trace, 32 hex digits.")] = None,
    span: Annotated[str | None, typer.Option(help="Id of the span to score in it, 16 hex digits.")] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for trace and score.")] = 60,
) -> None:
    """Send a span and a marked score for it, and read the score back if the backend has an API for that."""
    if (trace is None) != (span is None):
        raise typer.BadParameter("--trace and --span go together")
    try:
        place = backend(name, "destinations test")
        # There is nothing to send to: the backend reads the events that leave by OTLP.
        if not hasattr(place, "send"):
            echo(f"{name} reads evaluation events, not scores. Try: otel-evals demo --to {name}")
            return
        ids = (trace, span) if trace and span else _sent_span(place)
        accepted = anyio.run(_try, place, ids, wait)
    except OtelEvalsError as error:
        echo(str(error), err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(0 if accepted else 1)


def _sent_span(place: Any) -> tuple[str, str]:
    """Send a span to the backend if possible; return its ids, or random ones."""
    where = place.spans_to()
    if where is None:
        echo("No span was sent: give --trace and --span")
        return secrets.token_hex(16), secrets.token_hex(8)
    with extra("otlp", "destinations test"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult

    provider = TracerProvider(resource=Resource({"service.name": "otel-evals-test"}))
    address, headers = where
    exporter = OTLPSpanExporter(address, headers=dict(headers), timeout=10)
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "otel-evals test"}
    span = provider.get_tracer("otel_evals.test").start_span("otel-evals test", attributes=attributes)
    span.end()
    taken = exporter.export([cast("ReadableSpan", span)]) is SpanExportResult.SUCCESS
    context = span.get_span_context()
    ids = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    done = f"Sent a span to {address}" if taken else f"{address} did not take a span"
    echo(f"{done}: trace {ids[0]}, span {ids[1]}")
    return ids


async def _try(place: Any, ids: tuple[str, str], wait: float) -> bool:
    scored = _marked_run(*ids)
    (item,) = items_of([scored], content=True, errors=False)
    try:
        if not await _accepted(place, scored, time.monotonic() + wait):
            return False
        echo("The score was accepted.")
        url = place.trace_url(*ids)
        if url:
            echo(f"The trace: {url}")
        if type(place).read is ApiDestination.read:
            echo(f"Scores are not read back from {place.name}: look for otel_evals_test there.")
            return True
        found = await _read_back(place, item, time.monotonic() + wait)
        echo(f"Read back: {json.dumps(found, default=str)}" if found else "It could not be read back yet.")
        return found is not None
    finally:
        await place.shutdown()


async def _accepted(place: Any, scored: ScoredRun, deadline: float) -> bool:
    while True:
        try:
            errors = [each.error for each in await place.export([scored])]
        except DestinationError as error:
            errors = [error]
        if not errors:
            return True
        if not errors[0].retryable or time.monotonic() + _EVERY > deadline:
            echo(f"The score was not accepted ({errors[0].reason}): {errors[0]}")
            echo(_what_to_check(place, errors[0].reason))
            return False
        await anyio.sleep(_EVERY)


def _what_to_check(place: Any, reason: str) -> str:
    match reason:
        case "unauthorized":
            return f"Check {' and '.join(place.needs)}, and the region of the address."
        case "trace_not_found":
            return "Check that spans go to the same project, and increase --wait."
        case "refused" | "too_large" | "conflict":
            return "Check the options: the answer above names the problem."
    return f"Check the address: option url, or {place.name}=URL here."


async def _read_back(place: Any, item: Any, deadline: float) -> Mapping[str, Any] | None:
    while True:
        try:
            found = await place.read(item)
            if found is not None:
                return dict(found)
        except DestinationError as error:
            if error.status != 404 and not error.retryable:
                echo(f"It cannot be read back: {error}")
                return None
        if time.monotonic() + _EVERY > deadline:
            return None
        await anyio.sleep(_EVERY)


def _marked_run(trace_id: str, span_id: str) -> ScoredRun:
    now = time.time_ns()
    run = Run(
        trace_id=trace_id,
        root_span_id=span_id,
        root_kind=OperationKind.AGENT,
        agent_name="otel-evals test",
        start_time=now - 1_000_000_000,
        end_time=now,
        resource={"service.name": "otel-evals-test"},
    )
    evaluation = Evaluation(
        evaluation_id=evaluation_id(run, "otel_evals_test", "1"),
        scorer_id="otel_evals_test",
        scorer_version="1",
        direction=Direction.HIGHER,
        trace_id=trace_id,
        span_id=span_id,
        outcome=Score(value=1.0, label="test", explanation="sent by `otel-evals destinations test`"),
        sampled=Sampled(1.0, "always"),
        time=now,
    )
    return ScoredRun(run=run, evaluations=(evaluation,))
