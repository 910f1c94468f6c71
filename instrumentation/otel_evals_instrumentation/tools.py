"""What a tool was given and what it gave, and what a retriever brought."""

from __future__ import annotations

from typing import Any

from otel_evals.model import Availability, Document, ToolCall
from otel_evals_instrumentation.messages import read_messages
from otel_evals_instrumentation.reading import Reading
from otel_evals_instrumentation.unwrap import arguments_of, documents_of, result_of
from otel_evals_instrumentation.values import is_masked, parse, parse_or_mend

__all__ = ["read_retrieval", "read_tool"]

_METHODS = (".__call__", ".__acall__", ".run", ".arun", ".call", ".acall", ".invoke", ".ainvoke", ".tool")
"""What stands after a tool's name where the span is named after the method that ran it."""


def read_tool(reading: Reading) -> None:
    """Read a tool's span: name, id, arguments, result, status."""
    span, fields = reading.span, reading.fields
    arguments = _value(reading, "arguments", "tool_arguments")
    result = _value(reading, "result", "tool_results")
    if arguments is None:
        arguments = _event(reading, "tool_arguments", "gen_ai.tool.message", "content")
    if result is None:
        result = _event(reading, "tool_results", "gen_ai.choice", "message")
    if arguments is None:
        arguments = _part(reading, "tool_arguments", "gen_ai.input.messages", "tool_call")
    if result is None:
        result = _part(reading, "tool_results", "gen_ai.output.messages", "tool_result")
    if arguments is None:
        arguments = _parameters(reading)
    value, failed = (None, False) if result in (None, "None") else result_of(result)
    error = fields.get("error")
    failed = failed or error is not None or reading.attributes.get("gen_ai.tool.status") == "error"
    if failed and error in (None, fields.get("error_type")):
        told = value.get("error") if isinstance(value, dict) else value
        error = told if isinstance(told, str) else error
    name = reading.text("tool_name") or _name_in(span.name)
    fields["name"] = name
    fields["tool_call"] = ToolCall(
        name=name,
        id=reading.text("tool_id"),
        arguments=None if arguments is None else arguments_of(arguments),
        result=value,
        error=error,
        error_type=fields.get("error_type"),
        status="error" if failed else "ok" if span.status == "OK" or value is not None else "unknown",
        span_id=span.span_id,
        duration=None if span.end_time is None else (span.end_time - span.start_time) / 1e9,
    )


def read_retrieval(reading: Reading) -> None:
    """Read a retriever's span: the documents it brought, and for which query."""
    query = reading.text("query")
    for _, key, value in reading.with_lists("documents"):
        documents: tuple[Document, ...] = documents_of(value, _query(query), reading.span.span_id)
        if documents:
            reading.fields["documents"] = documents
            reading.note("documents", key)
            return


def _parameters(reading: Reading) -> dict[str, Any] | None:
    """Arguments that stand one by one, as `code.function.parameters.<name>.value`."""
    start, end = "code.function.parameters.", ".value"
    found = {
        key[len(start) : -len(end)]: parse(value)
        for key, value in reading.attributes.items()
        if key.startswith(start) and key.endswith(end)
    }
    if found:
        reading.note("tool_arguments", start + "*")
    return found or None


def _query(text: str | None) -> str | None:
    messages = read_messages(text) if text else ()
    return messages[0].text if messages else text


def _name_in(span_name: str) -> str:
    """The tool's name in span names such as `execute_tool lookup`, `tool_call [lookup]` and `lookup.run`."""
    name = span_name.rpartition(" ")[2].strip("[]")
    while name.endswith(_METHODS):
        name = name.rpartition(".")[0]
    return name or span_name or "tool"


def _value(reading: Reading, field: str, noted_as: str) -> Any:
    for _, key, value in reading.found_at.get(field, ()):
        if value == "":
            continue
        if is_masked(value):
            reading.note(noted_as, key, Availability.CAPTURED_OFF)
            continue
        parsed, cut = parse_or_mend(value)
        reading.note(noted_as, key, Availability.TRUNCATED if cut else Availability.PRESENT)
        return parsed
    return None


def _event(reading: Reading, noted_as: str, event_name: str, key: str) -> Any:
    """Arguments or result, where they stand in an event."""
    for name, body in reading.events:
        if name == event_name and isinstance(body, dict) and body.get(key) is not None:
            reading.note(noted_as, name)
            return parse(body[key])
    return None


def _part(reading: Reading, noted_as: str, key: str, kind: str) -> Any:
    """Arguments or result, where they stand in messages."""
    value = reading.attributes.get(key)
    if value is None:
        return None
    data = next(
        (p.data for m in read_messages(value) for p in m.parts if p.kind == kind and p.data is not None), None
    )
    if data is not None:
        reading.note(noted_as, key)
    return data
