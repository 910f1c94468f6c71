"""Adds scoring to an existing tracer provider, and to the processors that are added to it later.

Capture goes in front of the provider's processors, and their exporters are wrapped to add scores to judged
spans. Both happen once per provider; configuring again replaces the pipeline.

The SDK has no public API for this: only this module uses private fields of the SDK and of libraries
that wrap it. Each access is guarded: a provider with other fields gets capture by `add_span_processor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter

from otel_evals._internal.attach.providers import unwrapped
from otel_evals._internal.attach.scoring_exporter import AdoptedExporter, ScoringSpanExporter
from otel_evals._internal.live.pipeline import Pipeline

_MAX_DEPTH = 6
_MAX_FOUND = 100
"""Fields that are examined in one processor and those inside it."""
_BATCH = "_batch_processor"
_EXPORTERS = ("span_exporter", "_exporter", "exporter")
"""Fields whose value is an exporter even if its class is not the SDK's."""
_Place = tuple[Any, str, Any, Callable[[Any], object]]
"""An object, the name of its field, a value in it, and a function that replaces the value."""


def exporters_in(processor: Any) -> list[_Place]:
    """Return the exporters inside a processor, found by interface: wrappers name their fields freely."""
    found: list[_Place] = []
    seen: set[int] = set()

    def examine(owner: Any, depth: int) -> None:
        for _, name, value, put in _places(owner):
            if len(seen) + len(found) >= _MAX_FOUND or depth == 0:
                continue
            if isinstance(value, SpanExporter) or (name in _EXPORTERS and hasattr(value, "export")):
                found.append((owner, name, value, put))
            elif id(value) in seen:
                continue
            elif name == _BATCH or hasattr(value, "on_end"):
                seen.add(id(value))
                examine(value, depth - 1)

    examine(processor, _MAX_DEPTH)
    return found


def _places(owner: Any) -> Iterator[_Place]:
    """Yield the values of an object's fields, and the values in lists and tuples there."""
    for name, value in list(getattr(owner, "__dict__", {}).items()):
        if isinstance(value, list):
            items = list(enumerate(value))[:_MAX_FOUND]
            yield from ((owner, name, each, partial(value.__setitem__, place)) for place, each in items)
        elif isinstance(value, tuple):
            yield from ((owner, name, each, partial(_put, owner, name, each)) for each in value)
        else:
            yield owner, name, value, partial(setattr, owner, name)


def _put(owner: Any, name: str, old: Any, new: Any) -> None:
    """Replace a value in a tuple."""
    setattr(owner, name, tuple(new if each is old else each for each in getattr(owner, name)))


