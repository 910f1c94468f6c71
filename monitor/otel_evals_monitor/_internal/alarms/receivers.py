"""Receivers of alarm notifications: webhooks, Slack, Alertmanager."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from otel_evals_monitor._internal.alarms.alarm_record import KeptAlarm

_SECONDS = 10.0


class Receiver(Protocol):
    @property
    def name(self) -> str:
        """Address; each notification reaches a name once, from any number of processes."""

    @property
    def repeats(self) -> bool:
        """True to repeat notifications of a lasting alarm with every check."""

    def notify(self, kept: KeptAlarm) -> None:
        """Notify of an alarm's start or end; after any exception, the next check retries it."""


@dataclass(frozen=True, slots=True)
class Webhook:
    url: str
    slack: bool = False
    """Send Slack's format instead of all fields as JSON."""
    repeats: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return self.url

    def notify(self, kept: KeptAlarm) -> None:
        state = "started" if kept.ended is None else "ended"
        words = {"evidence_text": kept.alarm.evidence_text, "next_step": kept.alarm.next_step}
        body: dict[str, Any] = {"state": state, "ended": kept.ended, **asdict(kept.alarm), **words}
        if self.slack:
            name = f"{kept.alarm.scorer_id} {kept.alarm.agent_name}".strip()
            todo = f". {kept.alarm.next_step}." if kept.ended is None else ""
            body = {"text": f"{kept.alarm.kind} alarm {state}: {name}: {kept.alarm.text}{todo}"}
        _post(self.url, body)


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """An Alertmanager with version 2 of the API.

    Alertmanager resolves an alert that is not sent again, so a lasting alarm is sent with every check.
    """

    url: str
    lasts: float = 600.0
    """Seconds until an alert ends unless it is sent again: several checks."""
    repeats: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return f"{self.url.rstrip('/').removesuffix('/api/v2/alerts')}/api/v2/alerts"

    def notify(self, kept: KeptAlarm) -> None:
        alarm = kept.alarm
        until = kept.ended if kept.ended is not None else time.time() + self.lasts
        labels = {
            "alertname": f"OtelEvals{alarm.kind.capitalize()}",
            "monitor": alarm.monitor,
            "gen_ai_evaluation_name": alarm.scorer_id,
            "gen_ai_agent_name": alarm.agent_name,
            "severity": "warning",
        }
        traces = " ".join(alarm.trace_ids)
        annotations = {"summary": alarm.text, "evidence": alarm.evidence_text, "traces": traces}
        annotations["description"] = alarm.next_step
        alert = {
            "labels": {name: value for name, value in labels.items() if value},
            "annotations": {name: value for name, value in annotations.items() if value},
            "startsAt": _timestamp(alarm.since),
            "endsAt": _timestamp(until),
        }
        _post(self.name, [alert])


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _post(url: str, body: Mapping[str, Any] | Sequence[Any]) -> None:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with _opener.open(request, timeout=_SECONDS) as response:
        response.read(1)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes redirects errors: urllib would follow them with a GET, which drops the notification."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)
