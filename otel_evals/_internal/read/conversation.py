"""Combines the runs of a conversation into one run of all turns, which any scorer can judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain
from typing import Any

from otel_evals import semconv
from otel_evals._internal.model import Availability, Message, Run, Usage
from otel_evals._internal.read.assemble import unique_documents

_LONGEST_ID = 256
_COLLECTED = {"tool_arguments": "tool_calls", "tool_results": "tool_calls", "documents": "documents"}
_WORST_FIRST = (
    Availability.CAPTURED_OFF,
    Availability.NOT_RECORDED,
    Availability.TRUNCATED,
    Availability.PRESENT,
)


def as_conversation(runs: Iterable[Run]) -> Run:
    """Combine the runs of a conversation, in any order, into one run.

    Input, output, error, ids and resource come from the last run; the history is everything before it;
    operations, tool calls, documents, models and usage come from all runs; it lasts from the first run's
    start to the last run's end. The runs themselves are its `turns`.

    Raises:
        IndexError: there are no runs.
    """
    turns = tuple(sorted(runs, key=lambda run: (run.start_time, run.root_span_id)))
    last = turns[-1]
    ends = [run.end_time for run in turns if run.end_time is not None]
    return replace(
        last,
        turns=turns,
        trace_ids=tuple(dict.fromkeys(_all(turns, "trace_ids"))),
        operations=tuple(sorted(_all(turns, "operations"), key=lambda o: o.span.start_time)),
        children={parent: below for run in turns for parent, below in run.children.items()},
        user_id=_latest(turns, "user_id"),
        system_instructions=_latest(turns, "system_instructions"),
        history=_history(turns),
        tool_calls=tuple(_all(turns, "tool_calls")),
        documents=unique_documents(_all(turns, "documents")),
        models=tuple(dict.fromkeys(_all(turns, "models"))),
        usage=sum((run.usage for run in turns), Usage()),
        start_time=turns[0].start_time,
        end_time=max(ends, default=None),
        availability={**last.availability, **_availability(turns)},
        sources={name: source for run in turns for name, source in run.sources.items()},
    )


def _all(turns: Sequence[Run], name: str) -> Iterable[Any]:
    return chain.from_iterable(getattr(run, name) for run in turns)


def _latest(turns: Sequence[Run], name: str) -> Any:
    return next((value for run in reversed(turns) if (value := getattr(run, name)) is not None), None)


def _history(turns: Sequence[Run]) -> tuple[Message, ...]:
    """Return the messages before the last turn: from the turns, or from the last run if that has more."""
    messages = list(turns[0].history) if len(turns) > 1 else []
    for run in turns[:-1]:
        messages += (*run.input_messages, *run.output_messages)
    # Some turns may be missing or lack their content, which the last request may repeat.
    recorded = turns[-1].history
    asked, known = ([m for m in each if m.role == "user" and m.text] for each in (recorded, messages))
    return recorded if len(asked) > len(known) or not messages else tuple(messages)


def _availability(turns: Sequence[Run]) -> dict[str, Availability]:
    """Return the worst availability of fields collected from all turns."""
    states: dict[str, Availability] = {}
    for name, holder in _COLLECTED.items():
        # A turn without calls or documents lacks no content.
        known = [run.availability[name] for run in turns if getattr(run, holder) and name in run.availability]
        if known:
            states[name] = min(known, key=_WORST_FIRST.index)
    return states


def conversation_key(run: Run) -> tuple[str, str, str]:
    """Return service name, conversation id and user id, each empty if not recorded.

    Applications number conversations for each user, or call all of them "default", so conversations of two
    users are never one. A digest replaces an id longer than 256 characters, because keys are kept for long.
    """
    service = str(run.resource.get(semconv.SERVICE_NAME) or "")
    return _short(service), _short(run.conversation_id or ""), _short(run.user_id or "")


def _short(name: str) -> str:
    if len(name) <= _LONGEST_ID:
        return name
    return "sha256:" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
