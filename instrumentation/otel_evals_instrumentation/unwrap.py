"""Arguments, results and documents, out of the envelopes that instrumentations put them in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_evals.model import Document
from otel_evals_instrumentation.parts import result_value
from otel_evals_instrumentation.reprs import read_message_str
from otel_evals_instrumentation.values import MAX_DEPTH, literal, parse

__all__ = ["arguments_of", "documents_of", "result_of"]

_CALL_ENVELOPE = {"args", "kwargs", "sanitize_inputs_outputs", "cancellation_token"}
_CALLBACKS = {"inputs", "input_str", "tags", "metadata", "kwargs", "args"}


def arguments_of(value: Any, depth: int = 0) -> Any:
    """A tool call's arguments as the JSON value they were."""
    parsed = parse(value)
    if parsed is value and isinstance(value, str):
        parsed = literal(value)
    if not isinstance(parsed, dict) or depth > 4:
        return parsed
    keys = parsed.keys()
    if "input_str" in keys or ("inputs" in keys and keys <= _CALLBACKS):
        inner = parsed.get("inputs")
        return arguments_of(parsed.get("input_str") if inner is None else inner, depth + 1)
    if "calling" in keys and "tool_string" in keys:  # CrewAI: `tool_name='lookup' arguments={...}`
        return literal(str(parsed["calling"]).partition(" arguments=")[2])
    if keys == {"input"} and isinstance(parsed["input"], str):  # LangSmith: the arguments, written as text
        inner = arguments_of(parsed["input"], depth + 1)
        return inner if isinstance(inner, dict) else parsed
    if keys == {"tool_name", "arguments"}:  # a request to an MCP server
        return arguments_of(parsed["arguments"], depth + 1)
    if keys <= _CALL_ENVELOPE and ("kwargs" in keys or "args" in keys):
        kwargs, args = parsed.get("kwargs"), parsed.get("args")
        if kwargs or not args:
            return kwargs if kwargs is not None else {}
        return args[0] if isinstance(args, (list, tuple)) and len(args) == 1 else args
    return parsed


def result_of(value: Any, depth: int = 0) -> tuple[Any, bool]:
    """A tool's result as the value it was, and whether it says that the tool failed."""
    parsed = parse(value)
    if isinstance(parsed, str):
        message = read_message_str(parsed)
        parsed = parsed if message is None else message
    if not isinstance(parsed, dict) or depth > 4:
        return result_value(parsed), False
    keys = parsed.keys()
    if "output" in keys and keys <= {"output", "kwargs", "tags", "metadata"}:
        return result_of(parsed["output"], depth + 1)
    if "outputs" in keys and keys <= {"outputs", "kwargs", "tags", "metadata"}:
        return result_of(parsed["outputs"], depth + 1)
    if "tool_output" in keys and "tool_name" in keys:  # LlamaIndex' event
        return result_of(parsed["tool_output"], depth + 1)
    if parsed.get("lc") == 1 and isinstance(parsed.get("kwargs"), dict):
        return result_of({"type": "tool", **parsed["kwargs"]}, depth + 1)
    if parsed.get("type") == "tool" and isinstance(parsed.get("data"), dict):
        return result_of({"type": "tool", **parsed["data"]}, depth + 1)
    if "content" in keys and ("tool_call_id" in keys or "toolCallId" in keys):
        return result_value(parsed["content"]), parsed.get("status") == "error"
    if "response" in keys and keys <= {"id", "name", "response", "will_continue", "scheduling", "parts"}:
        return result_value(parsed["response"]), False
    if parsed.get("isError") is True or parsed.get("is_error") is True:
        return result_value(parsed), True
    return result_value(parsed), False


def documents_of(value: Any, query: str | None = None, span_id: str | None = None) -> tuple[Document, ...]:
    """The documents that a retriever's output holds, whatever the library called their fields."""
    found = (_document(item, query, span_id) for item in _items(parse(value), 0))
    return tuple(d for d in found if d.content is not None or d.id is not None or d.metadata)


def _items(value: Any, depth: int) -> Iterator[Any]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, (list, tuple)):
        for item in value[:10_000]:
            item = parse(item) if isinstance(item, str) and item[:1] == "{" else item
            if isinstance(item, (list, tuple)):
                yield from _items(item, depth + 1)
            elif item is not None:
                yield item
    elif isinstance(value, dict):
        for key in ("documents", "outputs", "output", "results", "source_nodes", "nodes", "matches", "hits"):
            if isinstance(value.get(key), (list, tuple, dict)):
                yield from _items(value[key], depth + 1)
                return
        if value.keys() & {"content", "page_content", "text", "document", "id"}:
            yield value


def _document(item: Any, query: str | None, span_id: str | None) -> Document:
    if not isinstance(item, dict):
        return Document(content=item if isinstance(item, str) else str(item), query=query, span_id=span_id)
    outer = item
    for key in ("document", "node", "kwargs"):
        if isinstance(item.get(key), dict):
            item = item[key]
    content = next(
        (
            item[k]
            for k in ("content", "page_content", "text", "pageContent", "body")
            if isinstance(item.get(k), str)
        ),
        None,
    )
    metadata = parse(item.get("metadata") if item.get("metadata") is not None else item.get("meta"))
    score = outer.get("score", outer.get("relevance_score", item.get("score")))
    identity = item.get("id", item.get("document_id", item.get("id_", outer.get("id"))))
    return Document(
        content=content,
        id=None if identity is None else str(identity),
        score=float(score) if isinstance(score, (int, float)) and not isinstance(score, bool) else None,
        metadata=metadata if isinstance(metadata, dict) else {},
        query=query,
        span_id=span_id,
    )
