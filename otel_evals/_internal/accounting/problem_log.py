"""Logs each problem once: failing rules, lost data, missing content."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from otel_evals._internal.model import Availability, Outcome, Run, ScorerFailure
from otel_evals._internal.model.convention import content_setting
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.plain import plain_text, type_name
from otel_evals.errors import JudgeError

_logger = logging.getLogger(__name__)
_IN_A_ROW = 10
"""Failures in a row after which a rule counts as failing."""
_WINDOW = 50
_LEAST = 20
_SHARE = 0.5
"""The share of failures among the last outcomes, of at least `_LEAST`, at which a rule counts as failing."""
_MOST_KINDS = 20
"""Kinds of errors logged per rule: some exceptions have a new type each time."""
_APART = 600.0
"""Seconds without an error of a kind, after which it is logged again."""
_POLL_SECONDS, _LOSSES_APART = 1.0, 60.0
_CONTENT = ("input", "output", "tool_arguments", "tool_results")
_MAX_INSTRUMENTATIONS = 100
"""Instrumentations that are logged at most: scopes can be made up."""


@dataclass(slots=True)
class _Rule:
    last: deque[bool] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    """Whether each of the last outcomes was a failure."""
    kinds: dict[str, float] = field(default_factory=dict)
    """`time.monotonic` of the last error of each kind."""
    message: str = ""

    def problem(self) -> str | None:
        last = list(self.last)
        failed = sum(last)
        if len(last) >= _IN_A_ROW and all(last[-_IN_A_ROW:]):
            return f"its last {_IN_A_ROW} evaluations failed: {self.message}"
        if len(last) >= _LEAST and failed >= _SHARE * len(last):
            return f"{failed} of its last {len(last)} evaluations failed: {self.message}"
        return None


class FailureLog:
    """Logs each kind of error of a rule when it begins; error messages only with `content`."""

    def __init__(self, *, content: bool = True) -> None:
        self._content = content
        self._rules: dict[str, _Rule] = {}

    def note(
        self, rule: str, outcome: Outcome, error: BaseException | None = None, good_before: int = 0
    ) -> None:
        """Note an outcome and its scorer's exception; log a kind of error that begins with it.

        Drops are ignored. `good_before` counts the outcomes before the rule's first failure.
        """
        if outcome.status == "dropped":
            return
        known = self._rules.get(rule)
        if known is None:
            known = self._rules[rule] = _Rule()
            # A rule is noted from its first failure on: its outcomes before were good.
            known.last.extend([False] * min(good_before, _WINDOW))
        known.last.append(isinstance(outcome, ScorerFailure))
        if isinstance(outcome, ScorerFailure):
            self._failed(rule, known, outcome, error)

    def failing(self) -> dict[str, str]:
        # Copied in one step: another thread or the interrupted frame may be adding to it.
        problems = {name: rule.problem() for name, rule in self._rules.copy().items()}
        return {name: problem for name, problem in problems.items() if problem is not None}

    def _failed(self, name: str, rule: _Rule, outcome: ScorerFailure, error: BaseException | None) -> None:
        kind, now = outcome.error_type, time.monotonic()
        text = f"{kind}: {outcome.message}" if self._content and outcome.message != kind else kind
        rule.message = text
        last = rule.kinds.get(kind, -inf)
        if kind in rule.kinds or len(rule.kinds) < _MOST_KINDS:
            rule.kinds[kind] = now
            if now - last >= _APART:
                _tell(name, text, error if self._content else None)


class LossLog:
    """Logs the losses since the last line, at most once a minute; polls within a second do nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.next_poll = self._next_line = -inf
        self._clock = clock
        self._logged: Counter[str] = Counter()

    def poll(self, losses: Mapping[str, int]) -> None:
        """Log new losses, unless the last line is less than a minute old."""
        now = self._clock()
        if now < self.next_poll:
            return
        self.next_poll = now + _POLL_SECONDS
        if losses != self._logged and now >= self._next_line:
            self._next_line = now + _LOSSES_APART
            _logger.warning("scoring is losing data: %s", _listed(Counter(losses) - self._logged))
            self._logged = Counter(losses)

    def close(self, losses: Mapping[str, int]) -> None:
        """Log everything that was lost, for the last time."""
        self.next_poll = inf
        if losses:
            _logger.warning("scoring lost data before shutdown, in total: %s", _listed(losses))


class ContentLog:
    """Logs each instrumentation that leaves content out, once, with the setting that turns capture on."""

    def __init__(self) -> None:
        self.off: dict[str, str] = {}
        """The setting of each of these instrumentations."""

    def note(self, who: str, run: Run) -> None:
        if who in self.off or len(self.off) >= _MAX_INSTRUMENTATIONS:
            return
        off = [name for name in _CONTENT if run.availability.get(name) is Availability.CAPTURED_OFF]
        if not off:
            return
        setting = content_setting(run.scope_name, run.convention)
        self.off[who] = setting
        _logger.warning(
            "%s leaves out %s, so that scorers cannot judge it; content capture: %s",
            who,
            " and ".join(name.replace("_", " ") for name in off),
            setting,
        )


def _tell(name: str, said: str, error: BaseException | None) -> None:
    message = "%s fails: %s; further failures of this kind are counted, not logged"
    # A judge's error names the problem with the model or its key; a traceback would be of our own code.
    if error is None or isinstance(error, JudgeError):
        _logger.warning(message, name, said)
    else:
        log_error(_logger, message, name, said, error=error, level=logging.WARNING)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(_lost(where, count) for where, count in sorted(counts.items()))


def _lost(where: str, count: int) -> str:
    """Return a count of losses as text. The name has a plural, such as `scored runs for console`."""
    singular = re.sub(r"(run|evaluation|span|record)s", r"\1", where, count=1)
    return f"{count} {singular if count == 1 else where}"


def predicate_failed(error: BaseException) -> ScorerFailure:
    """Return the failure of a rule's own condition."""
    message = f"its `when` or `sample` raised {type_name(error)}: {plain_text(error, 300)}"
    return ScorerFailure(error_type="predicate_failed", message=message)
