"""Bodies of requests: what is OTLP is decoded, what is not, or too large, is refused."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals_gateway._internal.receiver.answers import JSON, PROTOBUF, RefusedError
from otel_evals_gateway._internal.receiver.decoder import (
    ExportRequest,
    Signal,
    decode,
    decoded_size,
    inflate,
)
from tests.support import bombs
from tests.support.bombs import varint

MOST = 1_000_000


def a_request() -> Any:
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    block.resource.attributes.add(key="service.name").value.string_value = "shop"
    scoped = block.scope_spans.add()
    scoped.scope.name = "app"
    span = scoped.spans.add(
        trace_id=b"\x01" * 16, span_id=b"\x02" * 8, parent_span_id=b"\x03" * 8, name="chat", kind=3
    )
    span.attributes.add(key="n").value.int_value = 7
    return request


AS_JSON = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
            "scopeSpans": [
                {
                    "scope": {"name": "app"},
                    "spans": [
                        {
                            "traceId": "01" * 16,
                            "spanId": "02" * 8,
                            "parentSpanId": "03" * 8,
                            "name": "chat",
                            "kind": 3,
                            "attributes": [{"key": "n", "value": {"intValue": "7"}}],
                            "fieldOfTheFuture": {"a": 1},
                        }
                    ],
                }
            ],
        }
    ]
}


def decoded(body: bytes, kind: str = PROTOBUF, encoding: str = "", signal: Signal = "traces") -> Any:
    return decode(ExportRequest(signal, body, kind, encoding), MOST).message


def refusal(body: bytes, kind: str = PROTOBUF, encoding: str = "", signal: Signal = "traces") -> int:
    with pytest.raises(RefusedError) as caught:
        decoded(body, kind, encoding, signal)
    return caught.value.answer.status


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, bytes])
def test_every_form_gives_the_same_message(pack: Any) -> None:
    encoding = {gzip.compress: "gzip", zlib.compress: "deflate"}.get(pack, "")
    request = a_request()
    assert decoded(pack(request.SerializeToString()), encoding=encoding) == request
    assert decoded(pack(json.dumps(AS_JSON).encode()), JSON, encoding) == request
    assert decoded(pack(b""), encoding=encoding) == ExportTraceServiceRequest()


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=500), st.integers(0, 3_000_000), st.integers(0, 9))
def test_any_compressed_body_is_that_again(start: bytes, zeros: int, level: int) -> None:
    data = start + bytes(zeros) + start
    assert b"".join(inflate(zlib.compress(data, level), "deflate", 4_000_000)) == data
    twice = gzip.compress(start) + gzip.compress(data, level)
    assert b"".join(inflate(twice, "gzip", 4_000_000)) == start + data


@pytest.mark.parametrize(
    ("body", "kind", "encoding"),
    [
        (b"\xff" * 40, PROTOBUF, ""),
        (a_request().SerializeToString()[:-3], PROTOBUF, ""),
        (b"", JSON, ""),
        (b"[]", JSON, ""),
        (b"{nonsense", JSON, ""),
        (b"\xff\xfe{}", JSON, ""),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "zz"}]}]}]}', JSON, ""),
        (b'{"resourceSpans": 3}', JSON, ""),
        (b"[" * 100_000, JSON, ""),
        (b"no gzip", PROTOBUF, "gzip"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-9], PROTOBUF, "gzip"),
    ],
)
def test_what_is_not_otlp_is_refused(body: bytes, kind: str, encoding: str) -> None:
    assert refusal(body, kind, encoding) == 400


def test_half_a_pair_of_surrogates_in_json_costs_only_its_letter() -> None:
    text = r"\ud83d\ude00 cut \ud83d"
    body = json.dumps(AS_JSON).replace('"chat"', f'"{text}"').encode()
    (span,) = decoded(body, JSON).resource_spans[0].scope_spans[0].spans
    assert (span.name, span.trace_id) == ("\U0001f600 cut \ufffd", bytes.fromhex("01" * 16))


def test_values_ten_thousand_deep_are_refused() -> None:
    inner = b""
    for _ in range(10_000):
        part = b"\x0a" + varint(len(inner)) + inner  # ArrayValue.values
        inner = b"\x2a" + varint(len(part)) + part  # AnyValue.array_value
    key_value = b"\x0a\x01k\x12" + varint(len(inner)) + inner
    body = key_value
    for tag in (
        b"\x4a",
        b"\x12",
        b"\x12",
        b"\x0a",
    ):  # span.attributes, scope_spans.spans, ..., resource_spans
        body = tag + varint(len(body)) + body
    assert refusal(body) == 400
    nested: Any = {"stringValue": "x"}
    for _ in range(5_000):
        nested = {"arrayValue": {"values": [nested]}}
    deep = '{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":' + _json_of(nested) + "}]}}]}"
    assert refusal(deep.encode(), JSON) == 400


def envelope(field: bytes, content: bytes) -> bytes:
    return field + varint(len(content)) + content


def span_with(fields: bytes) -> bytes:
    return envelope(b"\x0a", envelope(b"\x12", envelope(b"\x12", fields)))


BOMBS = {
    "resources": b"\x0a\x00",
    "scopes": b"\x12\x00",
    "spans": b"\x12\x00",
    "attributes": b"\x4a\x00",
    "links": b"\x6a\x00",
    "events": b"\x5a\x00",
    "events with a long tag": b"\xda\x80\x00\x00",
}
WRAPPED = {
    "resources": bytes,
    "scopes": lambda data: envelope(b"\x0a", data),
    "spans": lambda data: envelope(b"\x0a", envelope(b"\x12", data)),
}


def size_of(data: bytes, kind: str = PROTOBUF) -> int:
    return decoded_size(ExportRequest("traces", data, kind), data)


@pytest.mark.parametrize("bomb", BOMBS)
def test_many_empty_elements_count_with_their_memory_before_they_are_decoded(bomb: str) -> None:
    """At least 40 bytes for each, where the body has two; upb takes 43 to 174."""
    data = WRAPPED.get(bomb, span_with)(BOMBS[bomb] * 10_000)
    assert size_of(data) > 40 * 10_000


EMPTY = ("empty resources", "empty scopes", "empty spans", "log records")
EMPTY_JSON = ("JSON objects", "JSON spans", "JSON values", "JSON logs")


@pytest.mark.parametrize("bomb", [*EMPTY, *EMPTY_JSON])
def test_a_body_of_empty_elements_is_refused_before_each_costs_time(bomb: str) -> None:
    signal, kind, build = bombs.BOMBS[bomb]
    request = ExportRequest(signal, build(20_000), kind)  # type: ignore[arg-type]
    with pytest.raises(RefusedError) as caught:
        decode(request, MOST)
    assert caught.value.answer.status == 400
    assert "most are empty" in caught.value.answer.message


@pytest.mark.parametrize("text", ['{"' * 3_000, "{}" * 3_000 + "\\", '\\"{' * 3_000])
def test_braces_in_texts_are_no_objects(text: str) -> None:
    attribute = {"key": "gen_ai.tool.call.result", "value": {"stringValue": text}}
    span = {"traceId": "0a" * 16, "spanId": "0b" * 8, "attributes": [attribute]}
    message = decoded(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode(), JSON)
    assert message.resource_spans[0].scope_spans[0].spans[0].attributes[0].value.string_value == text


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 3))
def test_no_request_with_ids_counts_as_empty(resources: int, scopes: int, spans: int) -> None:
    request = ExportTraceServiceRequest()
    for block in [request.resource_spans.add() for _ in range(resources)]:
        for scoped in [block.scope_spans.add() for _ in range(scopes)]:
            for _ in range(spans):
                scoped.spans.add(trace_id=b"\x01" * 16, span_id=b"\x02" * 8)
    assert decoded(request.SerializeToString()) == request
    found = {"traceId": "01" * 16, "spanId": "02" * 8}
    as_json = {"resourceSpans": [{"scopeSpans": [{"spans": [found] * spans}] * scopes}] * resources}
    assert decoded(json.dumps(as_json, separators=(",", ":")).encode(), JSON) == request


@pytest.mark.parametrize("letter", ["é", "\U0001f600", "\\u00e9"])
def test_json_text_that_python_keeps_wide_counts_with_its_width(letter: str) -> None:
    """One letter makes each of the others take up to four bytes, in the text and in its copy."""
    data = f'{{"a":"{"a" * 100_000}{letter}"}}'.encode()
    assert size_of(data, JSON) > 8 * 100_000


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=40), max_size=20))
def test_ordinary_spans_count_a_few_times_their_size(texts: list[str]) -> None:
    request = a_request()
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for text in texts:
        span.attributes.add(key="gen_ai.input.messages").value.string_value = text
    data = request.SerializeToString()
    assert len(data) < size_of(data) < 2_000 + 60 * len(data)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=150)
@given(
    st.binary(max_size=200),
    st.sampled_from([PROTOBUF, JSON]),
    st.sampled_from(["", "gzip", "deflate"]),
    st.sampled_from(["traces", "logs", "metrics"]),
)
def test_any_bytes_are_decoded_or_refused(body: bytes, kind: str, encoding: str, signal: Signal) -> None:
    status = 200
    try:
        decoded(body, kind, encoding, signal)
    except RefusedError as error:
        status = error.answer.status
    assert status in (200, 400, 413)


def _json_of(value: Any) -> str:
    """Nested values as JSON, deeper than json.dumps goes."""
    depth, text = 0, ""
    while "arrayValue" in value:
        value, depth = value["arrayValue"]["values"][0], depth + 1
    text = json.dumps(value)
    return '{"arrayValue":{"values":[' * depth + text + "]}}" * depth
