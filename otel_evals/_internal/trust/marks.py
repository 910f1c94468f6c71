"""The mark on everything that happens inside a scorer; capture does not score it.

Within the process it is a context value. Other services receive it in baggage and in tracestate, since either
may be stripped on the way. It is signed there, because any sender can write these headers; an unsigned mark
is ignored. The signature covers the hour, not the trace, whose id changes if only baggage is passed on.
"""

from __future__ import annotations

import logging
import random
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from opentelemetry import baggage, trace
from opentelemetry import context as context_api
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceState

from otel_evals import semconv
from otel_evals._internal.model import Run, Usage
from otel_evals._internal.trust.keys import SECONDS, is_signature, keyed_number, signature
from otel_evals._internal.util.fork import renew_after_fork
from otel_evals.errors import JudgeError

_log = logging.getLogger(__name__)

Marking = Literal["", "here", "signed", "unsigned"]
"""Origin of a mark: none, this process, a sender with the key, or any sender."""

_KEY = context_api.create_key(semconv.MARK)
_MOST_MEMBERS = 32  # of a tracestate, by W3C's Trace Context


class ScorerSpan(NonRecordingSpan):
    """The current span while a scorer runs; recorded only if it is needed."""

    needed = False
    """True once a judge was called, or a span started below this one."""


def need_span(context: Context | None = None) -> None:
    """Record the evaluation span if it is the current one in a context; does nothing elsewhere."""
    span = trace.get_current_span(context)
    if isinstance(span, ScorerSpan):
        span.needed = True


def mark(context: Context | None = None) -> Context:
    """Return a context in which every span is marked, in this process and in the services called from it."""
    marked = context_api.set_value(_KEY, True, context)
    return baggage.set_baggage(semconv.MARK, signature(), _with_marked_state(marked))


