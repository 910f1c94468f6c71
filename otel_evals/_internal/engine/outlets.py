"""Where scores go: the attacher of a configuration, and the deliveries to destinations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry import _logs, trace

from otel_evals import semconv
from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.attach.attacher import Attacher, Way
from otel_evals._internal.attach.evaluation_spans import EvaluationSpans
from otel_evals._internal.attach.hold import PendingScores
from otel_evals._internal.attach.metrics import Metrics
from otel_evals._internal.attach.observed import Measured
from otel_evals._internal.attach.providers import unwrapped
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.destination import DestinationStats, EventPreset
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.deliver.pending_deliveries import PendingDelivery
from otel_evals._internal.deliver.retry import FINAL
from otel_evals._internal.engine.attempt import Target
from otel_evals._internal.engine.source import Unfinished
from otel_evals._internal.model import ScoredRun
from otel_evals._internal.model.runs import size_of_run
from otel_evals._internal.util.version import __version__

_logger = logging.getLogger(__name__)
_AGAIN_SECONDS = 30.0
"""Seconds until scores of a source's run are put again after a destination could not take them."""
_PICKS_SECONDS = 30.0
"""Seconds between two reports of how many runs each rule picked."""


class Deliveries:
    """Delivers the scores of targets.

    Args:
        config: has the destinations.
        ledger: logs how deliveries end, and counts the picks of rules.
        left: counts what is left to do for a source; None without one.
        queue_size: maximum number of scored runs that wait for a destination.
        deliver: takes scored runs instead of the destinations.
    """

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        left: Unfinished | None,
        queue_size: int,
        deliver: Callable[[ScoredRun], object] | None,
    ) -> None:
        self._ledger, self._left, self._deliver = ledger, left, deliver
        self._max_bytes = config.limits.max_bytes
        self._waiting_runs = self._waiting_bytes = 0
        """Scored runs that wait to be put again, and their approximate size."""
        self._leaves_runs = False
        self.fan_out = FanOut(
            config.destinations, queue_size=queue_size, max_bytes=config.limits.max_bytes, ended=self._ended
        )

    @property
    def capacity(self) -> float:
        """Number of further runs whose scores can be delivered. May be called from any thread."""
        full = self._waiting_bytes >= self._max_bytes
        return 0 if full else self.fan_out.capacity - self._waiting_runs

    def put(self, target: Target) -> None:
        """Hand the scores of a target on; never waits."""
        scored = ScoredRun(run=target.run, evaluations=target.evaluations)
        if self._deliver is not None:
            self._deliver(scored)
            return
        # A target that was only held for its checks has no evaluations: each check delivers its own.
        kept = self._left is not None and target.kept
        names = self.fan_out.put(scored, kept=kept) if scored.evaluations else []
        # A check is not counted: the run that it judges is, once it has closed.
        if self._left is not None and (target.held or target.run.turns):
            self._left.put(target, names)

    def _ended(self, destination: str, deliveries: Sequence[PendingDelivery], end: str) -> None:
        """Record how a delivery ended, and deliver runs of a source again that were not accepted.

        Beyond `max_bytes`, it is left to the next process, since the source has it until it is done.
        """
        self._ledger.trace_log.delivered(destination, [each.scored for each in deliveries], end)
        # A run that the shutdown cuts off stays counted: the source keeps it for the next process.
        if self._left is None or end == "shutdown":
            return
        again = [each.scored for each in deliveries if each.kept and end not in FINAL]
        self._left.accepted([each.scored for each in deliveries if not each.kept or end in FINAL])
        if not again:
            return
        size = sum(size_of_run(scored.run) for scored in again)
        if self._waiting_bytes + size <= self._max_bytes:
            self._waiting_runs += len(again)
            self._waiting_bytes += size
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._put_again, again, destination, size)
        # Logged once: it would be repeated for each batch.
        elif not self._leaves_runs:
            self._leaves_runs = True
            _logger.warning(
                "destination %s does not accept scores: further runs are left to the next process; "
                "fix: make it available, then restart this process",
                destination,
            )

    def _put_again(self, batch: Sequence[ScoredRun], destination: str, size: int) -> None:
        self._waiting_runs -= len(batch)
        self._waiting_bytes -= size
        for scored in batch:
            self.fan_out.put(scored, [destination], kept=True)  # the other destinations have it

    async def run(self) -> None:
        """Deliver until cancelled."""
        # Not a task group: if one of them fails, the other continues until the loop ends.
        await asyncio.gather(self.fan_out.run(), self._report_all_picks())

    async def flush(self, seconds: float) -> bool:
        """Deliver everything; returns False if that takes longer, or something was not accepted."""
        await self._report_picks()
        return await self.fan_out.force_flush(max(0.0, seconds))

    async def shutdown(self, seconds: float) -> None:
        """Deliver as much as possible in this time, and close the destinations."""
        await self._report_picks()
        await self.fan_out.shutdown(max(0.1, seconds))

    async def _report_all_picks(self) -> None:
        while True:
            await asyncio.sleep(_PICKS_SECONDS)
            await self._report_picks()

    async def _report_picks(self) -> None:
        """Send the number of runs picked by each rule to destinations that store it for the sampler check."""
        rows = self._ledger.picks.changed()
        if rows and await self.fan_out.keep_picks(rows):
            self._ledger.picks.told(rows)  # unless stored, they are sent again


# The application's own sampler left the first ones out; the second have nothing to score.
_NOT_A_LOSS = {"trace_not_sampled", "nothing_to_judge"}


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


def new_attacher(
    config: Config,
    spans: EvaluationSpans | None,
    loggers: Any,
    scores: PendingScores | None,
    note: Way | None = None,
) -> Attacher:
    """Return an attacher with everything but metrics.

    Args:
        config: says in which ways outcomes are attached.
        spans: the evaluation spans.
        loggers: the provider for evaluation events.
        scores: the attributes of held spans.
        note: is called with each evaluation.
    """
    logger = _logs.get_logger(semconv.SCOPE_NAME, __version__, loggers) if config.evaluation_events else None
    presets = [each for each in config.destinations if isinstance(each, EventPreset)]
    return Attacher(spans, logger, None, scores, presets, proposed=config.semconv == "proposed", note=note)


def new_evaluation_spans(config: Config, application: Any, own: Any = None) -> EvaluationSpans | None:
    """Return the evaluation spans of the application's provider, or of one of their own; None if disabled."""
    if not config.evaluation_spans:
        return None
    same_trace = config.evaluation_spans == "same_trace"
    provider = application if same_trace else own or unwrapped(application)
    tracer = trace.get_tracer(semconv.SCOPE_NAME, __version__, provider)
    proposed = config.semconv == "proposed"
    return EvaluationSpans(tracer, same_trace=same_trace, own_service=own is None, proposed=proposed)


def new_metrics(config: Config, meter: Any, look: Callable[[], Measured]) -> Metrics:
    """Return the metrics of a configuration; `look` returns the counters."""
    return Metrics(meter, look, {r.name: r.facts.scale for r in config.rules})
