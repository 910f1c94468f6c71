"""OTLP files are read in every form, in any order, within bounds."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.otlp.files import read_traces, records_of
from otel_evals.errors import ConfigError
from otel_evals.model import SpanRecord

TRACE, SPAN = "ab" * 16, "cd" * 8
IN_BASE64 = {
    "traceId": base64.b64encode(bytes.fromhex(TRACE)).decode(),
    "spanId": base64.b64encode(bytes.fromhex(SPAN)).decode(),
}


def value(plain: Any) -> dict[str, Any]:
    """A plain value as OTLP/JSON's AnyValue."""
    match plain:
        case bool():
            return {"boolValue": plain}
        case int():
            return {"intValue": str(plain)}
        case float():
            return {"doubleValue": plain}
        case str():
            return {"stringValue": plain}
        case list() | tuple():
            return {"arrayValue": {"values": [value(v) for v in plain]}}
        case dict():
            return {"kvlistValue": {"values": pairs(plain)}}
    return {}


def pairs(plain: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": k, "value": value(v)} for k, v in plain.items()]


def spans(*given: dict[str, Any]) -> dict[str, Any]:
    full = [{"traceId": TRACE, "spanId": SPAN, "name": "n", "startTimeUnixNano": "5", **s} for s in given]
    scope = {"scope": {"name": "lib", "version": "1"}, "spans": full}
    return {
        "resourceSpans": [{"resource": {"attributes": pairs({"service.name": "svc"})}, "scopeSpans": [scope]}]
    }


def logs(*given: dict[str, Any]) -> dict[str, Any]:
    full = [{"traceId": TRACE, "spanId": SPAN, **log} for log in given]
    return {"resourceLogs": [{"scopeLogs": [{"scope": {"name": "lib"}, "logRecords": full}]}]}


def read_one(path: Path) -> SpanRecord:
    ((span,),) = read_traces([str(path)])
    return span


ATTRIBUTES = {"text": "ü", "number": 7, "ratio": 0.5, "yes": True, "list": ["a", 1], "map": {"k": ["v"]}}
EXPECTED = {**ATTRIBUTES, "list": ("a", 1), "map": {"k": ("v",)}}


def test_a_span_is_read_whole(tmp_path: Path) -> None:
    given = {
        "parentSpanId": "ef" * 8,
        "kind": 3,
        "endTimeUnixNano": 9,
        "attributes": pairs(ATTRIBUTES),
        "events": [{"name": "e", "timeUnixNano": "6", "attributes": pairs({"k": "v"})}],
        "status": {"code": 2, "message": "boom"},
        "flags": 0x301,
        "traceState": "ot=th:8",
        "droppedAttributesCount": 2,
        "links": [{"traceId": "ab" * 16, "spanId": "cd" * 8}],
    }
    (path := tmp_path / "a.json").write_text(json.dumps(spans(given)))
    span = read_one(path)
    assert (span.trace_id, span.span_id, span.parent_span_id) == (TRACE, SPAN, "ef" * 8)
    assert (span.kind, span.start_time, span.end_time) == ("CLIENT", 5, 9)
    assert span.attributes == EXPECTED
    assert (span.events[0].name, span.events[0].attributes) == ("e", {"k": "v"})
    assert (span.status, span.status_message) == ("ERROR", "boom")
    assert (span.scope_name, span.scope_version, span.resource) == ("lib", "1", {"service.name": "svc"})
    assert (span.trace_flags, span.parent_is_remote, span.trace_state) == (1, True, "ot=th:8")
    assert (span.dropped_attributes, span.links) == (2, (("ab" * 16, "cd" * 8),))


def test_enums_by_name_ids_in_base64_and_numbers_as_texts_are_understood() -> None:
    given = {
        "traceId": base64.b64encode(bytes.fromhex(TRACE)).decode(),
        "spanId": base64.b64encode(bytes.fromhex(SPAN)).decode(),
        "kind": "SPAN_KIND_SERVER",
    }
    (span,) = records_of(spans({**given, "status": {"code": "STATUS_CODE_OK"}}))
    assert isinstance(span, SpanRecord)
    assert (span.trace_id, span.span_id, span.kind, span.status) == (TRACE, SPAN, "SERVER", "OK")


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "form",
    [
        lambda requests: "\n".join(json.dumps(r) for r in requests),
        lambda requests: "\n\n".join(json.dumps(r) for r in requests) + "\n",
        lambda requests: "\n".join(json.dumps(r, indent=2) for r in requests),
        lambda requests: json.dumps(requests),
        lambda requests: json.dumps(requests, indent=1),
    ],
    ids=["lines", "blank lines", "pretty", "array", "pretty array"],
)
def test_every_form_of_json_gives_the_same(tmp_path: Path, form: Any, packed: bool) -> None:
    requests = [
        logs({"eventName": "x", "body": value({"a": 1})}),
        spans({}),
        logs({"timeUnixNano": "3", "body": value("b")}),
    ]
    raw = form(requests).encode()
    (path := tmp_path / "a").write_bytes(gzip.compress(raw) if packed else raw)
    span = read_one(path)
    assert [(log.name, log.body) for log in span.logs] == [("x", {"a": 1}), ("", "b")]