def marked_context() -> Context:
    """Return a context with nothing but the mark of this hour."""
    return _marked_in(int(time.time()) // SECONDS)


@lru_cache(maxsize=2)
def _marked_in(_hour: int) -> Context:
    """Return a marked context; the number of the present hour keeps it from being that of an earlier one."""
    return mark(Context())


def marked_state(state: TraceState | None) -> TraceState:
    if not state:
        return TraceState([(semconv.MARK_IN_TRACE_STATE, signature())])
    if semconv.MARK_IN_TRACE_STATE in state:
        return state.update(semconv.MARK_IN_TRACE_STATE, signature())
    if len(state) >= _MOST_MEMBERS:
        state = state.delete(list(state)[-1])  # the oldest; a full tracestate takes no more
    return state.add(semconv.MARK_IN_TRACE_STATE, signature())


def is_marked(context: Context | None, parent: SpanContext | None = None) -> bool:
    """Return True if a span that starts in this context, with this parent, has a mark that counts."""
    return marking(context, parent) in ("here", "signed")


def marking(context: Context | None, parent: SpanContext | None = None) -> Marking:
    """Return the origin of the mark of a span that starts in this context, with this parent."""
    current = context_api.get_current() if context is None else context
    if current and _KEY in current:
        return "here"
    in_state = parent.trace_state.get(semconv.MARK_IN_TRACE_STATE) if parent is not None else None
    in_baggage = baggage.get_baggage(semconv.MARK, current) if current else None
    if in_state is None and in_baggage is None:
        return ""
    if not (is_signature(in_state) or is_signature(in_baggage)):
        return "unsigned"
    return "signed" if parent is None or parent.is_remote else "here"


def state_marking(trace_state: str) -> Marking:
    """Return the origin of the mark in a tracestate."""
    prefix = f"{semconv.MARK_IN_TRACE_STATE}="
    found = [m.strip().removeprefix(prefix) for m in trace_state.split(",") if m.strip().startswith(prefix)]
    return "" if not found else "signed" if any(map(is_signature, found)) else "unsigned"


def _with_marked_state(context: Context) -> Context:
    """Add the mark to the tracestate of a context's span, for the spans below to inherit.

    A recording span cannot be changed; evaluation spans have the mark from their start.
    """
    span = trace.get_current_span(context)
    own = span.get_span_context()
    if span.is_recording() or not own.is_valid or is_marked(Context(), own):
        return context
    marked = SpanContext(
        own.trace_id, own.span_id, own.is_remote, own.trace_flags, marked_state(own.trace_state)
    )
    return trace.set_span_in_context(NonRecordingSpan(marked), context)


def mark_headers() -> dict[str, str]:
    """Return the headers by which a call's receiver knows the mark.

    A proxy that records its requests puts the tracestate on its spans, even if it drops baggage.
    """
    own = trace.get_current_span().get_span_context()
    trace_id, span_id = own.trace_id, own.span_id
    if not own.is_valid:
        # Zero is no valid id.
        trace_id, span_id = random.getrandbits(127) + 1, random.getrandbits(63) + 1
    return {
        "baggage": f"{semconv.MARK}={signature()}",
        # Sampled, although the evaluation's span may not be: the receiver's own traces stay whole.
        "traceparent": f"00-{trace_id:032x}-{span_id:016x}-01",
        "tracestate": marked_state(own.trace_state).to_header(),
    }


# --- the keyed marks of fences in judges' questions ---

_NONCE = 12
"""Hexadecimal digits of a mark that are random; as many more prove that this deployment made it."""
FENCE = "data-"
"""Part of every fence, also where JSON escapes the bracket in front of it."""
_OPENED = re.compile(rf"<data-([0-9a-f]{{{2 * _NONCE}}})[ >]")


def new_mark() -> str:
    """Return a random mark, with a proof that only processes with the deployment's key can make or check."""
    nonce = secrets.token_hex(_NONCE // 2)
    return nonce + _proof(nonce)


def has_own_fence(text: str) -> bool:
    """Return True if a text has a fence of this deployment: it is a question of one of its judges."""
    # Bounded, since a text may have any number of fences.
    return "<data-" in text and any(_proof(m[:_NONCE]) == m[_NONCE:] for m in _OPENED.findall(text)[:20])


def _proof(nonce: str) -> str:
    return f"{keyed_number(b'fence', nonce.encode()):032x}"[:_NONCE]


# --- a judge whose calls come back as runs, in spite of all marks ---


class Echoes:
    """Notices that judges' own answers return as runs: without marks, each run would cause further ones.

    A run echoes a call if it has the token counts of one of the last minutes' calls, or its answer. Equal
    counts may be chance or a server's constant, so many different ones are needed, for a third of the calls.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stopped = False
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        self.lock = threading.Lock()
        self.calls = OrderedDict[int, float]()
        """The judges' calls of the last minutes."""
        self._runs = OrderedDict[int, float]()
        self._echoes = OrderedDict[int, float]()

    def reset(self) -> None:
        """Start again, for a new configuration."""
        self._stopped = False
        self.renew()

    def called(self, usage: Usage | None, answer: str) -> None:
        # A proxy ends its span before its answer arrives here, so the run may be seen before.
        self._match(_prints(usage, answer), self.calls, self._runs, _RUN_SECONDS)

    def seen(self, run: Run) -> None:
        """Count a run that is about to be scored if it echoes a call."""
        self._match(_prints(run.usage, run.output or ""), self._runs, self.calls, _ECHO_SECONDS)

    def _match(
        self,
        prints: list[int],
        own: OrderedDict[int, float],
        others: OrderedDict[int, float],
        seconds: float,
    ) -> None:
        """Note the prints, and those that the others have too as echoes."""
        with self.lock:
            if self._stopped:
                return
            now = self._clock()
            for print_ in prints:
                _note(own, print_, now)
                if now - others.get(print_, -_ECHO_SECONDS) < seconds:
                    _note(self._echoes, print_, now)
            loops = len(self._echoes) >= max(_ECHOES_AT_LEAST, len(self.calls) / 3)
            self._stopped = loops
        if loops:
            _log.warning("%s", _LOOP)

    def check(self, model: str) -> None:
        """Raise JudgeError if judges are stopped."""
        if self._stopped:
            raise JudgeError(f"{model}: {_LOOP}")


_ECHO_SECONDS = 300.0
_RUN_SECONDS = 10.0
_ECHOES_AT_LEAST = 30
_MOST_CALLS = 20_000
_SHORTEST_ANSWER = 40
_LOOP = (
    "judges are stopped: their own calls come back as runs to score; fix: let the proxy that "
    "records them pass on `tracestate`, or exclude its runs by the rules' `when`; then configure again"
)


def _prints(usage: Usage | None, answer: str) -> list[int]:
    """Return numbers by which a call is known again."""
    found = []
    if usage is not None and usage.input_tokens and usage.output_tokens:
        found.append(hash((usage.input_tokens, usage.output_tokens)))
    if len(text := answer.strip()) >= _SHORTEST_ANSWER:
        found.append(keyed_number(b"answer", text[:2_000].encode("utf-8", "replace")))
    return found


def _note(prints: OrderedDict[int, float], print_: int, now: float) -> None:
    prints[print_] = now
    prints.move_to_end(print_)
    while prints and (len(prints) > _MOST_CALLS or next(iter(prints.values())) < now - _ECHO_SECONDS):
        prints.popitem(last=False)


ECHOES = Echoes()
"""Those of all judges of this process."""
