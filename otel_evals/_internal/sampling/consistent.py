"""Sampling decisions: compares one randomness per trace with the threshold of a probability.

OpenTelemetry's consistent probability sampling (rejection thresholds on 56 random bits), see
https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/
"""

from __future__ import annotations

import re
from functools import lru_cache

from otel_evals._internal.model import Run
from otel_evals._internal.trust.keys import keyed_number

_RANGE = 1 << 56
_ANY_ID = (1 << 128) - 1
"""Malformed ids may be longer."""
_MOST_REJECTED = _RANGE - (_RANGE >> 20)
"""The floor of a head sampler's probability: one in 2**20. Lower claims do not come from a sampler."""
_THRESHOLD = re.compile(r"[0-9a-f]{1,14}")
_RANDOM = re.compile(r"[0-9a-f]{14}")


def threshold(probability: float, trace_state: str = "") -> int:
    """Return the threshold below which randomness is rejected, on top of the head sampler's."""
    entry = _ot_entry(trace_state)
    return _RANGE - round(probability * (_RANGE - (entry[0] if entry else 0)))


def randomness(trace_id: int, trace_state: str = "") -> int:
    """Return 56 random bits of a trace, the same in every process with the key.

    With an `ot` entry in its tracestate, the trace follows OpenTelemetry's consistent sampling: the bits are
    `rv`, or else the trace id's last 56 (W3C trace context level 2). Without one they are a hash of the id
    with the deployment's key: callers may choose the id, but not the sample.
    """
    entry = _ot_entry(trace_state)
    if entry is None:
        return _keyed(trace_id)
    return trace_id & (_RANGE - 1) if entry[1] is None else entry[1]


def is_sampled(probability: float, trace_id: int, trace_state: str = "") -> bool:
    """Return True if a run in this trace is sampled with this probability."""
    return randomness(trace_id, trace_state) >= threshold(probability, trace_state)


def credible_state(trace_id: int, trace_state: str, *, trusted: bool = True) -> str:
    """Return a tracestate, without its `ot` entry if that is not credible.

    It is not if its sender is not trusted, or if its threshold would have rejected this very trace.
    """
    if "ot=" not in trace_state:
        return trace_state
    if trusted and is_sampled(1.0, trace_id, trace_state):
        return trace_state
    return _without_ot(trace_state)


def keyed_state(trace_id: int, trace_state: str) -> str:
    """Replace the randomness in a tracestate of unknown origin, which its sender could choose.

    A credible threshold of a head sampler stays; the keyed bits sample the traces that it kept.
    """
    entry = _ot_entry(trace_state)
    if entry is None:
        return trace_state
    # A threshold that would have rejected this very trace was not a sampler's.
    rejected = entry[0] if is_sampled(1.0, trace_id, trace_state) else 0
    # Kept traces have randomness above the threshold: the keyed bits are spread over that range.
    random_value = rejected + (_keyed(trace_id) * (_RANGE - rejected) >> 56)
    threshold_field = f"th:{rejected:014x};" if rejected else ""
    return ",".join(filter(None, (f"ot={threshold_field}rv:{random_value:014x}", _without_ot(trace_state))))


@lru_cache(maxsize=4096)
def _keyed(trace_id: int) -> int:
    return keyed_number(b"trace", (trace_id & _ANY_ID).to_bytes(16)) >> 72


def _without_ot(trace_state: str) -> str:
    return ",".join(m for m in trace_state.split(",") if not m.strip().startswith("ot="))


def probability_of(rejection: int) -> float:
    """Return the probability that corresponds to a threshold, including head sampling."""
    return (_RANGE - rejection) / _RANGE


def share(bits: int) -> float:
    """Return a threshold or a randomness as a number between 0 and 1, for display."""
    return bits / _RANGE


@lru_cache(maxsize=1024)
def _ot_entry(trace_state: str) -> tuple[int, int | None] | None:
    """Return threshold and explicit randomness of a tracestate's `ot` entry; None if it has neither."""
    for member in trace_state.split(","):
        key, _, value = member.strip().partition("=")
        if key == "ot":
            fields = dict(f.split(":", 1) for f in value.split(";") if ":" in f)
            th, rv = _hex(_THRESHOLD, fields.get("th", "")), _hex(_RANDOM, fields.get("rv", ""))
            return None if th is None and rv is None else (min(th or 0, _MOST_REJECTED), rv)
    return None


def _hex(form: re.Pattern[str], digits: str) -> int | None:
    """Parse digits in the specification's form: lower case, trailing zeros omitted."""
    return int(digits.ljust(14, "0"), 16) if form.fullmatch(digits) else None


# --- the source of a run's randomness: its trace, or its conversation ---


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
        # Every run of a trace shares its randomness, so that cascades and rules sample the same ones.
        return int(run.trace_id, 16), run.trace_state
    except ValueError:  # malformed: no sampler derived its decision from this id
        return conversation_number(run.trace_id), ""
