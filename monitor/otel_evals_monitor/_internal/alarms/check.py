"""The check for alarms: finds alarms, records them and notifies receivers, in any process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.monitors import Found, check_store
from otel_evals_monitor._internal.alarms.receivers import Receiver
from otel_evals_monitor._internal.alarms.record import Alarm, alarms_of, keep_alarms
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database, put

# Stored in `notices.told`, where 0 is nothing: a later state has a larger number.
_STARTED, _ENDED = 1, 2
_CLAIM = 120
_OLD = 86_400
_CHECKED = "alarms checked"


@dataclass(slots=True)
class AlarmCheck:
    """Checks for alarms, and notifies receivers once of the start and the end of each."""

    database: Database
    limits: AlarmLimits
    receivers: Sequence[Receiver] = ()
    checked: int | None = None
    """Time of the last check, seconds since the Unix epoch."""
    found: Found = field(default_factory=Found)
    """What the last check of this process found."""
    problem: str = ""
    """Problem of the last `run_once`; empty if there was none."""

    def run(self, every: float = 0.0) -> list[str]:
        """Check once, and return the notifications that failed, as one sentence each.

        Only notifies if another process has checked within `every` seconds.
        """
        now = time.time()
        if every <= 0.0 or self._is_due(now, every):
            self.found = check_store(self.database, self.limits, now, self.found)
            keep_alarms(self.database, self.found.alarms, now)
            self.checked = int(now)
        # Also if another process has checked, since its receivers may be others.
        return [problem for each in self.receivers for problem in self._notify(each)]

    def run_once(self, every: float = 0.0) -> None:
        """Check once, and keep its problem."""
        try:
            self.problem = "; ".join(self.run(every))
        except Exception as error:  # the page shows it, and the next check may succeed
            self.problem = f"the check for alarms failed: {error}"

    def _is_due(self, now: float, every: float) -> bool:
        """Return True if no process has checked for that long, and record this check."""
        table = schema.settings.c
        with self.database.writing() as connection:
            last = connection.execute(select(table.value).where(table.name == _CHECKED)).scalar()
            # A check in the future is of a clock that was ahead, and must not delay others.
            due = last is None or not now - every < float(last) <= now
            if due:
                put(connection, schema.settings, {"name": _CHECKED}, value=str(now))
        return due

    def _notify(self, receiver: Receiver) -> list[str]:
        problems = []
        for alarm in alarms_of(self.database):
            state = _STARTED if alarm.ended is None else _ENDED
            with self.database.writing() as connection:
                # Committed before the notification, which may take seconds and must hold no lock.
                before = _claim(connection, receiver, alarm, state)
            if before is None:
                continue
            told, away = state, False
            try:
                receiver.notify(alarm)
            except Exception as error:  # receivers may raise anything
                problems.append(f"{receiver.shown}: {error}")
                # As before the claim, so the next check tries again. What has a code is an answer; without
                # one, each other alarm would wait as long, and the other receivers after them.
                told, away = before, not hasattr(error, "code")
            with self.database.writing() as connection:
                _set_notice(connection, receiver, alarm, told=told, claimed=0)
            if away:
                break
        return problems


def _claim(connection: Connection, receiver: Receiver, alarm: Alarm, state: int) -> int | None:
    """Claim a notification for this process; return its stored state, or None if it is not due.

    A process has two minutes to notify after its claim; then it is assumed to have died.
    """
    table, now = schema.notices.c, int(time.time())
    mine = select(table.told, table.claimed).where(
        table.alarm_id == alarm.id, table.receiver == receiver.name
    )
    told, claimed = connection.execute(mine).first() or (0, 0)
    # Only the start of a lasting alarm may be sent twice, to receivers that need it.
    repeated = told >= state and not (receiver.repeats and state == _STARTED)
    # The alarm ended long before this receiver was added.
    old = not told and alarm.ended is not None and alarm.ended < now - _OLD
    # A later claim is of a clock that was ahead.
    if repeated or old or 0 <= now - claimed < _CLAIM:
        return None
    _set_notice(connection, receiver, alarm, told=told, claimed=now)
    return int(told)


def _set_notice(connection: Connection, receiver: Receiver, alarm: Alarm, **values: int) -> None:
    put(connection, schema.notices, {"alarm_id": alarm.id, "receiver": receiver.name}, **values)
