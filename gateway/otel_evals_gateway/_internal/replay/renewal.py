"""Fresh ids and times for recorded items, which keep their relations."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_evals_gateway._internal.receiver.decoder import FIELDS, MESSAGES
from otel_evals_gateway._internal.replay.recording import Recorded

_LATEST = 2**64 - 1


class Renewal:
    """Replaces every id of a recording, consistently.

    Ids are keyed hashes of the recorded ones (BLAKE2b, RFC 7693), so parents, links and log records match
    their spans in any order and file, and nothing needs to be remembered. Every replay has its own key.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key

    def request(self, items: Iterable[tuple[Recorded, int]]) -> bytes:
        """Return an export request of a single signal's items, with each time shifted by some nanoseconds."""
        blocks: dict[bytes, dict[bytes, list[Any]]] = {}
        signal = "traces"
        for item, shift in items:
            signal = item.signal
            renewed = self._span(item, shift) if signal == "traces" else self._log(item, shift)
            blocks.setdefault(item.resource, {}).setdefault(item.scope, []).append(renewed)
        request = MESSAGES[signal]()
        outer, inner, records = FIELDS[signal]
        for resource, scopes in blocks.items():
            block = getattr(request, outer).add()
            block.MergeFromString(resource)
            for scope, renewed_items in scopes.items():
                scoped = getattr(block, inner).add()
                scoped.MergeFromString(scope)
                getattr(scoped, records).extend(renewed_items)
        return bytes(request.SerializeToString())

    def trace_id(self, old: bytes) -> bytes:
        """Return the fresh id of a trace."""
        return self._hash(old, 16) if any(old) else old

    def span_id(self, trace: bytes, old: bytes) -> bytes:
        """Return the fresh id of a span, from its recorded id and its trace's."""
        return self._hash(trace + old, 8) if any(old) else old

    def _hash(self, data: bytes, size: int) -> bytes:
        return blake2b(data, digest_size=size, key=self._key).digest()

    def _span(self, item: Recorded, shift: int) -> Any:
        span = Span.FromString(item.data)
        span.parent_span_id = self.span_id(span.trace_id, span.parent_span_id)
        self._place(span)
        for link in span.links:
            self._place(link)
        for name in ("start_time_unix_nano", "end_time_unix_nano"):
            _move(span, name, shift)
        for event in span.events:
            _move(event, "time_unix_nano", shift)
        return span

    def _log(self, item: Recorded, shift: int) -> Any:
        log = LogRecord.FromString(item.data)
        self._place(log)
        for name in ("time_unix_nano", "observed_time_unix_nano"):
            _move(log, name, shift)
        return log

    def _place(self, message: Any) -> None:
        message.span_id = self.span_id(message.trace_id, message.span_id)
        message.trace_id = self.trace_id(message.trace_id)


def _move(message: Any, name: str, shift: int) -> None:
    time = getattr(message, name)
    if time:
        setattr(message, name, min(max(time + shift, 1), _LATEST))
