"""Converts span records to rows of values and back, for the durable queue's file.

A row has a record's fields in order, with the index of the resource, which spans of a process share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from otel_evals._internal.model.spans import SpanEvent, SpanRecord

_SPAN = SpanRecord.__struct_fields__
_EVENT = SpanEvent.__struct_fields__
_span_values = attrgetter(*_SPAN)
_LINKS = _SPAN.index("links")
"""The first field that rows of earlier versions lack."""
_RESOURCE, _EVENTS, _LOGS = (_SPAN.index(name) for name in ("resource", "events", "logs"))
_event_row = attrgetter(*_EVENT)


def _event_of(row: Sequence[Any]) -> SpanEvent:
    if len(row) != len(_EVENT):
        raise TypeError(f"a row of {len(row)} values is no event")
    return SpanEvent(**dict(zip(_EVENT, row, strict=True)))


def span_rows(spans: Iterable[SpanRecord]) -> tuple[list[list[Any]], list[Mapping[str, Any]]]:
    """Return rows of spans, and the resources that rows refer to by index."""
    resources: list[Mapping[str, Any]] = []
    rows = []
    for span in spans:
        row = list(_span_values(span))
        row[_RESOURCE] = _index(resources, span.resource)
        if span.events:
            row[_EVENTS] = [_event_row(event) for event in span.events]
        if span.logs:
            row[_LOGS] = [_event_row(log) for log in span.logs]
        rows.append(row)
    return rows, resources


def span_of(row: Sequence[Any], resources: Sequence[Mapping[str, Any]]) -> SpanRecord:
    """Return the span of a row."""
    if not _LINKS <= len(row) <= len(_SPAN):
        raise TypeError(f"a row of {len(row)} values is no span")
    values = dict(zip(_SPAN, row, strict=False))
    values["resource"] = resources[values["resource"]]
    values["events"] = tuple([_event_of(each) for each in values["events"]])
    values["logs"] = tuple([_event_of(each) for each in values["logs"]])
    if "links" in values:
        values["links"] = tuple([(trace_id, span_id) for trace_id, span_id in values["links"]])
    return SpanRecord(**values)


def _index(resources: list[Mapping[str, Any]], resource: Mapping[str, Any]) -> int:
    for index, known in enumerate(resources):
        if known is resource or known == resource:
            return index
    resources.append(resource)
    return len(resources) - 1
