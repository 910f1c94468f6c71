"""What a run's randomness comes from: its trace, or the conversation it stands for."""

from __future__ import annotations

from hashlib import sha256

from otel_evals.model import Run
from otel_evals.sampling.algebra import Chance, recorded_probability
from otel_evals.sampling.consistent import threshold

__all__ = ["conversation_number", "drawn_from", "on_record"]


def conversation_number(conversation_id: str) -> int:
    """A conversation's id as a number that takes a trace id's place: the first 128 bits of its SHA-256."""
    return int.from_bytes(sha256(conversation_id.encode("utf-8", "surrogatepass")).digest()[:16])


def drawn_from(run: Run) -> tuple[int, str]:
    """The number and the tracestate that decide whether a run is picked.

    A conversation has its own number, the same in every process and whatever traces it is made of, and no
    tracestate.
    """
    if run.turns:
        return conversation_number(run.conversation_id or ""), ""
    return int(run.trace_id, 16), run.trace_state


def on_record(chance: Chance, run: Run) -> float | None:
    """The inclusion probability that goes on record.

    A conversation's is unknown where a head sampler chose among its traces: how many it left out, and
    whether it would have left all, cannot be told.
    """
    if not run.turns:
        return recorded_probability(chance, run.trace_state)
    if any(threshold(1.0, turn.trace_state) for turn in run.turns):
        return None
    return recorded_probability(chance)
