"""Which instrumentations are known to be complete when a run's root ends.

Some write log records, or whole spans, from another thread after the call has ended. So the first runs of
each scope wait for the whole grace period, and what arrives meanwhile is observed. A scope for which anything
came after the root's end, or that writes log records at all, keeps waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["LearnedScopes"]

_RUNS_TO_LEARN: Final = 32
"""Runs of a scope that wait for the whole grace period before it is known to be complete."""
_MOST_SCOPES: Final = 1_000
_INCOMPLETE: Final = -1


class LearnedScopes:
    """By instrumentation scope: whether its runs have been complete at their root's end so far."""

    def __init__(self) -> None:
        self._runs: dict[str, int] = {}

    def complete(self, scopes: Iterable[str]) -> bool:
        """Whether nothing ever came late for any of these scopes, in enough runs to tell."""
        runs = self._runs
        return all(runs.get(scope, 0) >= _RUNS_TO_LEARN for scope in scopes)

    def learn(self, scopes: Iterable[str], *, complete: bool) -> None:
        """Take note of a run that has waited for its grace period, or of what came after a run had closed."""
        runs = self._runs
        for scope in scopes:
            known = runs.get(scope, 0)
            if scope not in runs and len(runs) >= _MOST_SCOPES:
                continue  # a scope that is not known is never complete
            if not complete:
                runs[scope] = _INCOMPLETE
            elif known != _INCOMPLETE:
                runs[scope] = min(known + 1, _RUNS_TO_LEARN)
