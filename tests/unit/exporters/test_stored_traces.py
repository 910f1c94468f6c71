"""Reading stored traces: what servers with the documented answers give, page by page, and what goes wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals._internal.cli.backends import query_of, stored_traces
from otel_evals.errors import ConfigError
from otel_evals.model import SpanRecord
from tests.support.recording_server import RecordedRequest, RecordingServer, Reply, recording_server

BEGAN = 1_790_000_000
"""When the first trace began, in seconds since the epoch; each of the others a second later."""
COUNT = 7


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingServer]:
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-secret")
    monkeypatch.setenv("TEMPO_TOKEN", "tempo-secret")
    monkeypatch.setenv("TEMPO_TENANT", "shop")
    monkeypatch.setenv("JAEGER_TOKEN", "jaeger-secret")
    monkeypatch.setenv("PHOENIX_API_KEY", "phoenix-secret")
    with recording_server() as running:
        yield running


def trace_id(number: int) -> str:
    return f"{number + 1:032x}"


def span_ids(number: int) -> tuple[str, str]:
    return f"{number * 2 + 16:016x}", f"{number * 2 + 17:016x}"


def sent(number: int) -> list[SpanRecord]:
    """An agent and its model, as they were sent."""
    agent, model = span_ids(number)
    start = (BEGAN + number) * 10**9
    own: dict[str, Any] = {"trace_id": trace_id(number), "start_time": start, "end_time": start + 10**9}
    own |= {"scope_name": "shop", "scope_version": "1", "resource": {"service.name": "shop"}}
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": f"Where is {number}?"}]}])
    called = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": said}
    called |= {"gen_ai.usage.input_tokens": 12, "gen_ai.request.temperature": 0.5}
    called |= {"gen_ai.response.finish_reasons": ("stop", "length"), "cached": True}
    return [
        SpanRecord(span_id=agent, name="invoke", attributes={"gen_ai.operation.name": "invoke_agent"}, **own),
        SpanRecord(
            span_id=model, parent_span_id=agent, name="chat m", kind="CLIENT", attributes=called, **own
        ),
    ]


def read(place: str, *, wanted: str = "") -> dict[str, list[SpanRecord]]:
    since = datetime.fromtimestamp(BEGAN - 60, UTC).isoformat()
    until = datetime.fromtimestamp(BEGAN + 300, UTC).isoformat()
    found = list(stored_traces(place, query_of(since, until, wanted)))
    assert len({trace[0].trace_id for trace in found}) == len(found), "a trace was given twice"
    return {trace[0].trace_id: sorted(trace, key=lambda span: span.span_id) for trace in found}


def json_reply(body: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(body).encode())


# --- Tempo ---


def otlp_value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case tuple():
            return {"arrayValue": {"values": [otlp_value(each) for each in value]}}
    return {"stringValue": value}


def pairs(attributes: Any) -> list[dict[str, Any]]:
    return [{"key": key, "value": otlp_value(value)} for key, value in attributes.items()]


def in_base64(id: str | None) -> str:
    return base64.b64encode(bytes.fromhex(id or "")).decode()


def tempo_span(span: SpanRecord) -> dict[str, Any]:
    ids = {"traceId": span.trace_id, "spanId": span.span_id, "parentSpanId": span.parent_span_id}
    times = {"startTimeUnixNano": str(span.start_time), "endTimeUnixNano": str(span.end_time)}
    named = {"name": span.name, "kind": f"SPAN_KIND_{span.kind}", "attributes": pairs(span.attributes)}
    return {**{name: in_base64(id) for name, id in ids.items()}, **times, **named}


def tempo(request: RecordedRequest, *, limit: int = 3) -> Reply:
    """Tempo's search, which gives so many in no order, and its traces."""
    if request.path == "/api/search":
        start, end = int(request.query["start"][0]), int(request.query["end"][0])
        asked = min(limit, int(request.query["limit"][0]))
        inside = [n for n in range(COUNT) if start <= BEGAN + n < end]
        return json_reply({"traces": [{"traceID": f"{n + 1:x}"} for n in inside[:asked]]})
    number = int(request.path.rsplit("/", 1)[1], 16) - 1
    spans = [tempo_span(span) for span in sent(number)]
    resource, scope = {"attributes": pairs({"service.name": "shop"})}, {"name": "shop", "version": "1"}
    block = {"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}
    return json_reply({"trace": {"resourceSpans": [block]}})


def test_tempo_gives_what_was_sent(server: RecordingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_evals_exporters._internal.tempo._PAGE", 3)
    server.reply = tempo
    found = read(f"tempo={server.url}", wanted='{ resource.service.name = "shop" }')
    assert found == {trace_id(n): sent(n) for n in range(COUNT)}
    first = server.requests[0]
    assert first.query["q"] == ['{ resource.service.name = "shop" }']
    assert first.headers["authorization"] == "Bearer tempo-secret"
    assert first.headers["x-scope-orgid"] == "shop"


def test_tempo_says_when_there_is_more_than_it_gives(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_evals_exporters._internal.tempo._PAGE", 1)
    server.reply = lambda request: tempo(request, limit=1)
    with pytest.raises(ConfigError, match=r"--from tempo: there are more traces within 1 s .*--filter"):
        read(f"tempo={server.url}")


def test_tempo_leaves_out_traces_that_it_gives_in_part(server: RecordingServer) -> None:
    def reply(request: RecordedRequest) -> Reply:
        whole = tempo(request, limit=99)
        if request.path.endswith(trace_id(2)):
            return json_reply({**json.loads(whole.body), "status": "PARTIAL", "message": "too large"})
        return whole

    server.reply = reply
    assert set(read(f"tempo={server.url}")) == {trace_id(n) for n in range(COUNT) if n != 2}


# --- Jaeger ---


def jaeger_span(span: SpanRecord) -> dict[str, Any]:
    ids = {"traceId": span.trace_id, "spanId": span.span_id, "parentSpanId": span.parent_span_id or ""}
    return {**tempo_span(span), **ids}


def jaeger(request: RecordedRequest) -> Reply:
    if request.path == "/api/v3/services":
        return json_reply({"services": ["shop", "other"]})
    start, end = (
        datetime.fromisoformat(request.query[f"query.start_time_{name}"][0]).timestamp()
        for name in ("min", "max")
    )
    resource, scope = {"attributes": pairs({"service.name": "shop"})}, {"name": "shop", "version": "1"}
    inside = [n for n in range(COUNT) if start <= BEGAN + n < end][:3]
    if not inside:
        return Reply(404, b"{}")
    spans = [jaeger_span(span) for n in inside for span in sent(n)]
    block = {"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}
    return json_reply({"result": {"resourceSpans": [block]}})


def test_jaeger_gives_what_was_sent(server: RecordingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_evals_exporters._internal.jaeger._PAGE", 3)
    server.reply = jaeger
    assert read(f"jaeger={server.url}") == {trace_id(n): sent(n) for n in range(COUNT)}
    with pytest.raises(ConfigError, match="takes service=NAME and operation=NAME, not cached"):
        read(f"jaeger={server.url}", wanted="service=shop cached=true")


# --- Langfuse ---


def observation(span: SpanRecord) -> dict[str, Any]:
    """As Langfuse keeps a span: what was said is taken out of its attributes."""
    attributes = {k: v for k, v in span.attributes.items() if k != "gen_ai.input.messages"}
    metadata = {"attributes": attributes, "resourceAttributes": span.resource}
    metadata |= {"scope": {"name": span.scope_name, "version": span.scope_version}}
    said = span.attributes.get("gen_ai.input.messages")
    times = {
        name: datetime.fromtimestamp(at / 1e9, UTC).isoformat().replace("+00:00", "Z")
        for name, at in (("startTime", span.start_time), ("endTime", span.end_time or 0))
    }
    return {
        "id": span.span_id,
        "traceId": span.trace_id,
        "parentObservationId": span.parent_span_id,
        "name": span.name,
        "type": "GENERATION" if said else "AGENT",
        "input": json.loads(said) if said else None,
        "metadata": metadata,
        "level": "DEFAULT",
        **times,
    }


def langfuse(request: RecordedRequest) -> Reply:
    wanted = request.query.get("traceId")
    rows = [observation(span) for n in range(COUNT) for span in sent(n)]
    rows = [row for row in rows if wanted is None or row["traceId"] in wanted]
    at = int(request.query.get("cursor", ["0"])[0])
    more = {"cursor": str(at + 3)} if at + 3 < len(rows) else {}
    if "metadata" not in request.query.get("fields", [""])[0]:
        rows = [{"id": row["id"], "traceId": row["traceId"]} for row in rows]
    return json_reply({"data": rows[at : at + 3], "meta": more})


def test_langfuse_gives_attributes_and_what_was_said(server: RecordingServer) -> None:
    server.reply = langfuse
    found = read(f"langfuse={server.url}", wanted="environment=production")
    assert set(found) == {trace_id(n) for n in range(COUNT)}
    model, expected = found[trace_id(1)][1], sent(1)[1]
    assert (model.parent_span_id, model.start_time, model.end_time) == (
        expected.parent_span_id,
        expected.start_time,
        expected.end_time,
    )
    assert (model.scope_name, model.resource) == ("shop", {"service.name": "shop"})
    said = json.loads(expected.attributes["gen_ai.input.messages"])
    assert json.loads(model.attributes["langfuse.observation.input"]) == said
    assert model.attributes["gen_ai.usage.input_tokens"] == 12
    asked = [request for request in server.requests if "traceId" not in request.query]
    assert {request.query["environment"][0] for request in asked} == {"production"}


# --- what goes wrong ---


def test_a_server_that_is_away_for_a_moment_is_asked_again(server: RecordingServer) -> None:
    answers = iter([Reply(503, b"", {"Retry-After": "0"}), Reply(dies=True)])
    server.reply = lambda request: next(answers, None) or tempo(request, limit=99)
    assert len(read(f"tempo={server.url}")) == COUNT


def garbage(_: RecordedRequest) -> Reply:
    return Reply(200, b"<html>", {"Content-Type": "text/html"})


def refusing(request: RecordedRequest) -> Reply:
    return Reply(401, request.headers["authorization"].encode())


def other_form(_: RecordedRequest) -> Reply:
    return json_reply({"data": "nothing of the kind", "meta": {}, "traces": [{"no": "id"}], "services": [1]})


@pytest.mark.parametrize("reply", [garbage, refusing, other_form])
@pytest.mark.parametrize("name", ["jaeger", "langfuse", "phoenix", "tempo"])
def test_a_wrong_server_is_told_and_no_key(
    name: str, reply: Callable[[RecordedRequest], Reply], server: RecordingServer, tmp_path: Path
) -> None:
    server.reply = reply
    given = ["--from", f"{name}={server.url}", "--since", "1h", "--scorer", "answered"]
    done = CliRunner().invoke(app, ["score", *given])
    assert done.exit_code == 2, done.output
    assert done.output.startswith(f"otel-evals score: --from {name}: ")
    assert all(key not in done.output for key in ("secret", base64.b64encode(b"pk:sk-secret").decode()))
