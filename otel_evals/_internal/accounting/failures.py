"""Which rules fail: one WARNING for each kind of error when it begins, another when it has ended; health."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field

from otel_evals._internal.model import Outcome, ScorerFailure
from otel_evals._internal.util.error_log import tell

_logger = logging.getLogger(__name__)
_IN_A_ROW = 10
"""Failures in a row after which a rule counts as failing."""
_WINDOW = 50
_LEAST = 20
_SHARE = 0.5
"""The share of failures in the last outcomes, of at least so many, from which on a rule counts as failing."""
_MOST_KINDS = 20
"""Kinds of errors that are told of one rule: some exceptions have a new type each time."""
_ENDED = "%s no longer fails with %s: it did %d times, and in none of the last %d evaluations"
_AFTER = 10
"""Outcomes without an error of a kind, after which it counts as ended."""


_APART = 60.0
"""Least seconds between two tellings of one kind of error: some come and go."""


@dataclass(slots=True)
class _Kind:
    """One kind of error of a rule, from its first until it has ended."""

    told: bool
    count: int = 0
    since: int = 0
    """Outcomes since the last one of this kind."""


@dataclass(slots=True)
class _Rule:
    last: deque[bool] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    """Whether each of the last outcomes was a failure."""
    kinds: dict[str, _Kind] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    """When each kind was last told, in `time.monotonic` seconds."""
    message: str = ""
    """The last error, in words."""

    def problem(self) -> str | None:
        last = list(self.last)
        failed = sum(last)
        if len(last) >= _IN_A_ROW and all(last[-_IN_A_ROW:]):
            return f"its last {_IN_A_ROW} evaluations failed: {self.message}"
        if len(last) >= _LEAST and failed >= _SHARE * len(last):
            return f"{failed} of its last {len(last)} evaluations failed: {self.message}"
        return None


class FailureLog:
    """Is told every outcome on the engine's thread; answers from any.

    Args:
        content: whether messages of errors may be told: they may quote what was judged.
    """

    def __init__(self, *, content: bool = True) -> None:
        self._content = content
        self._rules: dict[str, _Rule] = {}
        self._lock = threading.Lock()

    def note(self, rule: str, outcome: Outcome, error: BaseException | None = None) -> None:
        """Note an outcome, and log what begins or ends with it.

        Args:
            rule: the rule's name.
            outcome: however its evaluation ended; drops are told elsewhere.
            error: what its scorer raised.
        """
        if outcome.status == "dropped":
            return
        with self._lock:
            known = self._rules.get(rule)
            if known is None:
                known = self._rules[rule] = _Rule()
            known.last.append(isinstance(outcome, ScorerFailure))
        if isinstance(outcome, ScorerFailure):
            self._failed(rule, known, outcome, error)
        if known.kinds:
            self._end_others(rule, known, outcome)

    def failing(self) -> dict[str, str]:
        """The rules that fail again and again, each with its problem in words."""
        with self._lock:
            problems = {name: rule.problem() for name, rule in self._rules.items()}
        return {name: problem for name, problem in problems.items() if problem is not None}

    def close(self) -> None:
        """Say how often each error came, when scoring is shut down."""
        for name, rule in self._rules.items():
            for kind, known in rule.kinds.items():
                if known.count > 1:
                    _logger.warning("%s failed with %s %d times, until shut down", name, kind, known.count)

    def _failed(self, name: str, rule: _Rule, outcome: ScorerFailure, error: BaseException | None) -> None:
        kind = outcome.error_type
        said = f"{kind}: {outcome.message}" if self._content and outcome.message != kind else kind
        with self._lock:
            rule.message = said
        if kind not in rule.kinds:
            if kind not in rule.told and len(rule.told) >= _MOST_KINDS:
                return
            now = time.monotonic()
            rule.kinds[kind] = _Kind(now - rule.told.get(kind, -_APART) >= _APART)
            if rule.kinds[kind].told:
                rule.told[kind] = now
                _tell(name, said, error if self._content else None)
        rule.kinds[kind].count += 1
        rule.kinds[kind].since = 0

    def _end_others(self, name: str, rule: _Rule, outcome: Outcome) -> None:
        """Count on for the kinds of errors that this outcome is none of."""
        mine = outcome.error_type if isinstance(outcome, ScorerFailure) else None
        for kind in [each for each in rule.kinds if each != mine]:
            known = rule.kinds[kind]
            known.since += 1
            if known.since >= _AFTER:
                del rule.kinds[kind]
                if known.told:
                    _logger.warning(_ENDED, name, kind, known.count, _AFTER)


def _tell(name: str, said: str, error: BaseException | None) -> None:
    message = "%s fails: %s; more of this kind are only counted"
    if error is None:
        _logger.warning(message, name, said)
    else:
        tell(_logger, message, name, said, error=error, level=logging.WARNING)