class _Spans(SpanProcessor):
    """Forwards spans to the capture of the configured pipeline, if processors cannot be replaced."""

    def __init__(self) -> None:
        self.target = SpanProcessor()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.target.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        self.target.on_end(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self.target.force_flush(timeout_millis)

    def shutdown(self) -> None:
        self.target.shutdown()


class _LogRecords(LogRecordProcessor):
    """Forwards log records to the capture of the configured pipeline."""

    def __init__(self) -> None:
        self.target: LogRecordProcessor | None = None

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        if self.target is not None:
            self.target.on_emit(log_record)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True

    def shutdown(self) -> None:
        """Nothing to free."""


class _Adopted:
    """Scoring in one tracer provider of the SDK."""

    def __init__(self, provider: Any) -> None:
        self.exporters: list[AdoptedExporter] = []
        self.owners: list[Any] = []
        """The objects that export by these exporters, such as batch processors."""
        self.front: Pipeline | None = None
        self._holder: Callable[[SpanExporter], ScoringSpanExporter] | None = None
        """Makes what holds spans for their scores; None while they pass."""
        self._composite: Any = getattr(provider, "_active_span_processor", None)
        self._indirect: _Spans | None = None
        # A field of another type cannot be given a processor in front: a public method adds one.
        if isinstance(getattr(self._composite, "_span_processors", None), tuple):
            self._wrap_later_ones()
        else:
            self._indirect = _Spans()
            provider.add_span_processor(self._indirect)

    def capture(self, front: Pipeline | None) -> None:
        """Hand the provider's spans to this pipeline from now on."""
        others = self.others()
        self.front = front
        if self._indirect is not None:
            self._indirect.target = SpanProcessor() if front is None else front.spans
            return
        # In front of all exporters: a span must be captured before it is exported.
        self._composite._span_processors = tuple(others) if front is None else (front.spans, *others)

    def hold(self, front: Pipeline | None) -> None:
        """Hold the exporters' spans for the scores of this pipeline; None lets them pass.

        The hold of an earlier pipeline stays until the second call.
        """
        last, self._holder = self._holder, None if front is None else front.hold
        for exporter in self.exporters:
            if self._holder == last:
                exporter.settle()
            else:
                exporter.hold_by(self._holder)

    def others(self) -> list[SpanProcessor]:
        placed = self._indirect or (None if self.front is None else self.front.spans)
        processors = getattr(self._composite, "_span_processors", ())
        return [each for each in processors if each is not placed]

    def _wrap_later_ones(self) -> None:
        add = self._composite.add_span_processor

        def add_and_wrap(span_processor: SpanProcessor) -> None:
            # Before it is added: from then on, it may export.
            if self._holder is not None:
                self.wrap(span_processor)
            add(span_processor)

        self._composite.add_span_processor = add_and_wrap

    def wrap(self, processor: SpanProcessor) -> bool:
        """Wrap the exporters inside a processor; return False if it has none."""
        places = exporters_in(processor)
        wrapped: dict[int, AdoptedExporter] = {}  # an exporter may be in several fields
        for owner, _, exporter, put in places:
            # Wrapped by hand, or by an earlier configuration.
            if isinstance(exporter, ScoringSpanExporter) or exporter in self.exporters:
                continue
            adopted = wrapped.get(id(exporter))
            if adopted is None:
                # The exporter of the auto-instrumentation is a wrapper already.
                adopted = exporter if isinstance(exporter, AdoptedExporter) else AdoptedExporter(exporter)
                wrapped[id(exporter)] = adopted
            put(adopted)
            self.owners.append(owner)
        for adopted in wrapped.values():
            adopted.hold_by(self._holder)
            self.exporters.append(adopted)
        return bool(places)


_MARK = "_otel_evals_adopted"
"""Field of a provider with its adoption: providers need not be hashable."""


def adopt(provider: Any, front: Pipeline, *, wrap: bool) -> list[str]:
    """Capture a provider's spans and wrap its exporters, also those that are added later.

    Returns the names of processors that may export spans without scores: they receive ended spans, and no
    processor has an exporter that could be wrapped.
    """
    provider = unwrapped(provider)
    adopted = getattr(provider, _MARK, None)
    if adopted is None:
        adopted = _Adopted(provider)
        setattr(provider, _MARK, adopted)
    # Before the capture: what it announces is held.
    adopted.hold(front if wrap else None)
    others = adopted.others()
    wrapped = [adopted.wrap(processor) for processor in others if wrap]
    adopted.capture(front)
    return [] if any(wrapped) or not wrap else [type(each).__name__ for each in others if _sees_ends(each)]


def release(provider: Any, front: Pipeline) -> None:
    """Let a provider's spans and exporters go, unless another pipeline has them already."""
    adopted = getattr(unwrapped(provider), _MARK)
    # Configuring again lets the new pipeline capture before the old one is released.
    if adopted.front is front:
        adopted.hold(None)
        adopted.capture(None)
        adopted.hold(None)


def _sees_ends(processor: object) -> bool:
    """Return True if a processor receives ended spans, and may therefore export them."""
    return getattr(type(processor), "on_end", None) is not SpanProcessor.on_end


@dataclass(frozen=True, kw_only=True)
class Described:
    processor: str
    exporter: str
    """Empty if none was found in it, although it receives ended spans."""
    held: bool
    """True if the exporter holds judged spans for their scores."""


def describe(provider: Any) -> list[Described]:
    """List a provider's processors except ours, and their exporters."""
    adopted = getattr(unwrapped(provider), _MARK, None)
    if adopted is None:
        return []
    found = []
    for processor in adopted.others():
        nothing = [(None, "", None, None)] if _sees_ends(processor) else []
        places = exporters_in(processor) or nothing
        for exporter in {id(each): each for *_, each, _ in places}.values():
            own, held = exporter, isinstance(exporter, ScoringSpanExporter)
            if isinstance(exporter, AdoptedExporter):
                own, held = exporter._own, exporter._held is not None
            name = "" if own is None else type(own).__name__
            found.append(Described(processor=type(processor).__name__, exporter=name, held=held))
    return found


def owners_of(provider: Any) -> list[Any]:
    """Return the objects that own a provider's wrapped exporters, such as batch processors.

    A processor around them may not forward `force_flush`.
    """
    return list(getattr(getattr(unwrapped(provider), _MARK, None), "owners", ()))


def is_captured(provider: Any) -> bool:
    """Return True if the provider's spans are captured now."""
    return getattr(getattr(unwrapped(provider), _MARK, None), "front", None) is not None


def same_provider(one: Any, other: Any) -> bool:
    return unwrapped(one) is unwrapped(other)


def adopt_logs(provider: Any, front: Pipeline) -> None:
    """Capture a logger provider's records."""
    if not hasattr(provider, "add_log_record_processor"):
        return
    records = getattr(provider, _MARK, None)
    if records is None:
        records = _LogRecords()
        setattr(provider, _MARK, records)
        provider.add_log_record_processor(records)
    records.target = front.log_records


def release_logs(provider: Any, front: Pipeline) -> None:
    """Stop to capture a logger provider's records, unless another pipeline does already."""
    records = getattr(provider, _MARK, None)
    if records is not None and records.target is front.log_records:
        records.target = None
