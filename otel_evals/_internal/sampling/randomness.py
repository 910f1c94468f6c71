"""The source of a run's randomness: its trace, or its conversation."""

from __future__ import annotations

from hashlib import sha256

from otel_evals._internal.model import Run
from otel_evals._internal.sampling.algebra import Chance, recorded_probability
from otel_evals._internal.sampling.consistent import threshold


def conversation_number(conversation_id: str) -> int:
    """Return the number that a conversation uses like a trace id: the first 128 bits of its id's SHA-256."""
    return int.from_bytes(sha256(conversation_id.encode("utf-8", "surrogatepass")).digest()[:16])


def randomness_source(run: Run) -> tuple[int, str]:
    """Return the number and the tracestate from which a run's randomness is derived.

    A conversation has a number derived from its id, the same in every process, and no tracestate.
    """
    if run.turns:
        return conversation_number(run.conversation_id or ""), ""
    return int(run.trace_id, 16), run.trace_state


def inclusion_probability(chance: Chance, run: Run) -> float | None:
    """Return the inclusion probability to record.

    It is unknown for a conversation with traces from a head sampler, which may have rejected others.
    """
    if not run.turns:
        return recorded_probability(chance, run.trace_state)
    if any(threshold(1.0, turn.trace_state) for turn in run.turns):
        return None
    return recorded_probability(chance)
