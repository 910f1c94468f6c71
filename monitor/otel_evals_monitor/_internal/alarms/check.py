"""The check for alarms: the one place that looks, puts on record and tells, in whichever process it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from otel_evals_monitor._internal.alarms.alarm_record import KeptAlarm, alarms_of, keep_alarms
from otel_evals_monitor._internal.alarms.monitors import AlarmSettings, find_alarms
from otel_evals_monitor._internal.alarms.receivers import Receiver
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database

_STARTED, _ENDED = 1, 2
_CLAIM = 120
_OLD = 86_400
_CHECKED = "alarms checked"


@dataclass(slots=True)
class AlarmCheck:
    """Looks for alarms, and tells receivers of each once: of its start, and of its end."""

    database: Database
    settings: AlarmSettings
    receivers: Sequence[Receiver] = ()
    checked: int | None = None
    """When it last looked, seconds since the Unix epoch."""
    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, every: float = 0.0) -> list[str]:
        """Look, put on record, and tell; returns what could not be told, one sentence each.

        Args:
            every: where another process has looked within these seconds, only tell.

        Raises:
            StoreError: the store cannot be used.
        """
        now = time.time()
        if every <= 0.0 or self._is_due(now, every):
            keep_alarms(self.database, find_alarms(self.database, self.settings, now), now)
            self.checked = int(now)
        return [problem for each in self.receivers for problem in self._tell(each)]

    def run_for_ever(self, every: float, problem: Callable[[str], object]) -> None:
        """Look every so many seconds until `stop`, telling what went wrong."""
        while not self._stopped.wait(every):
            try:
                problem("; ".join(self.run(0.9 * every)))
            except Exception as error:  # it must go on
                problem(f"the check for alarms failed: {error}")

    def stop(self) -> None:
        """End `run_for_ever`."""
        self._stopped.set()

    def _is_due(self, now: float, every: float) -> bool:
        """Whether nobody has looked for so long; whoever asks is then the one who looks."""
        table = schema.settings
        with self.database.writing() as connection:
            last = connection.execute(select(table.c.value).where(table.c.name == _CHECKED)).scalar()
            if last is not None and now - every < float(last) <= now:
                return False
            connection.execute(delete(table).where(table.c.name == _CHECKED))
            connection.execute(insert(table).values(name=_CHECKED, value=str(now)))
        return True

    def _tell(self, receiver: Receiver) -> list[str]:
        problems = []
        for kept in alarms_of(self.database):
            state = _STARTED if kept.ended is None else _ENDED
            with self.database.writing() as connection:
                mine = _claim(connection, receiver, kept, state)
            if not mine:
                continue
            told = state
            try:
                receiver.tell(kept)
            except Exception as error:  # a receiver of somebody else's
                problems.append(f"{receiver.name}: {error}")
                told = mine - 1
            with self.database.writing() as connection:
                row = _row(receiver, kept)
                connection.execute(update(schema.notices).where(*row).values(told=told, claimed=0))
        return problems


def _claim(connection: Connection, receiver: Receiver, kept: KeptAlarm, state: int) -> int:
    """Whether this process is to tell a receiver of an alarm now: one more than what was told, else 0.

    Another process that claimed it has two minutes to tell, then it may have died.
    """
    table, now = schema.notices, int(time.time())
    found = connection.execute(select(table).where(*_row(receiver, kept))).first()
    told = found.told if found else 0
    if told >= state and not (receiver.repeats and state == _STARTED):
        return 0
    if not told and kept.ended is not None and kept.ended < now - _OLD:
        return 0  # long over when this receiver was added
    if found is None:
        key = {"alarm_id": kept.id, "receiver": receiver.name}
        connection.execute(insert(table).values(**key, told=0, claimed=now))
    elif now - found.claimed < _CLAIM:
        return 0
    else:
        connection.execute(update(table).where(*_row(receiver, kept)).values(claimed=now))
    return int(told) + 1


def _row(receiver: Receiver, kept: KeptAlarm) -> tuple[ColumnElement[bool], ...]:
    table = schema.notices.c
    return table.alarm_id == kept.id, table.receiver == receiver.name
