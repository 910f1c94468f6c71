"""The check for alarms: finds alarms, records them and notifies receivers, in any process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.monitors import WatchState, check_store
from otel_evals_monitor._internal.alarms.receivers import Receiver
from otel_evals_monitor._internal.alarms.record import KeptAlarm, alarms_of, keep_alarms
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database

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
    states: Mapping[tuple[str, str], WatchState] = field(default_factory=dict)
    """State of each scorer and agent at the last check of this process."""
    problem: str = ""
    """Problem of the last `run_once`; empty if there was none."""

    def run(self, every: float = 0.0) -> list[str]:
        """Check once, and return the notifications that failed, as one sentence each.

        Only notifies if another process has checked within `every` seconds.
        """
        now = time.time()
        if every <= 0.0 or self._is_due(now, every):
            found = check_store(self.database, self.limits, now)
            keep_alarms(self.database, found.alarms, now)
            self.checked, self.states = int(now), found.states
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
        table = schema.settings
        with self.database.writing() as connection:
            last = connection.execute(select(table.c.value).where(table.c.name == _CHECKED)).scalar()
            # A check in the future is of a clock that was ahead, and must not delay others.
            if last is not None and now - every < float(last) <= now:
                return False
            connection.execute(delete(table).where(table.c.name == _CHECKED))
            connection.execute(insert(table).values(name=_CHECKED, value=str(now)))
        return True

    def _notify(self, receiver: Receiver) -> list[str]:
        problems = []
        for kept in alarms_of(self.database):
            state = _STARTED if kept.ended is None else _ENDED
            with self.database.writing() as connection:
                # Committed before the notification, which may take seconds and must hold no lock.
                mine = _claim(connection, receiver, kept, state)
            if not mine:
                continue
            told = state
            try:
                receiver.notify(kept)
            except Exception as error:  # receivers may raise anything
                problems.append(f"{receiver.shown}: {error}")
                # As before the claim, so the next check tries again.
                told = mine - 1
            with self.database.writing() as connection:
                row = _row(receiver, kept)
                connection.execute(update(schema.notices).where(*row).values(told=told, claimed=0))
        return problems


def _claim(connection: Connection, receiver: Receiver, kept: KeptAlarm, state: int) -> int:
    """Claim a notification for this process; return its stored state plus one, or 0 if it is not due.

    A process has two minutes to notify after its claim; then it is assumed to have died.
    """
    table, now = schema.notices, int(time.time())
    found = connection.execute(select(table).where(*_row(receiver, kept))).first()
    told = found.told if found else 0
    # Only the start of a lasting alarm may be sent twice, to receivers that need it.
    if told >= state and not (receiver.repeats and state == _STARTED):
        return 0
    if not told and kept.ended is not None and kept.ended < now - _OLD:
        return 0  # the alarm ended long before this receiver was added
    if found is None:
        key = {"alarm_id": kept.id, "receiver": receiver.name}
        connection.execute(insert(table).values(**key, told=0, claimed=now))
    elif 0 <= now - found.claimed < _CLAIM:  # a later claim is of a clock that was ahead
        return 0
    else:
        connection.execute(update(table).where(*_row(receiver, kept)).values(claimed=now))
    return int(told) + 1


def _row(receiver: Receiver, kept: KeptAlarm) -> tuple[ColumnElement[bool], ...]:
    table = schema.notices.c
    return table.alarm_id == kept.id, table.receiver == receiver.name
