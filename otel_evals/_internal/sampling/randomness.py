"""The source of a run's randomness: its trace, or its conversation."""

from __future__ import annotations

from otel_evals._internal.model import Run
from otel_evals._internal.sampling.algebra import Chance, recorded_probability
from otel_evals._internal.sampling.consistent import threshold
from otel_evals._internal.trust import keyed_number


def conversation_number(conversation_id: str) -> int:
    """Return the number that a conversation uses like a trace id.

    It depends on the deployment's key: callers may choose conversation ids.
    """
    # Formatted as in evaluation ids: an id that cannot be formatted fails here, where only its run is lost.
    return keyed_number(b"conversation", f"{conversation_id}".encode("utf-8", "surrogatepass"))


def randomness_source(run: Run) -> tuple[int, str]:
    """Return the number and the tracestate from which a run's randomness is derived.

    A conversation has a number derived from its id, equal in all processes with the key, and no tracestate.
    """
    if run.turns:
        return conversation_number(run.conversation_id or ""), ""
    try:
        return int(run.trace_id, 16), run.trace_state
    except ValueError:  # malformed: no sampler derived its decision from this id
        return conversation_number(run.trace_id), ""


def inclusion_probability(chance: Chance, run: Run) -> float | None:
    """Return the inclusion probability to record.

    It is unknown for a conversation with traces from a head sampler, which may have rejected others.
    """
    if not run.turns:
        return recorded_probability(chance, run.trace_state)
    if any(threshold(1.0, turn.trace_state) for turn in run.turns):
        return None
    return recorded_probability(chance)
