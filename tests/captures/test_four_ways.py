"""A run is the same in process, from a file, and through the gateway over HTTP and gRPC."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

import otel_evals
from otel_evals import Run, ScoredRun
from otel_evals._internal.deliver.record import run_record
from otel_evals._internal.otlp.files import export_requests, read_traces
from otel_evals._internal.otlp.messages import records_of
from otel_evals._internal.read.runs import read_runs
from otel_evals._internal.redaction.redactor import redacted
from otel_evals._internal.util.plain import write_json
from otel_evals.conventions import load_conventions
from otel_evals.destinations import InMemoryDestination
from otel_evals.model import SpanRecord
from otel_evals_gateway._internal.receiver.decoder import json_message
from tests.support.captures import everything
from tests.support.gateway_process import GatewayProcess, post
from tests.support.waits import MILLIS, eventually

RULES = [{"scorer": "answered", "sample": 1.0}]
_SERVICES = "/opentelemetry.proto.collector.{0}.v1.{1}Service/Export"
_NOT_THE_SAME = ("evaluations", "history")
"""Keys of a record that differ by what scored it; the history of the last turn may be known twice."""


def batches() -> list[list[list[str]]]:
    """Captures in groups without a trace in common: some were recorded with several settings at once."""
    found: list[tuple[set[str], list[list[str]]]] = []
    for paths in everything():
        traces = {span.trace_id for trace in read_traces(paths) for span in trace}
        known = next((each for each in found if each[0].isdisjoint(traces)), None)
        if known is None:
            known = (set(), [])
            found.append(known)
        known[0].update(traces)
        known[1].append(paths)
    return [captures for _, captures in found]


BATCHES = batches()


def from_files(captures: Iterable[list[str]]) -> Iterator[Run]:
    for paths in captures:
        yield from read_runs(read_traces(paths), load_conventions())


def as_records(runs: Iterable[Run]) -> dict[tuple[str, str], Any]:
    return by_id(run_record(ScoredRun(run=redacted(run))) for run in runs)


def by_id(records: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    kept = ({k: v for k, v in record.items() if k not in _NOT_THE_SAME} for record in records)
    return {(record["trace_id"], record["span_id"]): record for record in kept}


def over_http(gateway: GatewayProcess, captures: Iterable[list[str]]) -> None:
    for signal, request in requests_of(captures):
        url = f"{gateway.endpoint}/v1/{signal}"
        assert post(url, json.dumps(request).encode(), "application/json")[0] == 200


def over_grpc(gateway: GatewayProcess, captures: Iterable[list[str]]) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{gateway.ports['grpc']}") as channel:
        for signal, request in requests_of(captures):
            service = "logs" if signal == "logs" else "trace"
            kind: Any = ExportLogsServiceRequest if signal == "logs" else ExportTraceServiceRequest
            export = channel.unary_unary(_SERVICES.format(service, service.capitalize()))
            export(json_message(request, kind()).SerializeToString())


def requests_of(captures: Iterable[list[str]]) -> Iterator[tuple[str, Any]]:
    """The requests of captures as applications send them: log records first, then trace after trace."""
    for paths in captures:
        for path in reversed(paths):
            for _, request in export_requests(path):
                if "resourceLogs" in request:
                    yield "logs", request
                    continue
                ends: dict[str, int] = {}
                for span in spans_in(request):
                    ends[span["traceId"]] = max(ends.get(span["traceId"], 0), int(span["endTimeUnixNano"]))
                for trace_id in sorted(ends, key=ends.__getitem__):
                    yield "traces", of_trace(request, trace_id)


def spans_in(request: Any) -> Iterator[Any]:
    for block in request["resourceSpans"]:
        for scoped in block["scopeSpans"]:
            yield from scoped["spans"]


def of_trace(request: Any, trace_id: str) -> Any:
    """A copy of a request with the spans of one trace."""
    blocks = json.loads(json.dumps(request["resourceSpans"]))
    for block in blocks:
        for scoped in block["scopeSpans"]:
            scoped["spans"] = [span for span in scoped["spans"] if span["traceId"] == trace_id]
    return {"resourceSpans": blocks}


def in_process(captures: Sequence[list[str]]) -> Iterator[dict[str, Any]]:
    """Start and end the spans of captures in this process, in the order of their times."""
    # Read before: a run that others may continue is held for a few seconds only.
    logs = [
        [r for path in paths for _, r in export_requests(path) if "resourceLogs" in r] for paths in captures
    ]
    traces = [[[*map(as_sdk_span, trace)] for trace in read_traces(paths)] for paths in captures]
    scored, tracing, logging = InMemoryDestination(), TracerProvider(), LoggerProvider()
    pipeline = otel_evals.configure(
        rules=RULES,
        tracer_provider=tracing,
        logger_provider=logging,
        destinations=[scored],
        grace=1.0,
    )
    try:
        for requests, recorded in zip(logs, traces, strict=True):
            for request in requests:
                emit(logging, request)
            for spans in recorded:
                for span in sorted(spans, key=lambda span: span.start_time or 0):
                    tracing._active_span_processor.on_start(span)  # type: ignore[arg-type]
                for span in sorted(spans, key=lambda span: (span.end_time or 0, -(span.start_time or 0))):
                    tracing._active_span_processor.on_end(span)
        assert pipeline.force_flush(MILLIS)
        yield from (run_record(each) for each in scored.runs)
    finally:
        pipeline.shutdown()


def as_sdk_span(span: SpanRecord) -> ReadableSpan:
    def context(trace_id: str, span_id: str) -> SpanContext:
        state = TraceState.from_header([span.trace_state]) if span.trace_state else None
        return SpanContext(int(trace_id, 16), int(span_id, 16), False, TraceFlags(1), state)

    parent = context(span.trace_id, span.parent_span_id) if span.parent_span_id else None
    return ReadableSpan(
        name=span.name,
        context=context(span.trace_id, span.span_id),
        parent=parent,
        resource=Resource(dict(span.resource)),
        attributes=bounded(span),
        events=[Event(e.name, e.attributes, e.time) for e in span.events],
        links=[Link(context(*link)) for link in span.links],
        kind=SpanKind[span.kind],
        status=Status(StatusCode[span.status], span.status_message or None),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=InstrumentationScope(span.scope_name, span.scope_version),
    )


def bounded(span: SpanRecord) -> BoundedAttributes:
    attributes = BoundedAttributes(attributes=dict(span.attributes))
    attributes.dropped = span.dropped_attributes
    return attributes


def emit(provider: LoggerProvider, request: Any) -> None:
    for block in request["resourceLogs"]:
        for scoped in block["scopeLogs"]:
            logger = provider.get_logger(scoped.get("scope", {}).get("name", ""))
            for trace_id, span_id, log in records_of({"resourceLogs": [{"scopeLogs": [scoped]}]}):
                if trace_id and span_id:
                    context = SpanContext(int(trace_id, 16), int(span_id, 16), False, TraceFlags(1))
                    logger.emit(
                        LogRecord(
                            timestamp=log.time,
                            body=log.body,
                            attributes=dict(log.attributes),
                            event_name=log.name or None,
                            context=set_span_in_context(NonRecordingSpan(context)),
                        )
                    )


def is_idle(gateway: GatewayProcess) -> bool:
    """True once no trace is open; runs that others may continue are held until shutdown."""
    stats = gateway.page("/stats")[1]
    return not stats["open_traces"] and not stats["queue"]


# Both read with the same code: one of them shows what the gateway makes of it.
@pytest.mark.parametrize("way", [pytest.param(over_http, marks=pytest.mark.slow), over_grpc])
@pytest.mark.parametrize("captures", BATCHES, ids=lambda captures: f"{len(captures)}-captures")
def test_the_gateway_reads_the_runs_of_the_file(captures: list[list[str]], way: Any, tmp_path: Path) -> None:
    expected = as_records(from_files(captures))
    with GatewayProcess(tmp_path, RULES, {"grpc": "127.0.0.1:0", "quiet": 1.0, "idle": 2.0}) as gateway:
        way(gateway, captures)
        eventually(lambda: is_idle(gateway))
        assert gateway.stop() == 0
        assert differences(expected, by_id(gateway.records())) == []


@pytest.mark.parametrize("captures", BATCHES, ids=lambda captures: f"{len(captures)}-captures")
def test_a_process_reads_the_runs_of_the_file(captures: list[list[str]]) -> None:
    apart = traces_apart(captures)
    expected = as_records(run for run in from_files(captures) if apart.isdisjoint(run.trace_ids))
    found = {key: record for key, record in by_id(in_process(captures)).items() if key[0] not in apart}
    assert differences(expected, found) == []


def traces_apart(captures: Iterable[list[str]]) -> set[str]:
    """Traces with several spans that no convention's span is above, as below an application's own.

    A process scores each of them alone, before the application's span has ended.
    """
    conventions, found = load_conventions(), set()
    for trace in chain.from_iterable(map(read_traces, captures)):
        claimed = {s.span_id for s in trace if conventions.choose(s.scope_name, s.attributes, s.name)}
        parents = {s.span_id: s.parent_span_id for s in trace}
        tops = 0
        for span_id in claimed:
            above = parents.get(span_id)
            while above is not None and above not in claimed:
                above = parents.get(above)
            tops += above is None
        has_root_events = any(s.logs for s in trace if s.span_id not in claimed)
        if tops > 1 or has_root_events:
            found.add(trace[0].trace_id)
    return found


def differences(expected: dict[Any, Any], found: dict[Any, Any]) -> list[Any]:
    """What differs, run by run and field by field."""
    missing = [(key, "missing", expected[key]["input"]) for key in expected.keys() - found.keys()]
    more = [(key, "more", found[key]["input"]) for key in found.keys() - expected.keys()]
    both = expected.keys() & found.keys()
    return (
        missing
        + more
        + [
            (key, name, value, found[key].get(name))
            for key in both
            for name, value in json.loads(write_json(expected[key])).items()
            if value != json.loads(write_json(found[key])).get(name)
        ]
    )
