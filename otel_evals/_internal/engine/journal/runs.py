"""The spans of runs as bytes, for the journal of a process."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from otel_evals._internal.capture.items import RecordedSpan
from otel_evals._internal.engine.journal.journal import Journal
from otel_evals._internal.engine.journal.segments import Entry
from otel_evals._internal.engine.source import Source
from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.model import SpanEvent, SpanRecord

_logger = logging.getLogger(__name__)
_RUN: Final = "run"
# Attribute values of types that MessagePack lacks are kept as their text.
_encoder = msgspec.msgpack.Encoder(enc_hook=str)
_decoder = msgspec.msgpack.Decoder(SpanGroup)


def encode_group(group: SpanGroup) -> bytes:
    """Encode spans; any error if an attribute cannot be encoded."""
    return _encoder.encode(group)


def decode_group(payload: bytes) -> SpanGroup:
    """Invert `encode_group`; ValueError if the bytes are no spans. Sequences become tuples, as in spans."""
    try:
        group = _decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not the spans of a run: {error}") from error
    return replace(group, spans=tuple(map(_restored_span, group.spans)))


def _restored_span(span: SpanRecord) -> SpanRecord:
    return replace(
        span,
        attributes=_with_tuples(span.attributes),
        events=tuple(map(_restored_event, span.events)),
        logs=tuple(map(_restored_event, span.logs)),
    )


def _restored_event(event: SpanEvent) -> SpanEvent:
    return replace(event, attributes=_with_tuples(event.attributes))


def _with_tuples(attributes: Mapping[str, Any]) -> dict[str, Any]:
    # MessagePack has no tuples, which the SDK's attributes have instead of lists.
    return {key: tuple(value) if isinstance(value, list) else value for key, value in attributes.items()}


def items_of(group: SpanGroup) -> list[RecordedSpan]:
    """Return the spans as captured items, which become the same group again."""
    numbers: dict[str | None, int] = {span.span_id: int(span.span_id, 16) for span in group.spans}
    above = [group.links.get(span.span_id, span.parent_span_id) for span in group.spans]
    return [RecordedSpan(span, numbers.get(each, 0)) for span, each in zip(group.spans, above, strict=True)]


class RunJournal(Source):
    """Keeps the spans of sampled runs in a journal until these are scored and delivered."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._warned = False

    @property
    def problem(self) -> str | None:
        return self._journal.problem

    def sampled(self, group: SpanGroup) -> bool:
        try:
            keys = {bytes.fromhex(span.trace_id) for span in group.spans}
            return self._journal.append(Entry(_RUN, encode_group(group), keys))
        except Exception:  # of attributes that no span of an SDK has
            level = logging.DEBUG if self._warned else logging.ERROR
            self._warned = True
            _logger.log(level, "a run cannot be kept in the journal", exc_info=True)
            return False

    def done(self, trace_id: str) -> bool:
        self._journal.done(bytes.fromhex(trace_id))
        return True

    def close(self) -> None:
        """Leave what is not done to the next process."""
        self._journal.close()

    def after_fork_in_child(self) -> None:
        """Leave everything to the parent process."""
        self._journal.after_fork_in_child()

    def left(self) -> Iterator[list[RecordedSpan]]:
        """Yield the spans of each run that earlier processes did not finish."""
        for entry in self._journal.adopt():
            try:
                yield items_of(decode_group(entry.payload))
            except ValueError:
                _logger.exception("a run of an earlier process cannot be read")
                # Otherwise each later process would try to read it again.
                self._journal.done(*entry.keys)
