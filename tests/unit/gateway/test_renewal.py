"""Fresh ids and times, with what ties spans and log records together kept."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals_gateway._internal.replay.recording import read_recording
from otel_evals_gateway._internal.replay.renewal import Renewal
from tests.support.recordings import NOW, REQUEST, TRACE, span


def replayed(path: Path, shift: int = 5_000) -> tuple[Any, Any]:
    """The requests of spans and of log records, all moved by so many nanoseconds."""
    items, renewal = read_recording([str(path)]).items, Renewal()
    traces = renewal.request((item, shift) for item in items if item.signal == "traces")
    logs = renewal.request((item, shift) for item in items if item.signal == "logs")
    return ExportTraceServiceRequest.FromString(traces), ExportLogsServiceRequest.FromString(logs)


def test_relations_links_and_log_records_are_kept_under_fresh_ids(tmp_path: Path) -> None:
    file = tmp_path / "traces.json"
    file.write_text(json.dumps(REQUEST))
    traces, logs = replayed(file)
    (block,) = traces.resource_spans
    assert block.resource.attributes[0].value.string_value == "shop"
    assert (block.scope_spans[0].scope.name, block.scope_spans[0].scope.version) == ("tests", "2")
    root, child, linked = sorted(block.scope_spans[0].spans, key=lambda each: each.name)
    assert root.trace_id == child.trace_id != linked.trace_id
    assert root.trace_id.hex() != TRACE
    assert len({root.span_id, child.span_id, linked.span_id, b"\xaa" * 8}) == 4
    assert (root.parent_span_id, child.parent_span_id) == (b"", root.span_id)
    assert (linked.links[0].trace_id, linked.links[0].span_id) == (child.trace_id, child.span_id)
    record = logs.resource_logs[0].scope_logs[0].log_records[0]
    assert (record.trace_id, record.span_id) == (child.trace_id, child.span_id)
    assert (record.body.string_value, record.severity_number) == ("hello", 9)


def test_all_times_move_alike(tmp_path: Path) -> None:
    file = tmp_path / "traces.json"
    file.write_text(json.dumps(REQUEST))
    traces, logs = replayed(file, 7_000)
    root = min(traces.resource_spans[0].scope_spans[0].spans, key=lambda each: each.name)
    assert root.start_time_unix_nano == NOW + 7_000
    assert root.end_time_unix_nano == NOW + 9_000
    assert root.events[0].time_unix_nano == NOW + 8_000
    assert logs.resource_logs[0].scope_logs[0].log_records[0].time_unix_nano == NOW + 7_500


def test_every_replay_has_ids_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "traces.json"
    file.write_text(json.dumps(REQUEST))
    ids = [replayed(file)[0].resource_spans[0].scope_spans[0].spans[0].trace_id for _ in range(3)]
    assert len(set(ids)) == 3


def test_protobuf_and_compressed_files_give_the_same_items(tmp_path: Path) -> None:
    file = tmp_path / "traces.json"
    file.write_text(json.dumps(REQUEST))
    wanted = sorted(item.data for item in read_recording([str(file)]).items)
    items = read_recording([str(file)]).items
    plain = Renewal()
    plain.trace_id = lambda old: old  # type: ignore[method-assign]
    plain.span_id = lambda trace, old: old  # type: ignore[method-assign]
    for signal in ("traces", "logs"):
        body = plain.request((item, 0) for item in items if item.signal == signal)
        (tmp_path / f"{signal}.pb.gz").write_bytes(gzip.compress(body))
    again = read_recording([str(tmp_path / "traces.pb.gz"), str(tmp_path / "logs.pb.gz")])
    assert sorted(item.data for item in again.items) == wanted


def test_what_cannot_be_sent_is_counted(tmp_path: Path) -> None:
    lines = [
        {"resourceMetrics": []},
        {"system": "no telemetry"},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "zz", "spanId": "b" * 16}]}]}]},
        {"resourceSpans": [{"scopeSpans": [{"spans": [span("b" * 16), {"name": "no ids"}]}]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "when?"}}]}]}]},
        17,
    ]
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    recording = read_recording([str(file)])
    assert len(recording.items) == 1
    assert recording.unusable == {
        "neither spans nor log records": 1,
        "not OTLP": 3,
        "without ids or times": 1,
        "without a time": 1,
    }