@pytest.mark.parametrize("framed", [False, True], ids=["one request", "behind lengths"])
def test_protobuf_gives_what_json_gives(tmp_path: Path, framed: bool) -> None:
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    given = {
        "kind": 3,
        "endTimeUnixNano": 9,
        "attributes": pairs(ATTRIBUTES),
        "status": {"code": 2, "message": "m"},
    }
    given["events"] = [{"name": "e", "timeUnixNano": "6", "attributes": pairs({"k": "v"})}]
    given["links"] = [dict.fromkeys(("traceId", "spanId"), "qqqqqqqqqqqqqqqqqqqqqg==")]
    log = {"timeUnixNano": "3", "eventName": "x", "body": value({"a": [1]}), "attributes": pairs({"k": 1})}
    messages = [
        ParseDict(
            spans(given | IN_BASE64),
            ExportTraceServiceRequest(),
        ),
        ParseDict(
            logs(log | IN_BASE64),
            ExportLogsServiceRequest(),
        ),
    ]
    paths = []
    if framed:
        raw = b"".join(len(b := m.SerializeToString()).to_bytes(4, "big") + b for m in messages)
        (path := tmp_path / "all.bin").write_bytes(raw)
        paths = [str(path)]
    else:
        for number, message in enumerate(messages):
            (path := tmp_path / str(number)).write_bytes(message.SerializeToString())
            paths.append(str(path))
    ((from_protobuf,),) = read_traces(paths)
    (tmp_path / "a.json").write_text(json.dumps([spans(given), logs(log)]))
    assert from_protobuf == read_one(tmp_path / "a.json")
    assert from_protobuf.attributes == EXPECTED


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = gzip.compress(json.dumps(spans({})).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(raw))))  # type: ignore[type-var]
    ((span,),) = read_traces(["-"])
    assert span.trace_id == TRACE


def test_lines_that_are_no_otlp_are_skipped_and_told(tmp_path: Path) -> None:
    good = json.dumps(spans({}))
    (path := tmp_path / "a").write_text(f"{good}\nnot json\n\n{good[:50]}")
    told: list[tuple[str, int]] = []
    assert len(list(read_traces([str(path)], skipped=lambda name, line: told.append((name, line))))) == 1
    assert told == [(str(path), 2), (str(path), 4)]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"hello",
        b"{",
        b"[1, 2",
        b'{"hello": 1}',
        b"\x1f\x8bnot gzip",
        b"\x0a\xff\xff",
        b"\x00\x00\x00\x09ab",
    ],
)
def test_what_is_no_otlp_is_refused_with_the_files_name(tmp_path: Path, raw: bytes) -> None:
    (path := tmp_path / "a").write_bytes(raw)
    with pytest.raises(ConfigError, match=str(path)):
        list(read_traces([str(path)]))


def test_backends_that_return_otlp_are_read(tmp_path: Path) -> None:
    """Jaeger's API returns it as a result, Tempo's as a trace or as batches."""
    given = spans({})
    forms = ({"result": given}, {"trace": given}, {"batches": given["resourceSpans"]}, [{"result": given}])
    for form in forms:
        (path := tmp_path / "a").write_text(json.dumps(form))
        assert list(read_traces([str(path)])) == [list(records_of(given))]


def _line(number: int) -> bytes:
    return json.dumps(spans({"traceId": f"{number + 1:032x}"})).encode() + b"\n"


_LINES = st.sampled_from(
    [b"{broken\n", b"null\n", b"7\n", b'"x"\n', b"[]\n", b'{"a": 1}\n', b'{"a": "\xff"}\n', b"[[[[\n", b"}\n"]
)


@given(st.integers(1, 6), st.data())
def test_a_broken_line_costs_no_other(number: int, data: st.DataObject) -> None:
    """N good lines and a broken one, wherever it is and however it is packed: N are read, one is reported."""
    lines = [_line(n) for n in range(number)]
    at = data.draw(st.integers(0, number))
    lines.insert(at, data.draw(_LINES))
    raw = b"".join(lines)
    with TemporaryDirectory() as folder:
        (path := Path(folder) / "a").write_bytes(gzip.compress(raw) if data.draw(st.booleans()) else raw)
        told: list[int] = []
        found = list(read_traces([str(path)], skipped=lambda _, line: told.append(line)))
    assert sorted(trace[0].trace_id for trace in found) == [f"{n + 1:032x}" for n in range(number)]
    assert len(told) == 1


