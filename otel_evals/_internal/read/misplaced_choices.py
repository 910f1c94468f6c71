"""Restores choices of streamed model calls that were logged on the parent span."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from otel_evals._internal.dialect import Dialects
from otel_evals._internal.model import SpanRecord

_CHOICE = "gen_ai.choice"


def restore_choices(records: Mapping[str, SpanRecord], dialects: Dialects) -> Mapping[str, SpanRecord]:
    """Move `gen_ai.choice` log records that are on a parent span to its model calls, in order.

    Instrumentations that log the choice of a streamed call after its span has ended log it on the parent.
    """
    restored: dict[str, SpanRecord] = {}
    for record in records.values():
        if not record.logs or dialects.choose(record.scope_name, record.attributes) is not None:
            continue
        choices = [log for log in record.logs if log.name == _CHOICE]
        if choices:
            calls = sorted(_without_choice(record.span_id, records, dialects), key=lambda r: r.end_time or 0)
            if len(calls) == len(choices):
                restored.update(
                    (c.span_id, replace(c, logs=(*c.logs, log)))
                    for c, log in zip(calls, choices, strict=True)
                )
    return {**records, **restored} if restored else records


def _without_choice(
    parent: str, records: Mapping[str, SpanRecord], dialects: Dialects
) -> Iterable[SpanRecord]:
    for record in records.values():
        told = any(log.name == _CHOICE for log in record.logs)
        if (
            record.parent_span_id == parent
            and record.status != "ERROR"
            and not told
            and dialects.choose(record.scope_name, record.attributes)
        ):
            yield record
