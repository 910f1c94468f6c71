"""What the engine reports about itself: health, explanations of traces, and losses. Read from any thread.

Nothing here waits for a lock: a signal handler may have interrupted the frame that holds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Protocol

from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.accounting.explanation import Explanation, explain_logged, explain_unknown
from otel_evals._internal.accounting.health import Health, judge_health
from otel_evals._internal.accounting.ledger import MAX_TRACES, Ledger, LoggedTrace
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.destination import DestinationStats
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.engine.score import RunScorer
from otel_evals._internal.engine.source import Source
from otel_evals._internal.engine.thread import EngineThread
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals._internal.model.convention import Conventions

_LONGEST_BACKOFF = 40.0
"""Upper bound of the seconds between two attempts: the longest backoff of a rule, with jitter."""
_NOT_A_LOSS = {"trace_not_sampled", "nothing_to_judge"}


class Inspected(Protocol):
    """The parts of an engine that are read here."""

    config: Config
    conventions: Conventions
    thread: EngineThread[Any]
    ledger: Ledger
    gatherer: Gatherer
    scorer: RunScorer
    fan_out: FanOut
    source: Source | None

    def losses(self) -> dict[str, int]: ...

    def run(self, work: Callable[[], Coroutine[Any, Any, Any]], seconds: float) -> Any: ...

    async def drained(self) -> None: ...


def health_of(engine: Inspected, stalled_after: float, *, closed: bool) -> Health:
    """Return the health; scoring counts as stalled after this many seconds without progress."""
    now, thread, ledger = time.monotonic(), engine.thread, engine.ledger
    since_beat = None if thread.beat is None else now - thread.beat
    waiting, pending, failing = thread.waiting, ledger.pending, ledger.failures.failing()
    destinations = engine.fan_out.failing()
    problems = [f"scores do not reach {name}: it did not accept its last batch" for name in destinations]
    if engine.source is not None and engine.source.problem is not None:
        problems.append(engine.source.problem)
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


def summary(engine: Inspected) -> str:
    """Return the rules, the destinations and the journal, for the log line at startup."""
    config = engine.config
    rules = ", ".join(rule.name for rule in config.rules) or "no rule"
    destinations = ", ".join(engine.fan_out.stats()) or "no destination"
    journal = "no journal" if config.journal is None else f"journal {config.journal}"
    return f"scoring by {rules}; scores go to {destinations}; {journal}"


def explain(engine: Inspected, trace_id: int | str, trace_state: str) -> Explanation:
    """Explain what happened to a trace, after waiting up to a second for the intake to be emptied."""
    trace, config = trace_id_of(trace_id), engine.config
    if engine.thread.started and engine.thread.waiting:
        engine.run(engine.drained, 1.0)
    waiting = engine.gatherer.waiting(trace)
    logged = engine.ledger.trace_log.get(trace)
    if logged is None and not waiting:
        return explain_unknown(trace, config.ceiling, trace_state, tuple(_possible_reasons(engine)))
    samplers = {rule.name: rule.sampling.words for rule in config.rules}
    return explain_logged(trace, logged or LoggedTrace(), samplers, waiting, engine.scorer.running())


def _possible_reasons(engine: Inspected) -> Iterator[str]:
    """Yield possible reasons for the lack of a record of a trace that sampling did not rule out."""
    yield (
        "Possible reasons: it was not recorded in this process, no convention claims its spans, "
        "or the application's own sampler did not sample it."
    )
    if refused := engine.thread.backlog.refused:
        yield f"The full intake refused {refused} spans or log records; this trace's may be among them."
    if len(engine.ledger.trace_log) >= MAX_TRACES:
        yield f"The trace log keeps only the last {len(engine.ledger.trace_log)} traces."


def losses_of(stats: Stats, destinations: Mapping[str, DestinationStats]) -> dict[str, int]:
    """Return everything that was lost, by what and why."""
    ignored = {reason: count for reason, count in stats.ignored.items() if reason not in _NOT_A_LOSS}
    counted = [
        ("spans or log records", stats.losses),
        ("runs", ignored),
        ("conversations", stats.conversations.lost),
        *((f"evaluations by {name}", rule.dropped) for name, rule in stats.rules.items()),
        *((f"scored runs for {name}", each.losses) for name, each in destinations.items()),
    ]
    return {f"{what} ({reason})": count for what, by in counted for reason, count in by.items()}


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
