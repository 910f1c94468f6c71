"""Verdicts in time: `check` and `check_sync` judge an answer before it leaves the application."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack

from opentelemetry import trace

from otel_evals._internal.accounting.reasons import REASONS
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.engine.check import Check, OnError, OnFail, Place, Policy, policy_of
from otel_evals._internal.live import configure
from otel_evals._internal.live.pipeline import Pipeline
from otel_evals._internal.model import Verdict
from otel_evals._internal.scorers.kit.scorer import Scorer
from otel_evals._internal.trust.marks import is_marked
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.threads import Wakeup
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)
_LONGEST_WAIT = 3600.0


class CheckOptions(TypedDict, total=False):
    """Types of the options of `check`, for editors and type checkers."""

    deadline: float
    threshold: float | None
    on_fail: OnFail
    on_error: OnError


async def check(scorer: Scorer, answer: str | None = None, **options: Unpack[CheckOptions]) -> Verdict:
    """Judge an answer before it leaves, by the run under way: its ended spans and those still open.

    The scorer runs with the limits of its rule, and the rule does not judge the run again. A score that
    misses the deadline still reaches the trace. Never raises once the options are right; without a score in
    time, the verdict is `undecided`, with the reason.

    Args:
        scorer: judges the run.
        answer: replaces the run's recorded answer.
        **options: `deadline`, seconds until the verdict (1.0); `threshold`, the lowest score that passes, or
            the highest if lower is better (the best score); `on_fail`, the effect to record for an answer
            that fails (`block`, `rewrite` or `allow`; by default `block`); `on_error`, the decision about
            an answer without a verdict (`allow` or `block`; by default `allow`).

    Raises:
        ConfigError: an option is wrong.
    """
    return await Checks(scorer, **options).verdict(answer)


def check_sync(scorer: Scorer, answer: str | None = None, **options: Unpack[CheckOptions]) -> Verdict:
    """Judge an answer as `check` does, for code that does not run in an event loop; the thread waits.

    Args:
        scorer: as for `check`.
        answer: as for `check`.
        **options: as for `check`.

    Raises:
        ConfigError: an option is wrong.
    """
    return Checks(scorer, **options).verdict_sync(answer)


class GuardedCall(NamedTuple):
    """What a guarded call adds to its checks."""

    traces: Sequence[int] = ()
    """Ids of the traces that began in the call."""
    since: int = 0
    """Start of the call, in nanoseconds since the Unix epoch."""


_UNGUARDED = GuardedCall()


class Checks:
    """Checks with the same scorer and options.

    Raises:
        ConfigError: an option is wrong.
    """

    def __init__(
        self,
        scorer: Scorer,
        *,
        deadline: float = 1.0,
        threshold: float | None = None,
        on_fail: OnFail = "block",
        on_error: OnError = "allow",
    ) -> None:
        number = isinstance(deadline, int | float) and not isinstance(deadline, bool)
        if not number or not 0 < deadline <= _LONGEST_WAIT:
            problem = (
                f"must be a number of seconds above 0 and up to {_LONGEST_WAIT:g}, not {deadline!r:.100}"
            )
            raise ConfigError("deadline", problem)
        self._rule = Rule(scorer)
        self._deadline = deadline
        self._policy: Policy = policy_of(self._rule, threshold, on_fail, on_error)

    async def verdict(self, answer: str | None, guarded: GuardedCall = _UNGUARDED) -> Verdict:
        """Return the verdict before the deadline."""
        # First: the time until the check begins counts, too.
        until, done = time.monotonic() + self._deadline, asyncio.Event()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._policy.undecided("no_event_loop", "asyncio does not run here: use check_sync")
        # Woken by the engine's thread, which may not set an event of another thread's loop.
        begun = self._begun(answer, lambda: loop.call_soon_threadsafe(done.set), guarded)
        try:
            if begun.verdict is None:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    await done.wait()
        except TimeoutError:
            pass
        except BaseException:  # the caller was cancelled
            begun.leave()
            raise
        return self._ended(begun)

    def verdict_sync(self, answer: str | None, guarded: GuardedCall = _UNGUARDED) -> Verdict:
        """Return the verdict as `verdict` does; the thread waits."""
        until, done = time.monotonic() + self._deadline, Wakeup()
        begun = self._begun(answer, done.set, guarded)
        try:
            if begun.verdict is None:
                done.wait(until - time.monotonic())
        except BaseException:  # KeyboardInterrupt
            begun.leave()
            raise
        return self._ended(begun)

    def _ended(self, begun: Check) -> Verdict:
        return begun.verdict or begun.expire("deadline", f"no score within {self._deadline:g} s")

    def _begun(self, answer: str | None, wake: Callable[[], object], guarded: GuardedCall) -> Check:
        """Begin a check; one that cannot begin has its verdict. Never raises."""
        begun = Check(self._rule, self._policy, Place((), (), guarded.since), answer, wake)
        try:
            self._begin(begun, guarded.traces)
        except Exception as error:
            log_error(_logger, "an answer could not be checked", error=error)
            begun.expire("error", "the check failed; the log has the error")
        return begun

    def _begin(self, begun: Check, traces: Sequence[int]) -> None:
        pipeline = configure.current()
        if pipeline is None:
            _logger.warning("answers are not checked: call otel_evals.configure() at startup")
            begun.expire("not_configured", "otel_evals.configure() was not called, or scoring was shut down")
        # A scorer that waits on the engine's thread would keep the check from running.
        elif is_marked(None) or pipeline.engine.here:
            begun.expire("inside_evaluation", "a scorer cannot check answers")
        else:
            pipeline.spans.capture_all()
            self._send(begun, traces, pipeline)

    def _send(self, begun: Check, traces: Sequence[int], pipeline: Pipeline) -> None:
        span: Any = trace.get_current_span()
        context, since = span.get_span_context(), begun.place.since
        above: tuple[int, ...] = ()
        if context.is_valid:
            traces, since = (context.trace_id, *traces), since or getattr(span, "start_time", None) or 0
            above = () if context.is_remote else pipeline.spans.open_spans.upward(context.span_id)
        # Each trace once, with the current span's first, as the likeliest.
        begun.place = Place(tuple(dict.fromkeys(traces)), above, since)
        if context.is_valid and not context.trace_flags.sampled:
            pipeline.engine.refuse(begun, "trace_not_sampled", "the tracer's sampler left the trace out")
        elif context.is_valid and not context.is_remote and not above:
            pipeline.engine.refuse(begun, "not_captured", REASONS["not_captured"])
        elif not traces:
            pipeline.engine.refuse(begun, "no_run", "no span is current: check inside the run or request")
        else:
            pipeline.engine.check(begun, self._deadline)
