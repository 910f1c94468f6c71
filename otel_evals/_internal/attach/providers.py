"""The SDK's tracers and providers: found inside the wrappers of other libraries, and given ids to use."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceState, get_current_span
from opentelemetry.util.types import Attributes

from otel_evals._internal.trust.marks import marked_state

_MAX_DEPTH = 6
_PROVIDERS = ("provider", "_provider", "_tracer_provider", "wrapped", "_wrapped")


def unwrapped(provider: Any) -> Any:
    """Return the SDK's provider inside its wrappers."""
    for _ in range(_MAX_DEPTH):
        if hasattr(provider, "_active_span_processor"):
            break
        inner = next((getattr(provider, name) for name in _PROVIDERS if hasattr(provider, name)), None)
        # A field of such a name may hold anything: only what takes processors is a provider.
        if inner is None or not hasattr(inner, "add_span_processor"):
            break
        provider = inner
    return provider


def with_ids(tracer: Any, own: SpanContext, judged: Context) -> Any:
    """Return a copy of a tracer that gives a root span these ids, and samples it as if below another span."""
    # A copy, since the application uses the same tracer meanwhile.
    tracer = copy.copy(tracer)
    tracer.id_generator = _Given(own)
    tracer.sampler = _AsBelow(tracer.sampler, judged)
    return tracer


class _AsBelow(Sampler):
    """Samples an evaluation span as if it were below the judged span.

    That one was sampled, so parent-based samplers, and those by trace id, keep both or neither.
    """

    def __init__(self, sampler: Sampler, judged: Context) -> None:
        self._sampler = sampler
        self._judged = judged

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        judged = get_current_span(self._judged).get_span_context()
        result = self._sampler.should_sample(self._judged, judged.trace_id, name, kind, attributes, links)
        # The SDK takes the span's trace state from here: without the mark, the span would be scored.
        return SamplingResult(result.decision, result.attributes, marked_state(result.trace_state))

    def get_description(self) -> str:
        return self._sampler.get_description()


class _Given(IdGenerator):
    def __init__(self, context: SpanContext) -> None:
        self._context = context

    def generate_trace_id(self) -> int:
        return self._context.trace_id

    def generate_span_id(self) -> int:
        return self._context.span_id

    def is_trace_id_random(self) -> bool:
        return bool(self._context.trace_flags & 0x02)  # W3C's flag for random trace ids
