"""Verdicts in time: `check`, `check_sync` and `guard` judge an answer before it leaves the application."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict, TypeVar, Unpack

from opentelemetry import context as context_api
from opentelemetry import trace

from otel_evals._internal.accounting.reasons import REASONS
from otel_evals._internal.capture.processors import GUARD
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.engine.check import Check, OnError, OnFail, Place, Policy, policy_of
from otel_evals._internal.live import configure
from otel_evals._internal.live.pipeline import Pipeline
from otel_evals._internal.model import Verdict
from otel_evals._internal.scorers.kit.scorer import Scorer
from otel_evals._internal.trust.marks import is_marked
from otel_evals._internal.util.calls import is_async
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.plain import is_number
from otel_evals._internal.util.threads import Wakeup
from otel_evals.errors import ConfigError

_logger = logging.getLogger(__name__)
_warn_once = functools.cache(_logger.warning)
_LONGEST_WAIT = 3600.0
_NOT_CONFIGURED = "otel_evals.configure() was not called, or scoring was shut down"


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
        if not (is_number(deadline) and 0 < deadline <= _LONGEST_WAIT):
            limits = f"above 0 and up to {_LONGEST_WAIT:g}"
            raise ConfigError("deadline", f"must be a number of seconds {limits}, not {deadline!r:.100}")
        self._rule = Rule(scorer)
        self._deadline = deadline
        self._policy: Policy = policy_of(self._rule, threshold, on_fail, on_error)

    async def verdict(self, answer: str | None, traces: Sequence[int] = (), since: int = 0) -> Verdict:
        """Return the verdict before the deadline.

        In a guarded call, `traces` has the ids of those that began in it, `since` its start in nanoseconds.
        """
        # First: the time until the check begins counts, too.
        until, done = time.monotonic() + self._deadline, asyncio.Event()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return self._policy.undecided("no_event_loop", "asyncio does not run here: use check_sync")
        # Woken by the engine's thread, which may not set an event of another thread's loop.
        begun = self._begun(answer, lambda: loop.call_soon_threadsafe(done.set), traces, since)
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

    def verdict_sync(self, answer: str | None, traces: Sequence[int] = (), since: int = 0) -> Verdict:
        """Return the verdict as `verdict` does; the thread waits."""
        until, done = time.monotonic() + self._deadline, Wakeup()
        begun = self._begun(answer, done.set, traces, since)
        try:
            if begun.verdict is None:
                done.wait(until - time.monotonic())
        except BaseException:  # KeyboardInterrupt
            begun.leave()
            raise
        return self._ended(begun)

    def _ended(self, begun: Check) -> Verdict:
        return begun.verdict or begun.expire("deadline", f"no score within {self._deadline:g} s")

    def _begun(
        self, answer: str | None, wake: Callable[[], object], traces: Sequence[int], since: int
    ) -> Check:
        """Begin a check; one that cannot begin has its verdict. Never raises."""
        begun = Check(self._rule, self._policy, Place((), (), since), answer, wake)
        pipeline = configure.current()
        try:
            if pipeline is None:
                _warn_once("answers are not checked: %s", _NOT_CONFIGURED)
                begun.expire("not_configured", _NOT_CONFIGURED)
            # A scorer that waits on the engine's thread would keep the check from running.
            elif is_marked(None) or pipeline.engine.here:
                begun.expire("inside_evaluation", "a scorer cannot check answers")
            else:
                pipeline.spans.capture_all()
                self._send(begun, traces, pipeline)
        except Exception as error:
            log_error(_logger, "an answer could not be checked", error=error)
            begun.expire("error", "the check failed; the log has the error")
        return begun

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


# --- the decorator ---

_F = TypeVar("_F", bound=Callable[..., Any])


def guard(
    scorer: Scorer,
    *,
    fallback: Any,
    deadline: float = 1.0,
    threshold: float | None = None,
    on_error: OnError = "allow",
) -> Callable[[_F], _F]:
    """Decorate a function that returns an answer: only allowed answers leave it.

    The function may be async. A generator is checked as a whole: its items leave once it has ended, or the
    fallback leaves instead. Of answers that are no text, the recorded text is judged.

    Args:
        scorer: as for `check`.
        fallback: returned instead of an answer that is not allowed; or a function of the answer and the
            verdict that rewrites it.
        deadline: as for `check`.
        threshold: as for `check`.
        on_error: as for `check`.

    Raises:
        ConfigError: an option is wrong.
    """
    on_fail: OnFail = "rewrite" if callable(fallback) else "block"
    checks = Checks(scorer, deadline=deadline, threshold=threshold, on_fail=on_fail, on_error=on_error)

    def decorate(function: _F) -> _F:
        # Decorators may hide that it is a generator.
        body = inspect.unwrap(function)
        if inspect.isasyncgenfunction(body) or is_async(function):
            made: Any = _later(function, checks, fallback, stream=inspect.isasyncgenfunction(body))
        else:
            made = _now(function, checks, fallback, stream=inspect.isgeneratorfunction(body))
        made = functools.wraps(function)(made)
        guarded: _F = made
        return guarded

    return decorate


def _later(
    function: Callable[..., Any], checks: Checks, fallback: Any, *, stream: bool
) -> Callable[..., Any]:
    async def answer(*args: Any, **kwargs: Any) -> Any:
        with _call() as (traces, began):
            given = function(*args, **kwargs)
            said = [item async for item in given] if stream else await given
            verdict = await checks.verdict(_text(said, stream), traces, began)
        if verdict.allowed:
            return said
        instead = _instead(fallback, said, verdict, stream)
        instead = await instead if inspect.isawaitable(instead) else instead
        return [instead] if stream else instead

    async def generate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        for item in await answer(*args, **kwargs):
            yield item

    return generate if stream else answer


def _now(function: Callable[..., Any], checks: Checks, fallback: Any, *, stream: bool) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        with _call() as (traces, began):
            given = function(*args, **kwargs)
            # A decorator without functools.wraps hides that a function is async.
            if inspect.isawaitable(given) or inspect.isasyncgen(given):
                return _later(lambda: given, checks, fallback, stream=inspect.isasyncgen(given))()
            items = inspect.isgenerator(given)
            said = list(given) if items else given
            verdict = checks.verdict_sync(_text(said, items), traces, began)
        if not verdict.allowed:
            instead = _instead(fallback, said, verdict, items)
            said = [instead] if items else instead
        return iter(said) if items else said

    def generate(*args: Any, **kwargs: Any) -> Generator[Any, None, None]:
        yield from answer(*args, **kwargs)

    return generate if stream else answer


@contextmanager
def _call() -> Iterator[tuple[list[int], int]]:
    """Guard a call: yields the list of the traces that begin in it, and its start."""
    traces: list[int] = []
    began, outer, pipeline = time.time_ns(), context_api.get_value(GUARD), configure.current()
    if pipeline is not None:
        pipeline.spans.capture_all()
    token = context_api.attach(context_api.set_value(GUARD, traces))
    try:
        yield traces, began
    finally:
        context_api.detach(token)
        if isinstance(outer, list):
            outer.extend(traces)  # a guarded call around this one includes its traces
        if pipeline is not None:
            pipeline.spans.open_spans.guarded.difference_update(traces)


def _text(answer: Any, stream: bool) -> str | None:
    """Return the text of an answer, or the texts of a stream; None stands for the recorded one."""
    if stream:
        return "".join(item for item in answer if isinstance(item, str)) or None
    return answer if isinstance(answer, str) else None


def _instead(fallback: Any, said: Any, verdict: Verdict, stream: bool) -> Any:
    answer = _text(said, stream) if stream else said
    return fallback(answer, verdict) if callable(fallback) else fallback
