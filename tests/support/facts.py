"""What a trace is known to mean, as facts, and how many of them are recovered from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.read.split_runs import join_split_runs
from otel_evals.model import SpanEvent, SpanRecord
from tests.support.trace_builder import KNOWN_CONVENTIONS

__all__ = ["Case", "case", "missed", "span"]


@dataclass(frozen=True)
class Case:
    """Made-up spans in the form of one product's test suite, and what that product says they mean."""

    name: str
    spans: tuple[SpanRecord, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    """By name: `runs`, `input`, `output`, `system`, `models`, `usage`, `tools`, `documents`, `conversation`,
    `user`, `error`. `tools` are (name, arguments, result, status)."""


def span(name: str, attributes: dict[str, Any], above: int | None = 0, **more: Any) -> dict[str, Any]:
    """One span of a case; the first stands above the others unless told otherwise."""
    return {"name": name, "attributes": attributes, "above": above, **more}


def case(name: str, *spans: dict[str, Any], scope: str = "my.app", **facts: Any) -> Case:
    """A case of one run unless told otherwise; objects among the attributes are written as JSON."""
    records = tuple(_record(number, dict(each), scope) for number, each in enumerate(spans))
    return Case(name, records, {"runs": 1, **facts})


def _record(number: int, told: dict[str, Any], scope: str) -> SpanRecord:
    above = told.pop("above")
    events = tuple(SpanEvent(name=n, attributes=_written(a)) for n, a in told.pop("events", ()))
    logs = tuple(SpanEvent(name=n, attributes=_written(a), body=b) for n, a, b in told.pop("logs", ()))
    top = number == 0 or above is None
    return SpanRecord(
        trace_id="c" * 32,
        span_id=f"{number + 1:016x}",
        parent_span_id=None if top else f"{above + 1:016x}",
        name=told.pop("name"),
        attributes=_written(told.pop("attributes")),
        start_time=told.pop("start_time", number * 10),
        end_time=told.pop("end_time", 1_000 - number if top else number * 10 + 5),
        scope_name=told.pop("scope", scope),
        events=events,
        logs=logs,
        **told,
    )


def _written(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes as they are exported: mappings, and lists of them, as JSON."""
    return {key: json.dumps(v) if _nests(v) else v for key, v in attributes.items()}


def _nests(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_is_collection, value)))


def _is_collection(value: Any) -> bool:
    return isinstance(value, (dict, list))


def missed(case: Case) -> Iterator[tuple[str, Any, Any]]:
    """The facts of a case that are not recovered, as (fact, wanted, found)."""
    runs = list(join_split_runs(find_runs(case.spans, KNOWN_CONVENTIONS)))
    found: dict[str, Any] = {"runs": len(runs)}
    if runs:
        run = runs[-1]
        used = (run.usage.input_tokens, run.usage.output_tokens)
        found.update(
            input="\n\n".join(m.text for m in run.input_messages) or None,
            output=run.output,
            system=run.system_instructions,
            models=list(run.models),
            usage=used,
            cached=run.usage.cache_read_tokens,
            reasoning=run.usage.reasoning_tokens,
            tools=[(c.name, c.arguments, c.result, c.status) for c in run.tool_calls],
            documents=[d.content for d in run.documents],
            conversation=run.conversation_id,
            user=run.user_id,
            agent=run.agent_name,
            error=run.error,
        )
    for fact, wanted in case.facts.items():
        if found.get(fact) != wanted:
            yield fact, wanted, found.get(fact)
