"""Cases of conventions as YAML: the spans of a trace, and all that is read from them.

An attribute that is a mapping, or a list with collections in it, is written as JSON, as instrumentations do;
`structured` has the ones that are recorded as such. What a run does not have is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import asdict

from otel_evals._internal.read.runs import read_runs
from otel_evals.model import Run, SpanEvent, SpanRecord
from tests.support.trace_builder import KNOWN_CONVENTIONS

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TRACE = "c" * 32
_FIELDS = {
    "root_kind": "kind",
    "agent_name": "agent",
    "input": "input",
    "output": "output",
    "system_instructions": "system",
    "models": "models",
    "provider": "provider",
    "conversation_id": "conversation",
    "user_id": "user",
    "agent_version": "agent_version",
    "prompt_version": "prompt_version",
    "tenant": "tenant",
    "finish_reasons": "finish",
    "waiting": "waiting",
    "error": "error",
    "error_type": "error_type",
}
_OF_CALLS = ("name", "id", "arguments", "result", "error", "error_type", "status")
_OF_DOCUMENTS = ("content", "id", "score", "query")


def load(path: Path) -> Iterator[dict[str, Any]]:
    """The cases of a file."""
    yield from yaml.load(path.read_text(encoding="utf-8"), _Loader)


def check(case: Mapping[str, Any]) -> None:
    """Read a case's spans, and compare all that is found with what the case says."""
    found = [read(run) for run in runs_of(case)]
    assert found == [with_defaults(run) for run in case["runs"]]


def runs_of(case: Mapping[str, Any]) -> list[Run]:
    traces: dict[str, list[SpanRecord]] = {}
    for number, given in enumerate(case["spans"]):
        span = span_of(number, given)
        traces.setdefault(span.trace_id, []).append(span)
    return list(read_runs(traces.values(), KNOWN_CONVENTIONS))


def span_of(number: int, given: Mapping[str, Any]) -> SpanRecord:
    """One span; its number and its parent's are its ids, and its times follow from it unless given."""
    more = {
        name: given[name] for name in ("kind", "status", "status_message", "scope_version") if name in given
    }
    above, ended = given.get("above"), given.get("end", number * 10 + 5)
    return SpanRecord(
        trace_id=given.get("trace", _TRACE),
        span_id=f"{number + 1:016x}",
        parent_span_id=None if above is None else f"{above + 1:016x}",
        name=given.get("name", ""),
        start_time=given.get("start", number * 10),
        end_time=ended,
        attributes={**_written(given.get("attributes", {})), **_plain(given.get("structured", {}))},
        events=tuple(map(_event, given.get("events", ()))),
        logs=tuple(map(_event, given.get("logs", ()))),
        scope_name=given.get("scope", ""),
        resource=given.get("resource", {}),
        dropped_attributes=given.get("dropped", 0),
        links=tuple(tuple(link) for link in given.get("links", ())),
        **more,
    )


def _event(given: Mapping[str, Any]) -> SpanEvent:
    attributes = {**_written(given.get("attributes", {})), **_plain(given.get("structured", {}))}
    dropped = given.get("dropped", 0)
    return SpanEvent(
        name=given.get("name", ""),
        time=given.get("time", 0),
        attributes=attributes,
        body=_plain(given.get("body")),
        dropped_attributes=dropped,
    )


def _written(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: json.dumps(v) if _nests(v) else _plain(v) for key, v in attributes.items()}


def _nests(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(v, dict | list) for v in value)
    )


def _plain(value: Any) -> Any:
    """A value with tuples for lists, as the SDK has them."""
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def read(run: Run) -> dict[str, Any]:
    """All that is read from a run, without what it does not have."""
    found: dict[str, Any] = {name: getattr(run, field) for field, name in _FIELDS.items()}
    found["kind"] = str(run.root_kind)
    found["history"] = [[message.role, message.text] for message in run.history]
    found["media"] = [m.describe() for message in run.input_messages for m in message.media]
    found["usage"] = {name: count for name, count in asdict(run.usage).items() if count}
    found["tools"] = [_known(call, _OF_CALLS) for call in run.tool_calls]
    found["attempts"] = [[each.status for each in call.attempts] for call in run.tool_calls if call.attempts]
    found["documents"] = [_known(document, _OF_DOCUMENTS) for document in run.documents]
    found["availability"] = {
        name: str(state) for name, state in run.availability.items() if state != "not_recorded"
    }
    return with_defaults(found)


def _known(record: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names if getattr(record, name) is not None}


def with_defaults(found: Mapping[str, Any]) -> dict[str, Any]:
    """A run's fields without the empty ones, and lists for tuples."""
    plain = json.loads(json.dumps(found, default=str))
    return {name: value for name, value in plain.items() if value not in (None, [], {}, False)}
