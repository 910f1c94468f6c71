"""Adds scoring to an existing tracer provider, and to the processors that are added to it later.

Capture goes in front of the provider's processors, and their exporters are wrapped to add scores to judged
spans. Both happen once per provider; configuring again replaces the pipeline.

The SDK has no public API for this: only this module uses private fields of the SDK and of libraries
that wrap it. `configure` refuses a provider with other fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_evals._internal.attach.providers import unwrapped
from otel_evals._internal.attach.scoring_exporter import ScoringSpanExporter
from otel_evals._internal.live.pipeline import Pipeline

_MAX_DEPTH = 6
_MAX_FOUND = 100
"""Fields that are examined in one processor and those inside it."""
_STOP_SECONDS = 0.5
"""Time for held spans to leave when scoring ends; a slow exporter continues afterwards."""
_BATCH = "_batch_processor"
_EXPORTERS = ("span_exporter", "_exporter", "exporter")
"""Fields whose value is an exporter even if its class is not the SDK's."""
_Place = tuple[Any, str, Any, Callable[[Any], object]]
"""An object, the name of its field, a value in it, and a function that replaces the value."""


class AdoptedExporter(SpanExporter):
    """Wraps an exporter: while there is a pipeline, judged spans are held for their scores.

    Other attributes are read from the exporter.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._own = exporter
        self._held: ScoringSpanExporter | None = None
        self._leaving: ScoringSpanExporter | None = None
        """A stopped hold that still has spans, because its exporter is slow."""

    @property
    def holds(self) -> bool:
        return self._held is not None

    def hold_for(self, front: Pipeline | None) -> None:
        """Hold spans for the scores of this pipeline; None stops holding."""
        last = self._held or self._leaving
        self._leaving = None if last is None or last.stop(_STOP_SECONDS) else last
        # A new hold exports through the one that still leaves: exporters need not be thread-safe.
        self._held = None if front is None else front.hold(self._leaving or self._own)

    @property
    def _next(self) -> SpanExporter:
        return self._held or self._leaving or self._own

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._next.export(spans)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._next.force_flush(timeout_millis)

    def shutdown(self) -> None:
        self._next.shutdown()

    def __getattr__(self, name: str) -> Any:
        # By `__dict__`: an object that is being copied has no `_own` yet, and would ask here for ever.
        return getattr(self.__dict__["_own"], name)


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
        self.holds = False
        self._composite: Any = provider._active_span_processor
        self._wrap_later_ones()

    def capture(self, front: Pipeline | None) -> None:
        """Hand the provider's spans to this pipeline from now on."""
        before, self.front = self.front, front
        others = tuple(self._others(before))
        # In front of all exporters: a span must be captured before it is exported.
        self._composite._span_processors = others if front is None else (front.spans, *others)

    def hold(self, front: Pipeline | None) -> None:
        """Hold the exporters' spans for the scores of this pipeline; None lets them pass."""
        self.holds = front is not None
        for exporter in self.exporters:
            exporter.hold_for(front)

    def others(self) -> list[SpanProcessor]:
        return self._others(self.front)

    def _others(self, front: Pipeline | None) -> list[SpanProcessor]:
        placed = None if front is None else front.spans
        return [each for each in self._composite._span_processors if each is not placed]

    def _wrap_later_ones(self) -> None:
        add = self._composite.add_span_processor

        def add_and_wrap(span_processor: SpanProcessor) -> None:
            # Before it is added: from then on, it may export.
            if self.holds:
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
            adopted.hold_for(self.front if self.holds else None)
            self.exporters.append(adopted)
        return bool(places)


def is_scorable(provider: Any) -> bool:
    """Return True for a tracer provider of the SDK, and for one inside wrappers."""
    composite = getattr(unwrapped(provider), "_active_span_processor", None)
    return isinstance(getattr(composite, "_span_processors", None), tuple)


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
    adopted.capture(front)
    adopted.hold(front if wrap else None)
    if not wrap:
        return []
    wrapped = [adopted.wrap(processor) for processor in adopted.others()]
    return [] if any(wrapped) else [type(each).__name__ for each in adopted.others() if _sees_ends(each)]


def capture(provider: Any, front: Pipeline) -> None:
    """Capture an adopted provider's spans for another pipeline; its exporters still hold for the last one."""
    adopted = getattr(unwrapped(provider), _MARK, None)
    if adopted is not None:
        adopted.capture(front)


def release(provider: Any, front: Pipeline) -> None:
    """Let a provider's exporters go, and its spans, unless another pipeline captures them already."""
    adopted = getattr(unwrapped(provider), _MARK)
    adopted.hold(None)
    # Configuring again lets the new pipeline capture before the old one is released.
    if adopted.front is front:
        adopted.capture(None)


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
            own = exporter._own if isinstance(exporter, AdoptedExporter) else exporter
            held = isinstance(exporter, ScoringSpanExporter) or getattr(exporter, "holds", False) is True
            name = "" if own is None else type(own).__name__
            found.append(Described(processor=type(processor).__name__, exporter=name, held=held))
    return found


def owners_of(provider: Any) -> list[Any]:
    """Return the objects that own a provider's wrapped exporters, such as batch processors.

    A processor around them may not forward `force_flush`.
    """
    return list(getattr(getattr(unwrapped(provider), _MARK, None), "owners", ()))


def is_adopted(provider: Any) -> bool:
    """Return True if the provider's spans are captured, or were in an earlier configuration."""
    return hasattr(unwrapped(provider), _MARK)


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
