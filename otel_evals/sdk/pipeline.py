"""The pipeline and its parts, for a service that scores spans of other processes."""

from otel_evals._internal.accounting.health import Health
from otel_evals._internal.attach.attacher import Attacher, Opened
from otel_evals._internal.attach.evaluation_spans import EvaluationSpans
from otel_evals._internal.attach.hold import Hold, PendingScores
from otel_evals._internal.attach.metrics import Metrics
from otel_evals._internal.capture.items import (
    CapturedLog,
    CapturedSpan,
    IntakeItem,
    RecordedSpan,
    UnclaimedSpan,
)
from otel_evals._internal.engine.assembly import assembly_limits
from otel_evals._internal.engine.engine import Engine
from otel_evals._internal.engine.source import Source
from otel_evals._internal.gather.gatherer import (
    CLOSED_AT_ONCE,
    AssemblyLimits,
    Evaluated,
    Gathered,
    Judged,
    SpanGroup,
)
from otel_evals._internal.gather.lost_spans import LostSpans
from otel_evals._internal.gather.open_trace import OpenTrace
from otel_evals._internal.live.providers import Providers, make_missing
from otel_evals._internal.model.sizes import size_of_event, size_of_span
from otel_evals._internal.recursion import state_marking
from otel_evals._internal.sampling.consistent import credible_state, is_sampled, keyed_state
from otel_evals._internal.trust import is_proof

__all__ = [
    "CLOSED_AT_ONCE",
    "AssemblyLimits",
    "Attacher",
    "CapturedLog",
    "CapturedSpan",
    "Engine",
    "Evaluated",
    "EvaluationSpans",
    "Gathered",
    "Health",
    "Hold",
    "IntakeItem",
    "Judged",
    "LostSpans",
    "Metrics",
    "OpenTrace",
    "Opened",
    "PendingScores",
    "Providers",
    "RecordedSpan",
    "Source",
    "SpanGroup",
    "UnclaimedSpan",
    "assembly_limits",
    "credible_state",
    "is_proof",
    "is_sampled",
    "keyed_state",
    "make_missing",
    "size_of_event",
    "size_of_span",
    "state_marking",
]
