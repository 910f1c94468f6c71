"""What all open spans of hand-written agents share: being current, failing, streaming, ending.

Everything that says what was said or done is content: it is recorded only where content is wanted. Recording
never raises, and on a span that is not recorded it does nothing.
"""

from __future__ import annotations

import contextvars
import json
import logging
from collections.abc import Callable, Iterator
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from opentelemetry import context as context_api
from opentelemetry._logs import Logger, LogRecord
from opentelemetry.trace import INVALID_SPAN, Span, Status, StatusCode, set_span_in_context

from otel_evals import semconv
from otel_evals_instrumentation._internal.decorators import serialization
from otel_evals_instrumentation._internal.decorators.content_capture import Content

_logger = logging.getLogger(__name__)
_HERE = context_api.create_key("otel-evals-open-span")
_MAX_CHUNKS = 100_000


class OpenSpan:
    """A span that was started and is current until it is left; ends when its `with` block does."""

    __slots__ = (
        "_above",
        "_chunks",
        "_details",
        "_kept",
        "_log",
        "_said",
        "_started",
        "_token",
        "content",
        "conversation_id",
        "opener",
        "span",
    )

    def __init__(self, span: Span = INVALID_SPAN, content: Content | None = None) -> None:
        self.span = span
        """The OpenTelemetry span, for attributes that no method here sets."""
        self.content = content if content is not None and span.is_recording() else None
        """Where content is recorded; None: nowhere."""
        self.conversation_id: str | None = None
        self.opener: object = None
        """Whose `with` block this is, if it is one's."""
        self._above: OpenSpan | None = None
        self._chunks: list[Any] | None = None
        self._details: dict[str, Any] | None = None
        self._said = self._kept = False

    @classmethod
    def current(cls) -> Self:
        """The innermost open span of this kind; one that records nothing where there is none."""
        found = open_in(context_api.get_current())
        while found is not None and not isinstance(found, cls):
            found = found._above
        return cls() if found is None else found

    def set_error(self, error: BaseException | str, error_type: str | None = None) -> None:
        """Record that the operation failed: with an exception, or with what the tool or model said."""
        told = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        self.span.set_status(Status(StatusCode.ERROR, told))
        self.span.set_attribute(
            semconv.ERROR_TYPE, error_type or ("_OTHER" if isinstance(error, str) else _type(error))
        )

    def add_chunk(self, chunk: Any) -> None:
        """Record a piece of a streamed output; the first one's delay in seconds is recorded as well."""
        if self._chunks is None:
            self._chunks = []
            self._note_first_chunk(perf_counter() - self._started)
        if self.content is not None and not self._said:
            self._chunks.append(chunk)
            if len(self._chunks) > _MAX_CHUNKS:  # nothing is better than a part that passes for the whole
                self._chunks, self._said = [], True

    # --- how it opens, is left and ends ---

    def enter(self, parent: context_api.Context, above: OpenSpan | None) -> None:
        """Make this the current span, below the context given."""
        self._above = above
        self._started = perf_counter()
        within = context_api.set_value(_HERE, self, set_span_in_context(self.span, parent))
        self._token: Any = context_api.attach(within)

    def tell_event(self, log: Logger, known: dict[str, Any]) -> None:
        """Have content written to an event when the span ends, beside what is known already."""
        if self.content is not None and self.content.in_event:
            self._log, self._details = log, known

    def leave(self) -> contextvars.Context:
        """Make the span above current again, without ending this one; returns what code in it runs in."""
        inside = contextvars.copy_context()
        self._detach()
        return inside

    def keep_open(self) -> None:
        """Let the next `with` block that is left end without ending the span."""
        self._kept = True

    def outward(self) -> Iterator[OpenSpan]:
        """The open spans from here outward, innermost first."""
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
        # As the SDK does: what is no Exception, such as a cancellation, is not an error.
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
                where = set_span_in_context(self.span)
                name = semconv.GEN_AI_OPERATION_DETAILS
                self._log.emit(LogRecord(context=where, event_name=name, attributes=self._details))
        except Exception:
            _logger.debug("could not record the end of a span", exc_info=True)

    # --- what differs by kind ---

    def take_input(self, arguments: dict[str, Any], wanted: str | None) -> None:
        """Record a function's arguments, `wanted` being the one that is the input."""
        raise NotImplementedError

    def take_output(self, result: Any) -> None:
        """Record what a function returned."""
        raise NotImplementedError

    def _note_first_chunk(self, seconds: float) -> None:
        """Only what generates has a convention for it."""

    def _joined(self, chunks: list[Any]) -> Any:
        return chunks

    # --- content ---

    def _write(self, key: str, as_recorded: Callable[[Any], Any], value: Any) -> None:
        """Record content; `as_recorded` gives it its form. Value None is nothing to record."""
        if self.content is None or value is None:
            return
        try:
            recorded = as_recorded(value)
            if self.content.on_span:
                text = (
                    recorded if isinstance(recorded, str | int | float) else serialization.json_text(recorded)
                )
                self.span.set_attribute(key, text)
            if self._details is not None:
                self._details[key] = _detached(recorded)
        except Exception:
            _logger.debug("could not record %s", key, exc_info=True)


def _detached(recorded: Any) -> Any:
    """What is recorded in an event, out of reach of the application's later changes."""
    return (
        recorded if isinstance(recorded, str | int | float) else json.loads(serialization.json_text(recorded))
    )


def _type(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def open_in(context: context_api.Context) -> OpenSpan | None:
    """The innermost open span of a context."""
    found = context.get(_HERE)
    return found if isinstance(found, OpenSpan) else None
