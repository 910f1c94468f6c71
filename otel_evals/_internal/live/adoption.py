"""Adds scoring to an existing tracer provider, and to the processors that are added to it later.

Capture goes in front of the provider's processors, and their exporters are wrapped to add scores to judged
spans. Both happen once per provider; configuring again replaces the pipeline.

The SDK has no public API for this: only this module and `exporters` use private fields of the SDK and of
libraries that wrap it. `configure` refuses a provider with other fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord
from opentelemetry.sdk.trace import SpanProcessor

from otel_evals._internal.attach.providers import unwrapped
from otel_evals._internal.attach.scoring_exporter import ScoringSpanExporter
from otel_evals._internal.live.exporters import AdoptedExporter, exporters_in
from otel_evals._internal.live.pipeline import Pipeline


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


def exporters_of(provider: Any) -> list[str]:
    processor: Any = getattr(provider, "_active_span_processor", None)
    return [type(exporter).__name__ for *_, exporter, _ in exporters_in(processor)]


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
