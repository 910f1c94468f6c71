"""Instrumentations that leave content out: told once for each, with the setting that turns it on."""

from __future__ import annotations

import logging

from otel_evals._internal.dialect import content_setting
from otel_evals._internal.model import Availability, Run

_logger = logging.getLogger(__name__)
_FIELDS = ("input", "output", "tool_arguments", "tool_results")
_MOST = 100
"""Instrumentations that are told at most: scopes can be made up."""
_EVERY = 16
"""One in so many runs is looked at, the first included: to know what is missing, all of it has to be read."""


class ContentLog:
    """Is told every run on the engine's thread; answers from any."""

    def __init__(self) -> None:
        self._off: dict[str, str] = {}
        self._runs: dict[str, int] = {}

    def note(self, run: Run) -> None:
        """Note a run, and log the first one that is looked at whose instrumentation left content out."""
        who = run.scope_name or run.dialect
        if who in self._off or len(self._off) >= _MOST:
            return
        count = self._runs.get(who, 0)
        if count or len(self._runs) < _MOST:
            self._runs[who] = count + 1
        if count % _EVERY:
            return
        off = [name for name in _FIELDS if run.availability.get(name) is Availability.CAPTURED_OFF]
        if not off:
            return
        setting = content_setting(run.scope_name, run.dialect)
        self._off[who] = setting
        _logger.warning(
            "%s leaves out %s, so that scorers cannot judge it; to turn on content capture: %s",
            who,
            " and ".join(name.replace("_", " ") for name in off),
            setting,
        )

    def off(self) -> dict[str, str]:
        """The instrumentations that left content out, each with the setting that turns it on."""
        return dict(self._off)
