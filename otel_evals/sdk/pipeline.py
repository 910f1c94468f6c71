"""The engine and its parts, for a service that scores spans of other processes."""

from otel_evals._internal.attach.hold import Hold, PendingScores
from otel_evals._internal.attach.observed import Measured
from otel_evals._internal.capture.items import (
    CapturedLog,
    IntakeItem,
    RecordedSpan,
    UnclaimedSpan,
)
from otel_evals._internal.engine.engine import Engine
from otel_evals._internal.engine.journal.journal import Journal
from otel_evals._internal.engine.journal.segments import Entry
from otel_evals._internal.engine.outlets import new_attacher, new_evaluation_spans, new_metrics
from otel_evals._internal.engine.source import Source
from otel_evals._internal.engine.stages import assembly_limits
from otel_evals._internal.gather.closing import QuietClosing
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals._internal.live.providers import Providers, make_missing
from otel_evals._internal.sampling.consistent import credible_state, is_sampled, keyed_state
from otel_evals._internal.trust.keys import is_proof
from otel_evals._internal.trust.marks import state_marking

__all__ = [
    "CapturedLog",
    "Engine",
    "Entry",
    "Gatherer",
    "Hold",
    "IntakeItem",
    "Journal",
    "Measured",
    "PendingScores",
    "Providers",
    "QuietClosing",
    "RecordedSpan",
    "Source",
    "UnclaimedSpan",
    "assembly_limits",
    "credible_state",
    "is_proof",
    "is_sampled",
    "keyed_state",
    "make_missing",
    "new_attacher",
    "new_evaluation_spans",
    "new_metrics",
    "state_marking",
]
