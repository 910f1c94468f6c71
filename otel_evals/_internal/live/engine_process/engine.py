"""The engine in a child process, as the pipeline uses it.

Capture, the hold in front of the exporter and the OpenTelemetry providers stay in the application; assembly,
sampling, scoring and delivery happen in the child process, so they never block the application's threads.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from otel_evals._internal.accounting.counters import RuleStats, Stats
from otel_evals._internal.accounting.explanation import Explanation, explain_unknown
from otel_evals._internal.accounting.health import Health
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.capture.open_spans import OpenSpans
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.counts import DestinationStats
from otel_evals._internal.live.engine_process.link import Link
from otel_evals._internal.live.engine_process.relay import Attached, Counts, Expected, Report
from otel_evals._internal.live.engine_process.totals import after_death, total, totals, undelivered
from otel_evals._internal.pipeline.event_loop import gather_seconds
from otel_evals._internal.pipeline.inspection import losses_of, trace_id_of
from otel_evals._internal.processes.child import ProcessDiedError
from otel_evals._internal.processes.portable import NotPortableError, pack
from otel_evals.errors import ConfigError

__all__ = ["RemoteEngine"]

_logger = logging.getLogger(__name__)
_ANSWER_SECONDS = 2.0
_FORGOTTEN = "The engine's process has died {} time(s); its trace log of earlier traces is lost."


class RemoteEngine:
    """The engine in a child process.

    Args:
        config: rules, destinations, limits; all of them must be picklable, or cloudpickle installed.
        attacher: attaches outcomes to traces.
        let_pass: releases the spans that wait for scores, when the process has died.
        open_spans: the spans that have not ended.

    Raises:
        ConfigError: a rule or a destination cannot be sent to another process.
    """

    def __init__(
        self, config: Config, attacher: Attacher, let_pass: Callable[[], None], open_spans: OpenSpans
    ) -> None:
        self._config = config
        self._attacher = attacher
        self._let_pass = let_pass
        self._closed = False
        self.intake = self._link = Link(
            _packed(config),
            self._receive,
            self._note_death,
            open_spans,
            gather=gather_seconds(has_store=config.store is not None),
            max_bytes=config.max_bytes,
        )
        self._reset_counters()

    def _reset_counters(self) -> None:
        self._past = self._nothing().stats
        self._counts = self._nothing()
        self._past_destinations: Mapping[str, DestinationStats] = {}

    @property
    def pid(self) -> int | None:
        """The id of the engine's process; None while there is none."""
        return self._link.pid

    @property
    def deaths(self) -> int:
        """How often the engine's process has died and was restarted."""
        return self._link.deaths

    @property
    def here(self) -> bool:
        """Whether the caller is on one of the engine's own threads."""
        return self._link.here

    @property
    def queue_size(self) -> int:
        """Items that wait to be sent, and evaluations without an outcome."""
        return self._link.waiting + self._counts.pending

    def stats(self) -> Stats:
        """All counters as last reported by the engine's process, at most a fraction of a second ago."""
        stats: Stats = total(self._past, self._counts.stats)
        refused = self._link.refused
        return total(stats, Stats(losses={"intake_full": refused})) if refused else stats

    def destination_stats(self) -> Mapping[str, DestinationStats]:
        """Counts of deliveries, by destination."""
        return totals(self._past_destinations, self._counts.destinations)

    def failing(self) -> Mapping[str, str]:
        """The rules that fail again and again, as last reported."""
        return self._counts.failing

    def explain(self, trace_id: int | str, trace_state: str) -> Explanation:
        """What happened to a trace."""
        trace = trace_id_of(trace_id)
        answer = self._asked("explain", trace, trace_state) if not self._closed else None
        if not isinstance(answer, Explanation):
            return explain_unknown(trace, self._config.ceiling, trace_state, (self._silence(),))
        if answer.status == "unknown" and self.deaths:
            return replace(answer, notes=(*answer.notes, _FORGOTTEN.format(self.deaths)))
        return answer

    def health(self, stalled_after: float, *, closed: bool) -> Health:
        """Whether scoring makes progress; a process that is starting counts as healthy."""
        link, losses = self._link, losses_of(self.stats(), self.destination_stats())
        answer = self._asked("health", stalled_after) if link.ready else None
        if isinstance(answer, Health):
            return replace(answer, losses=losses)
        if closed or not link.started or (not link.ready and not link.deaths):
            status: Literal["healthy", "idle"] = "healthy" if link.started and not closed else "idle"
            return Health(status=status, waiting=link.waiting, losses=losses)
        problem = f"the engine's process does not answer; it died {link.deaths} times"
        return Health(status="stalled", problem=problem, waiting=link.waiting, losses=losses)

    def flush(self, timeout: float) -> bool:
        """Score and deliver what was captured so far; whether that was done in time."""
        return not self._link.started or self._ask("flush", timeout, timeout + 0.5) is True

    def shutdown(self, deadline: float) -> None:
        """Score and deliver what can be until the deadline, and drop the rest."""
        self._closed = True
        if self._link.started and not self._link.here:
            timeout = max(0.0, deadline - time.monotonic())
            self._ask("shutdown", timeout, timeout + 0.5)

    def close(self, deadline: float) -> None:
        """End the process and the threads that communicate with it."""
        self._link.stop(max(0.5, deadline - time.monotonic()))

    def before_fork(self) -> None:
        """Nothing to prepare."""

    def after_fork_in_parent(self) -> None:
        """Nothing to resume."""

    def after_fork_in_child(self) -> None:
        """Reset in a forked child, which starts an engine process of its own."""
        self._link.after_fork()
        self._reset_counters()

    def _asked(self, name: str, *arguments: Any) -> Any:
        return self._link.ask(name, *arguments, timeout=_ANSWER_SECONDS) if self._link.started else None

    def _silence(self) -> str:
        """Why there is no answer from the engine's process."""
        if self._closed:
            return "Scoring was shut down, and the trace log with it."
        return "The engine's process does not answer." if self._link.started else "Nothing was captured yet."

    def _ask(self, name: str, seconds: float, timeout: float) -> Any:
        try:
            return self._link.ask(name, seconds, timeout=timeout)
        except Exception:
            _logger.exception("the engine's process failed to %s", name)
            return None

    # --- on the link's threads ---

    def _receive(self, report: Report) -> None:
        for item in report.items:
            if isinstance(item, Attached):
                self._attach(item)
            elif isinstance(item, Expected):
                self._attacher.expect(item.rule, item.run)
            else:
                self._attacher.release(item.trace_id, item.span_id)
        self._counts = report.counts

    def _attach(self, item: Attached) -> None:
        evaluation, opened = item.evaluation, None
        if item.began:
            start = evaluation.time - int(evaluation.duration * 1e9)
            rule = evaluation.rule or evaluation.scorer_id
            opened = self._attacher.open(item.run, evaluation.span_id, rule, evaluation.scorer_id, start)
            opened.span.needed = opened.span.needed or item.needs_span
        self._attacher.attach(item.run, evaluation, opened)

    def _note_death(self, error: ProcessDiedError, sent: int) -> None:
        """Add up the counters of a process that died, and release the spans that waited for it."""
        counts = self._counts
        lost = sent - counts.received + counts.open + (self._link.waiting if self._closed else 0)
        reason = "shutdown" if self._closed else error.error_type
        stored = self._config.store is not None
        self._past = total(self._past, after_death(counts, lost, reason, stored=stored))
        self._past_destinations = totals(self._past_destinations, undelivered(counts, reason))
        self._counts = self._nothing()
        self._let_pass()

    def _nothing(self) -> Counts:
        stats = Stats(rules={rule.name: RuleStats() for rule in self._config.rules})
        return Counts(stats=stats, destinations={}, received=0, open=0, pending=0)


def _packed(config: Config) -> bytes:
    for field, things in (("rules", config.rules), ("destinations", config.destinations)):
        for index, thing in enumerate(things):
            _pack(f"{field}[{index}]", thing)
    return _pack("isolation", config)


def _pack(field: str, thing: object) -> bytes:
    try:
        return pack(thing)
    except NotPortableError as error:
        raise ConfigError(field, f"with isolation='process' it {error}") from None
