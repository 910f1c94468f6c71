"""The most frequent failures since an incident began."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from otel_evals_monitor._internal.alarms.incidents import Incident
from otel_evals_monitor._internal.report.patterns import FailurePattern, failures_of
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.queries import Window, stored_slices

_LASTS, _MOST, _REMEMBERED = 60.0, 2, 50


class Causes:
    """Finds the failures of incidents, at most once a minute each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._known: dict[tuple[str, ...], tuple[float, Sequence[FailurePattern]]] = {}

    def of(self, incident: Incident) -> Sequence[FailurePattern]:
        """Return the patterns with the largest shares; empty unless scores are worse."""
        if not incident.quality:
            return ()
        key, now = (*incident.monitors, str(incident.since)), time.monotonic()
        with self._lock:
            found = self._known.get(key)
            if found is None or now - found[0] > _LASTS:
                while len(self._known) >= _REMEMBERED:
                    del self._known[next(iter(self._known))]
                found = self._known[key] = now, self._patterns(incident)
        return found[1]

    def _patterns(self, incident: Incident) -> Sequence[FailurePattern]:
        alarm = incident.first.alarm
        only = {"scorer_id": alarm.scorer_id, "agent_name": alarm.agent_name}
        with self._database.reading() as connection:
            slices = stored_slices(connection, **only, agent_version=incident.version or None)
            return failures_of(connection, slices, Window(incident.since), most=_MOST).patterns
