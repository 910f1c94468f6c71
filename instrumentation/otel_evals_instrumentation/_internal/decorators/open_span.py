"""Base of all open spans of hand-written agents: context, errors, streaming, end.

Messages, arguments, results and documents are content, which is recorded only if content capture is enabled.
Recording never raises, and does nothing on a span that is not recorded.
"""

from __future__ import annotations

import contextvars
import logging
import os
from collections.abc import Callable, Iterator
from time import perf_counter
from types import TracebackType
from typing import Any, ClassVar, Self

from opentelemetry import context as context_api
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode, set_span_in_context

from otel_evals import semconv
from otel_evals_instrumentation._internal.decorators import serialization

_logger = logging.getLogger(__name__)
_HERE = context_api.create_key("otel-evals-open-span")
# A stream may have no end, and its chunks are held until the span ends.
_MAX_CHUNKS = 100_000


_ON_SPANS = ("SPAN_ONLY", "SPAN_AND_EVENT", "TRUE")
"""Modes with content on spans; `true` is the value of older packages."""


def content_wanted(explicit: bool | None = None) -> bool:
    """Return True if the argument, or else the environment, enables content."""
    if explicit is not None:
        return explicit
    value = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "")
    return value.strip().upper() in _ON_SPANS


class OpenSpan:
    """A started span that is current in its `with` block, and ends with it."""

    _name_key: ClassVar[str]
    """Attribute with the name of the agent, tool, model or data source."""
    _kind: ClassVar[SpanKind] = SpanKind.INTERNAL
    _named_by_function: ClassVar[bool] = True
    """Use the name of the decorated function by default."""

    def __init__(self, span: Span = INVALID_SPAN, content: bool = False) -> None:
        self.span = span
        """The OpenTelemetry span, for attributes that no method here sets."""
        self.content = content and span.is_recording()
        """True if content is recorded."""
        self.conversation_id: str | None = None
        self.opener: object = None
        """Factory of this `with` block; None for a decorated function."""
        self._above: OpenSpan | None = None
        self._chunks: list[Any] | None = None
        self._said = False
        self.kept_open = False
        """Do not end the span at the end of the current `with` block."""

    @classmethod
    def current(cls) -> Self:
        """Return the innermost open span of this kind; without one, a span that records nothing."""
        return next((span for span in open_spans() if isinstance(span, cls)), cls())

    def set_error(self, error: BaseException | str, error_type: str | None = None) -> None:
        """Record a failure: an exception, or an error message of the tool or model."""
        if isinstance(error, str):
            # OpenTelemetry's `error.type` for errors without a type.
            message, kind = error, "_OTHER"
        else:
            message, kind = f"{type(error).__name__}: {error}", type(error).__qualname__
            kind = f"{type(error).__module__}.{kind}".removeprefix("builtins.")
        self.span.set_status(Status(StatusCode.ERROR, message))
        self.span.set_attribute(semconv.ERROR_TYPE, error_type or kind)

    def add_chunk(self, chunk: Any) -> None:
        """Record a piece of a streamed output, and the delay of the first one in seconds."""
        if self._chunks is None:
            self._chunks = []
            self._note_first_chunk(perf_counter() - self._started)
        if self.content and not self._said:
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

    def leave(self) -> contextvars.Context:
        """Make the outer span current again without ending this one; return the context of this one."""
        # Taken first: the body runs in it, with this span as the current one.
        inside = contextvars.copy_context()
        self._detach()
        return inside

    def _detach(self) -> None:
        if self._token is not None:
            context_api.detach(self._token)
            self._token = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.kept_open:
            self.kept_open = False
            return
        self._detach()
        # As in the SDK: a BaseException such as a cancellation is not an error.
        if isinstance(error, Exception) and self.span.is_recording():
            self.span.record_exception(error)
            self.set_error(error)
        if self._chunks and not self._said:
            try:
                self.take_output(self._joined(self._chunks))
            except Exception:
                _logger.debug("could not record a stream", exc_info=True)
        self.span.end()

    # --- what differs by kind ---

    _set_input: Callable[[Any], None]
    _set_output: Callable[[Any], None]

    def take_input(self, arguments: dict[str, Any], wanted: str | None) -> None:
        """Record the input among a function's arguments; `wanted` names it."""
        self._set_input(_pick(arguments, wanted))

    def take_output(self, result: Any) -> None:
        """Record a function's return value, unless its body recorded an output."""
        if not self._said:
            self._set_output(result)

    def _note_first_chunk(self, seconds: float) -> None:
        """Do nothing: only model calls and agents have an attribute for it."""

    def _joined(self, chunks: list[Any]) -> Any:
        return chunks

    # --- content ---

    def _write(self, key: str, as_recorded: Callable[[Any], Any], value: Any) -> None:
        """Record content in the form of `as_recorded`; None is skipped."""
        if not self.content or value is None:
            return
        try:
            self.span.set_attribute(key, serialization.attribute_value(as_recorded(value)))
        except Exception:
            _logger.debug("could not record %s", key, exc_info=True)


def open_spans() -> Iterator[OpenSpan]:
    """Yield the open spans of the current context, innermost first."""
    span: Any = context_api.get_value(_HERE)
    while span is not None:
        yield span
        span = span._above


# --- which argument is the input ---

_INPUTS = (
    *("messages", "input", "prompt", "question", "query", "message", "text", "task"),
    *("user_input", "user_message", "user_prompt", "request"),
)


def _pick(arguments: dict[str, Any], wanted: str | None) -> Any:
    """Return the wanted argument, the only one, the first with a usual name, or all."""
    if wanted is not None:
        return arguments.get(wanted)
    if len(arguments) == 1:
        return next(iter(arguments.values()))
    return next((arguments[name] for name in _INPUTS if name in arguments), arguments or None)
