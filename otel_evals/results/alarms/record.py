"""Keeps alarms in the store, from their start to their end, and tells webhooks of each once."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import select, update

from otel_evals.errors import ConfigError
from otel_evals.results.alarms.monitors import Alarm, AlarmSettings, find_alarms
from otel_evals.results.store import schema
from otel_evals.results.store.database import Database

__all__ = ["KeptAlarm", "Webhook", "alarms_of", "check_now", "keep_alarms", "tell"]

_STARTED, _ENDED = 1, 2


@dataclass(frozen=True, slots=True)
class KeptAlarm:
    """An alarm on record."""

    id: int
    alarm: Alarm
    ended: int | None
    """When there was no reason for it any more; None while there is."""
    told: int
    """0 before anyone was told, 1 after its start, 2 after its end."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where alarms are sent."""

    url: str
    slack: bool = False
    """Send the form that Slack and its likes understand, instead of all fields as JSON."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ConfigError("--webhook", f"{self.url!r} must begin with http:// or https://")


def check_now(database: Database, settings: AlarmSettings, webhook: Webhook | None) -> list[str]:
    """Look for alarms, put them on record, and tell the webhook; returns what went wrong with telling.

    Raises:
        StoreError: the store cannot be used.
    """
    now = time.time()
    keep_alarms(database, find_alarms(database, settings, now), now)
    return tell(database, webhook) if webhook else []


def keep_alarms(database: Database, found: Sequence[Alarm], now: float) -> list[KeptAlarm]:
    """Put new alarms on record, and end those that are no longer found; returns those that last.

    Raises:
        StoreError: the store cannot be written.
    """
    table = schema.alarms
    current = {alarm.monitor: alarm for alarm in found}
    with database.writing() as connection:
        lasting = connection.execute(select(table).where(table.c.ended.is_(None))).mappings().all()
        for row in lasting:
            if row["monitor"] in current:
                changed: dict[str, Any] = {"details": json.dumps(asdict(current.pop(row["monitor"])))}
            else:
                changed = {"ended": int(now)}
            connection.execute(update(table).where(table.c.id == row["id"]).values(**changed))
        for alarm in current.values():
            values = {"monitor": alarm.monitor, "since": alarm.since, "raised": alarm.raised, "told": 0}
            connection.execute(table.insert().values(**values, details=json.dumps(asdict(alarm))))
    return [each for each in alarms_of(database) if each.ended is None]


def alarms_of(database: Database, most: int = 200) -> list[KeptAlarm]:
    """Alarms on record: those that last first, then the newest."""
    table = schema.alarms
    order = (table.c.ended.is_not(None), table.c.since.desc())
    with database.reading() as connection:
        rows = connection.execute(select(table).order_by(*order).limit(most)).mappings().all()
    return [_kept(row) for row in rows]


def tell(database: Database, webhook: Webhook, timeout: float = 10.0) -> list[str]:
    """Send what was not sent yet: the start of each alarm, and its end; what fails, with the next call.

    Returns:
        What went wrong, one sentence for each alarm that could not be sent.
    """
    problems = []
    for each in alarms_of(database):
        state = _STARTED if each.ended is None else _ENDED
        if each.told >= state:
            continue
        try:
            _post(webhook, each, timeout)
        except (OSError, ValueError) as error:
            problems.append(f"{webhook.url}: {error}")
            continue
        with database.writing() as connection:
            chosen = schema.alarms.c.id == each.id
            connection.execute(update(schema.alarms).where(chosen).values(told=state))
    return problems


def _post(webhook: Webhook, each: KeptAlarm, timeout: float) -> None:
    state = "started" if each.ended is None else "ended"
    body: dict[str, Any] = {"state": state, "ended": each.ended, **asdict(each.alarm)}
    if webhook.slack:
        name = f"{each.alarm.scorer_id} {each.alarm.agent_name}".strip()
        body = {"text": f"{each.alarm.kind} alarm {state}: {name}: {each.alarm.text}"}
    data = json.dumps(body).encode()
    request = urllib.request.Request(webhook.url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as response:
        response.read(1)


def _kept(row: Any) -> KeptAlarm:
    details = json.loads(row["details"])
    alarm = Alarm(**{**details, "trace_ids": tuple(details["trace_ids"])})
    return KeptAlarm(row["id"], alarm, row["ended"], row["told"])