@pytest.mark.parametrize("indent", [None, 1])
def test_the_lost_end_of_a_file_costs_no_other(tmp_path: Path, indent: int | None) -> None:
    """A packed file whose writer was killed, and requests over several lines, the last one broken."""
    told: list[int] = []
    texts = [json.dumps(spans({"traceId": f"{n:032x}"}), indent=indent) + "\n" for n in (1, 2)]
    if indent is None:
        whole = b"".join(gzip.compress(text.encode()) for text in texts)
        raw = whole + gzip.compress(_line(3))[:60]
    else:
        raw = "".join(texts).encode() + b"{\n broken"
    (path := tmp_path / "a").write_bytes(raw)
    assert len(list(read_traces([str(path)], skipped=lambda _, line: told.append(line)))) == 2
    assert len(told) == 1


@pytest.mark.parametrize(("name", "problem"), [("none", "cannot be read"), ("", "is a folder: name")])
def test_what_is_no_file_is_refused(name: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=problem):
        list(read_traces([str(tmp_path / name)]))


@pytest.mark.parametrize(
    "odd",
    [
        {"attributes": [{"key": "k"}, {"value": {}}, 3, {"key": "k2", "value": {"newKind": 1}}]},
        {"attributes": {"not": "a list"}, "events": [None, {"attributes": None}], "status": None},
        {"startTimeUnixNano": 1e999, "kind": float("nan"), "flags": -1e999, "droppedAttributesCount": 1e999},
        {
            "attributes": [
                {"key": "k", "value": {"intValue": 1e999}},
                {"key": "d", "value": {"doubleValue": "1e999"}},
            ]
        },
        {"startTimeUnixNano": "soon", "kind": 99, "flags": None, "traceId": None, "parentSpanId": 5},
        {
            "attributes": [
                {"key": "k", "value": {"intValue": "x"}},
                {"key": "b", "value": {"bytesValue": "%"}},
            ]
        },
    ],
)
def test_odd_records_are_read_as_far_as_they_go(odd: dict[str, Any]) -> None:
    assert len(list(records_of(spans(odd)))) == 1


def test_values_nested_without_end_are_cut(tmp_path: Path) -> None:
    deep: dict[str, Any] = value("end")
    for _ in range(200):
        deep = {"arrayValue": {"values": [deep]}}
    (span,) = records_of(spans({"attributes": [{"key": "k", "value": deep}]}))
    assert isinstance(span, SpanRecord)
    assert span.attributes["k"]


def many(path: Path, traces: int) -> None:
    lines = [
        json.dumps(spans({"traceId": f"{n:032x}", "spanId": f"{s:016x}"}))
        for n in range(traces)
        for s in range(3)
    ]
    lines += [json.dumps(logs({"traceId": f"{n:032x}", "spanId": f"{0:016x}"})) for n in range(traces)]
    random.Random(1).shuffle(lines)
    path.write_text("\n".join(lines))


def test_what_does_not_fit_into_memory_gives_the_same_traces(tmp_path: Path) -> None:
    many(path := tmp_path / "many", 200)

    def found(memory: int) -> list[Any]:
        traces = read_traces([str(path)], memory=memory)
        return sorted(sorted((s.trace_id, s.span_id, len(s.logs)) for s in trace) for trace in traces)

    whole = found(10**9)
    assert len(whole) == 200
    assert found(20_000) == whole
    assert sum(entry[2] for trace in whole for entry in trace) == 200


def test_texts_one_after_the_other_take_time_in_proportion(tmp_path: Path) -> None:
    """Ten times as many take some ten times as long, and not a hundred times."""

    def seconds(count: int) -> float:
        path = tmp_path / f"{count}.json"
        path.write_text((json.dumps(spans({}), indent=1) + "\n") * count)
        began = time.process_time()
        ((*found,),) = read_traces([str(path)])
        assert len(found) == count
        return time.process_time() - began

    few, many = min(seconds(500) for _ in range(3)), seconds(5_000)
    assert many < 40 * few


@pytest.mark.slow
def test_a_file_that_grows_without_end_is_given_up(tmp_path: Path) -> None:
    """0.3 MB of it would be 300 MB; traces that are merely alike are read."""
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"resourceSpans": [' + b" " * 300_000_000, 9))
    with pytest.raises(ConfigError, match="grows to more than 200 times its size"):
        list(read_traces([str(path)]))
    alike = tmp_path / "alike.json.gz"
    alike.write_bytes(gzip.compress((json.dumps(spans({})) + "\n").encode() * 20_000))
    assert sum(len(trace) for trace in read_traces([str(alike)])) == 20_000
