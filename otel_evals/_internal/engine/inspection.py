"""What the engine reports about itself: health, explanations of traces, and losses. Read from any thread.

Nothing here waits for a lock: a signal handler may have interrupted the frame that holds it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from otel_evals._internal.accounting.counters import Health, LoggedTrace, judge_health
from otel_evals._internal.accounting.explanation import Explanation, explain_logged, explain_unknown
from otel_evals._internal.accounting.ledger import MAX_TRACES
from otel_evals._internal.engine.stages import Stages

_LONGEST_BACKOFF = 40.0
"""Upper bound of the seconds between two attempts: the longest backoff of a rule, with jitter."""


def health_of(engine: Stages, stalled_after: float, *, closed: bool) -> Health:
    """Return the health; scoring counts as stalled after this many seconds without progress."""
    now, thread, ledger = time.monotonic(), engine.thread, engine.ledger
    since_beat = None if thread.beat is None else now - thread.beat
    waiting, pending, failing = thread.waiting, ledger.pending, ledger.failures.failing()
    destinations = engine.fan_out.failing()
    problems = [f"scores do not reach {name}: it did not accept its last batch" for name in destinations]
    if engine.source is not None and engine.source.problem is not None:
        problems.append(engine.source.problem)
    # Nothing ends during a long attempt and the backoff after it, which is no stall.
    longest_attempt = max((rule.timeout for rule in engine.config.rules), default=0.0)
    status, problem = judge_health(
        closed=closed,
        started=thread.started,
        thread_alive=thread.alive or thread.starting,
        waiting=waiting,
        pending=pending,
        since_beat=since_beat,
        since_progress=now - ledger.moved,
        beat_limit=stalled_after,
        progress_limit=longest_attempt + _LONGEST_BACKOFF + stalled_after,
        failing={**failing, **{f"convention {k}": v for k, v in engine.conventions.failing.items()}},
        problems=problems,
        unstartable=thread.unstartable,
    )
    return Health(
        status=status,
        problem=problem,
        thread_alive=thread.alive,
        waiting=waiting,
        pending=pending,
        last_beat=since_beat,
        last_end=None if ledger.last_end is None else now - ledger.last_end,
        failing_destinations=destinations,
        failing_rules=failing,
        content_off=dict(ledger.content.off),
        losses=engine.losses(),
    )


def summary(engine: Stages) -> str:
    """Return the rules, the destinations and the journal, for the log line at startup."""
    config = engine.config
    rules = ", ".join(rule.name for rule in config.rules) or "no rule"
    destinations = ", ".join(engine.fan_out.stats()) or "no destination"
    journal = "no journal" if config.journal is None else f"journal {config.journal}"
    return f"scoring by {rules}; scores go to {destinations}; {journal}"


def explain(engine: Stages, trace: str, trace_state: str) -> Explanation:
    """Explain what happened to a trace, given by its id in hex."""
    waiting = engine.gatherer.waiting(trace)
    logged = engine.ledger.trace_log.get(trace)
    if logged is None and not waiting:
        return explain_unknown(trace, engine.config.ceiling, trace_state, tuple(_possible_reasons(engine)))
    samplers = {rule.name: rule.sampling.words for rule in engine.config.rules}
    queues = engine.scorer.queues()
    # Copied in one step: the engine's thread changes it meanwhile.
    running = {(q.name, each.target.run.root_span_id) for q in queues for each in tuple(q.running)}
    return explain_logged(trace, logged or LoggedTrace(), samplers, waiting, running)


def _possible_reasons(engine: Stages) -> Iterator[str]:
    """Yield possible reasons for the lack of a record of a trace that sampling did not rule out."""
    yield (
        "Possible reasons: it was not recorded in this process, no convention claims its spans, "
        "or the application's own sampler did not sample it."
    )
    if refused := engine.thread.backlog.refused:
        yield f"The full intake refused {refused} spans or log records; this trace's may be among them."
    if len(engine.ledger.trace_log) >= MAX_TRACES:
        yield f"The trace log keeps only the last {len(engine.ledger.trace_log)} traces."


def trace_id_of(trace_id: int | str) -> str:
    """Return a trace id as 32 lower-case hex digits.

    Raises:
        ValueError: the value is not a trace id.
    """
    try:
        number = trace_id if isinstance(trace_id, int) else int(trace_id.strip(), 16)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 128:
        raise ValueError(f"{trace_id!r} is not a trace id: give 32 hex digits, or the id as a number")
    return f"{number:032x}"
