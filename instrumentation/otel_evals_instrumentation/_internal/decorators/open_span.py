"""Base of all open spans of hand-written agents: context, errors, streaming, end.

Messages, arguments, results and documents are content, which is recorded only if content capture is enabled.
Recording never raises, and does nothing on a span that is not recorded.
"""

from __future__ import annotations

import contextvars
import json
import logging
import os
from collections.abc import Callable, Iterator
from time import perf_counter
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self

from opentelemetry import context as context_api
from opentelemetry._logs import Logger, LogRecord
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode, set_span_in_context

from otel_evals import semconv
from otel_evals_instrumentation._internal.decorators import serialization

_logger = logging.getLogger(__name__)
_HERE = context_api.create_key("otel-evals-open-span")
# A stream may have no end, and its chunks are held until the span ends.
_MAX_CHUNKS = 100_000


class Content(NamedTuple):
    """Places for content."""

    on_span: bool = True
    in_event: bool = False


_ON_SPAN = Content()
_MODES = {
    "SPAN_ONLY": _ON_SPAN,
    "EVENT_ONLY": Content(on_span=False, in_event=True),
    "SPAN_AND_EVENT": Content(in_event=True),
    "TRUE": _ON_SPAN,  # the value of older packages
}


def content_wanted(explicit: bool | None = None) -> Content | None:
    """Return the places for content by the argument or the environment; None, the default, disables it."""
    if explicit is not None:
        return _ON_SPAN if explicit else None
    value = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
    return _MODES.get(value.strip().upper()) if value else None


class OpenSpan:
    """A started span that is current in its `with` block, and ends with it."""

    _name_key: ClassVar[str]
    """Attribute with the name of the agent, tool, model or data source."""
    _kind: ClassVar[SpanKind] = SpanKind.INTERNAL
    _named_by_function: ClassVar[bool] = True
    """Use the name of the decorated function by default."""

    def __init__(self, span: Span = INVALID_SPAN, content: Content | None = None) -> None:
        self.span = span
        """The OpenTelemetry span, for attributes that no method here sets."""
        self.content = content if content is not None and span.is_recording() else None
        """Places for content; None if it is not recorded."""
        self.conversation_id: str | None = None
        self.opener: object = None
        """Factory of this `with` block; None for a decorated function."""
        self._above: OpenSpan | None = None
        self._chunks: list[Any] | None = None
        self._details: dict[str, Any] | None = None
        self._said = self._kept = False

    @classmethod
    def current(cls) -> Self:
        """Return the innermost open span of this kind; without one, a span that records nothing."""
        found = open_in(context_api.get_current())
        while found is not None and not isinstance(found, cls):
            found = found._above
        return cls() if found is None else found

    def set_error(self, error: BaseException | str, error_type: str | None = None) -> None:
        """Record a failure: an exception, or an error message of the tool or model."""
        if isinstance(error, str):
            # OpenTelemetry's `error.type` for errors without a type.
            message, kind = error, "_OTHER"
        else:
            message, kind = f"{type(error).__name__}: {error}", _type_name(error)
        self.span.set_status(Status(StatusCode.ERROR, message))
        self.span.set_attribute(semconv.ERROR_TYPE, error_type or kind)

    def add_chunk(self, chunk: Any) -> None:
        """Record a piece of a streamed output, and the delay of the first one in seconds."""
        if self._chunks is None:
            self._chunks = []
            self._note_first_chunk(perf_counter() - self._started)
        if self.content is not None and not self._said:
            self._chunks.append(chunk)
            if len(self._chunks) > _MAX_CHUNKS:  # record nothing rather than a part that looks complete
                self._chunks, self._said = [], True

    # --- how it opens, is left and ends ---

    def enter(self, parent: context_api.Context, above: OpenSpan | None) -> None:
        """Make this the current span, below the given context."""
        self._above = above
        self._started = perf_counter()
        within = context_api.set_value(_HERE, self, set_span_in_context(self.span, parent))
        self._token: Any = context_api.attach(within)

    def emit_event(self, log: Logger, known: dict[str, Any]) -> None:
        """Emit an event with these attributes and the content when the span ends, if enabled."""
        if self.content is not None and self.content.in_event:
            self._log, self._details = log, known

    def leave(self) -> contextvars.Context:
        """Make the outer span current again without ending this one; return the context of this one."""
        # Taken first: the body runs in it, with this span as the current one.
        inside = contextvars.copy_context()
        self._detach()
        return inside

    def keep_open(self) -> None:
        """Do not end the span at the end of the current `with` block."""
        self._kept = True

    def outward(self) -> Iterator[OpenSpan]:
        """Yield the open spans from here outward, innermost first."""
        span: OpenSpan | None = self
        while span is not None:
            yield span
            span = span._above

    def _detach(self) -> None:
        if self._token is not None:
            context_api.detach(self._token)
            self._token = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._kept:
            self._kept = False
            return
        self._detach()
        # As in the SDK: a BaseException such as a cancellation is not an error.
        if isinstance(error, Exception) and self.span.is_recording():
            self.span.record_exception(error)
            self.set_error(error)
        if self.content is not None:
            self._finish()
        self.span.end()

    def _finish(self) -> None:
        try:
            if self._chunks and not self._said:
                self.take_output(self._joined(self._chunks))
            if self._details is not None:
                # The span has been left: the context ties the event to it.
                where = set_span_in_context(self.span)
                name = semconv.GEN_AI_OPERATION_DETAILS
                self._log.emit(LogRecord(context=where, event_name=name, attributes=self._details))
        except Exception:
            _logger.debug("could not record the end of a span", exc_info=True)

    # --- what differs by kind ---

    def take_input(self, arguments: dict[str, Any], wanted: str | None) -> None:
        """Record a function's arguments; `wanted` names the input."""
        raise NotImplementedError

    def take_output(self, result: Any) -> None:
        """Record a function's return value."""
        raise NotImplementedError

    def _note_first_chunk(self, seconds: float) -> None:
        """Do nothing: only model calls and agents have an attribute for it."""

    def _joined(self, chunks: list[Any]) -> Any:
        return chunks

    # --- content ---

    def _write(self, key: str, as_recorded: Callable[[Any], Any], value: Any) -> None:
        """Record content in the form of `as_recorded`; None is skipped."""
        if self.content is None or value is None:
            return
        try:
            recorded = as_recorded(value)
            simple = isinstance(recorded, str | int | float)
            text = recorded if simple else serialization.json_text(recorded)
            if self.content.on_span:
                self.span.set_attribute(key, text)
            if self._details is not None:  # a copy: the application may change its objects later
                self._details[key] = recorded if simple else json.loads(text)
        except Exception:
            _logger.debug("could not record %s", key, exc_info=True)


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def open_in(context: context_api.Context) -> OpenSpan | None:
    """Return the innermost open span of a context."""
    found = context.get(_HERE)
    return found if isinstance(found, OpenSpan) else None
