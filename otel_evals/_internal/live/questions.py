"""What an application asks and tells the configured pipeline: counters, explanations, health, feedback."""

from __future__ import annotations

import logging
from typing import Any

from otel_evals._internal.accounting.counters import Health, Stats
from otel_evals._internal.accounting.explanation import Explanation, explain_unknown, trace_id_of
from otel_evals._internal.live.configure import current, latest

_logger = logging.getLogger(__name__)


def stats() -> Stats:
    """Return the current counters, after a shutdown the last ones; empty if nothing was configured."""
    pipeline = latest()
    return Stats() if pipeline is None else pipeline.stats()


def explain(trace_id: int | str, trace_state: str = "") -> Explanation:
    """Explain if a trace was captured, sampled and scored, and if not, why.

    `str()` of the result is text.

    Args:
        trace_id: 32 hex digits, or the id as a number.
        trace_state: the trace's tracestate header; only used if there is no record of the trace.

    Raises:
        ValueError: the value is not a trace id.
    """
    pipeline = latest()
    if pipeline is not None:
        return pipeline.explain(trace_id, trace_state)
    return explain_unknown(trace_id_of(trace_id), 0.0, trace_state, ("Scoring is not configured.",))


def feedback(
    trace_id: int | str,
    value: float | bool,
    *,
    name: str = "feedback",
    comment: str | None = None,
    source: str = "user",
) -> bool:
    """Store a user's feedback on a trace next to its scores, in destinations that are results stores.

    Feedback may come long after the run. A second value of the same name and source replaces the first. Never
    waits and never raises; failures are logged.

    Args:
        trace_id: 32 hex digits, or the id as a number.
        value: a number; True is 1, for a thumbs up.
        name: the question.
        comment: the user's words.
        source: the author of the feedback.

    Returns:
        True if a destination accepted it.
    """
    pipeline = current()
    destinations: tuple[Any, ...] = () if pipeline is None else pipeline.config.destinations
    stores = [each for each in destinations if callable(getattr(each, "feedback", None))]
    try:
        id = trace_id_of(trace_id)
        rest = {"name": str(name), "comment": comment and str(comment), "source": str(source)}
        accepted = [each.feedback(id, float(value), **rest) for each in stores]
        if pipeline is not None and any(accepted):
            pipeline.engine.start()  # its shutdown waits for the feedback
        return any(accepted)
    except Exception as error:
        _logger.warning("feedback was not stored: %s", error)
        return False


def health(stalled_after: float = 10.0) -> Health:
    """Report the progress of scoring, for liveness probes; `idle` if nothing is configured.

    Args:
        stalled_after: seconds without progress after which scoring counts as stalled; more than 5.
    """
    pipeline = current()
    return Health(status="idle") if pipeline is None else pipeline.health(stalled_after)
