"""From captured items to runs: gathers the spans of a trace, reads the runs that have closed, and joins them.

Used on the engine's thread only, except `waiting`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from math import inf

from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.capture.items import IntakeItem
from otel_evals._internal.config.options import Config
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.gather.traces import AssemblyLimits
from otel_evals._internal.model import Loss, Run
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.model.runs import SIZE
from otel_evals._internal.read.runs import find_runs, group_of
from otel_evals._internal.read.split_runs import SplitRuns
from otel_evals._internal.util.error_log import log_error

_logger = logging.getLogger(__name__)
_LOCK_SECONDS = 0.002


class Assembly:
    """Assembles runs.

    Args:
        config: the bounds.
        conventions: read spans.
        ledger: counts what is lost.
        gatherer: collects the spans of a trace until its runs close.
    """

    def __init__(self, config: Config, conventions: Conventions, ledger: Ledger, gatherer: Gatherer) -> None:
        self.gatherer = gatherer
        self._ledger = ledger
        self._conventions = conventions
        self._split_runs = SplitRuns(max_bytes=config.limits.max_bytes)
        self.joined: Callable[[Run], Run] = self._split_runs.joined
        self._yielded = 0.0
        self.read_until = inf
        """From this time of `time.monotonic`, runs are counted but not read; set from any thread."""

    @property
    def next_due(self) -> float:
        """When to call `due` or `evict`, in `time.monotonic` seconds."""
        return min(self.gatherer.next_close, self.gatherer.next_eviction, self._split_runs.next_due)

    @property
    def held(self) -> frozenset[str]:
        """Root span ids of the runs that wait for others that continue them."""
        return self._split_runs.held

    def is_gathering(self, trace_id: str) -> bool:
        """Return True if a trace has spans whose run was not scored yet."""
        return self.gatherer.is_open(trace_id) or trace_id in self._split_runs.open_traces

    def add(self, items: Sequence[IntakeItem]) -> list[Loss]:
        """Add captured items; returns the losses."""
        return self.gatherer.add(items, time.monotonic())

    def evict(self, now: float) -> list[Loss]:
        """Evict the traces that have waited too long."""
        return self.gatherer.evict_old(now) if self.gatherer.next_eviction <= now else []

    def due(self, now: float) -> Iterator[tuple[list[Run], SpanGroup]]:
        """Yield the runs that are complete, with the spans of each group of them; with infinity, all."""
        for group in self.gatherer.close_due(now) if self.gatherer.next_close <= now else ():
            if time.monotonic() < self.read_until:
                yield self._read(group)
                self._yield()
            else:
                self._ledger.lost(_undecided(group.spans[0].trace_id))
        if self._split_runs.next_due <= now:
            for run in self._split_runs.due(now):
                yield [run], group_of([run])

    def end(self, items: Sequence[IntakeItem]) -> list[Loss]:
        """Forget everything; returns the losses, including these items."""
        lost = self.gatherer.end(items)
        return [*lost, *(_undecided(run.trace_id) for run in self._split_runs.flush())]

    def _read(self, group: SpanGroup) -> tuple[list[Run], SpanGroup]:
        """Read the runs in a group of spans, and join them with those that they continue. Never raises."""
        trace_id = group.spans[0].trace_id
        runs: list[Run] = []
        try:
            read = find_runs(group.spans, self._conventions, group.links)
        except BaseException as error:
            log_error(_logger, "a run could not be read", error=error)
            self._ledger.lost(Loss("run", "unreadable", trace_id))
            return runs, group
        self._ledger.trace_log.assembled(trace_id, len(group.spans), read)
        if len(read) == 1 and group.size and len(read[0].operations) == len(group.spans):
            read[0].__dict__[SIZE] = group.size  # measured when the spans arrived
        if not read:
            self._ledger.lost(Loss("run", "nothing_to_judge", trace_id))
        for run in read:
            runs += self._split_runs.add(run, time.monotonic())
        # Spans of joined runs that closed earlier are held too.
        return runs, group if runs == read else group_of(runs, group)

    def _yield(self) -> None:
        """Give up the GIL every 2 ms; other threads would wait for the switch interval, 5 ms."""
        if time.monotonic() - self._yielded > _LOCK_SECONDS:
            time.sleep(0)
            self._yielded = time.monotonic()


def assembly_limits(config: Config) -> AssemblyLimits:
    """Return the assembly bounds of a configuration."""
    return AssemblyLimits(
        grace=config.grace,
        max_age=config.limits.max_age,
        max_traces=config.limits.max_open_traces,
        max_spans_per_trace=config.limits.max_spans_per_trace,
        max_bytes=config.limits.max_bytes,
    )


def _undecided(trace_id: str) -> Loss:
    return Loss("run", "undecided_at_shutdown", trace_id)
