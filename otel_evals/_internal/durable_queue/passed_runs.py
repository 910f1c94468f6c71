"""Encodes runs that a process passes on to the one that gathers their conversation."""

from __future__ import annotations

import json
from collections.abc import Hashable

from otel_evals import semconv
from otel_evals._internal.durable_queue.payload import decode, encode
from otel_evals._internal.evaluate.conversations import ids_of
from otel_evals._internal.evaluate.queue_interface import PassedRun
from otel_evals._internal.model import OperationKind, Run
from otel_evals._internal.read.reader import group_of

_IDS = b'{"ids":'
_TEXTS = "trace_id", "root_span_id", "conversation_id", "user_id"


def encode_run(run: Run, *, ruled_out: bool) -> bytes:
    """Encode a run, or only its ids if no rule can sample its conversation."""
    if not ruled_out:
        group = group_of([run])
        return encode(group.spans, group.links)
    ids = ids_of(run)
    texts = {name: getattr(ids, name) for name in _TEXTS}
    return json.dumps({"ids": texts, "resource": dict(ids.resource)}, separators=(",", ":")).encode("ascii")


def decode_run(
    payload: bytes, conversation: str, source: Hashable, *, judged: bool, read_before: bool
) -> PassedRun:
    """Invert `encode_run`; raise ValueError if the bytes are not an encoded run."""
    if not payload.startswith(_IDS):
        return PassedRun(conversation, *decode(payload), None, source, judged, read_before)
    try:
        read = json.loads(payload)
        ids = {name: None if (text := read["ids"][name]) is None else str(text) for name in _TEXTS}
        service = read["resource"].get(semconv.SERVICE_NAME)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not the ids of a run: {error!r}") from error
    run = Run(
        trace_id=ids["trace_id"] or "",
        root_span_id=ids["root_span_id"] or "",
        root_kind=OperationKind.AGENT,
        conversation_id=ids["conversation_id"],
        user_id=ids["user_id"],
        resource={} if service is None else {semconv.SERVICE_NAME: service},
    )
    return PassedRun(conversation, (), {}, run, source, judged, read_before)
