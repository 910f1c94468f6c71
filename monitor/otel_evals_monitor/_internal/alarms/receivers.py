"""Whom alarms are told to: webhooks, Slack, Alertmanager."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.alarms.alarm_record import KeptAlarm

_SECONDS = 10.0


class Receiver(Protocol):
    """Whom alarms are told to."""

    @property
    def name(self) -> str:
        """Its address. What is told to one name, by whichever process, is told once."""

    @property
    def repeats(self) -> bool:
        """Whether an alarm that lasts is told with every check."""

    def tell(self, kept: KeptAlarm) -> None:
        """Tell of an alarm's start, or of its end if it has ended.

        Raises:
            Exception: it was not told; it will be with the next check.
        """


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that is sent each alarm's start and end."""

    url: str
    slack: bool = False
    """Send the form that Slack and its likes understand, instead of all fields as JSON."""

    def __post_init__(self) -> None:
        _check_url("--webhook", self.url)

    @property
    def name(self) -> str:
        """Its address."""
        return self.url

    @property
    def repeats(self) -> bool:
        """Never."""
        return False

    def tell(self, kept: KeptAlarm) -> None:
        """Post the alarm."""
        state = "started" if kept.ended is None else "ended"
        body: dict[str, Any] = {"state": state, "ended": kept.ended, **asdict(kept.alarm)}
        if self.slack:
            name = f"{kept.alarm.scorer_id} {kept.alarm.agent_name}".strip()
            body = {"text": f"{kept.alarm.kind} alarm {state}: {name}: {kept.alarm.text}"}
        _post(self.url, body)


@dataclass(frozen=True, slots=True)
class Alertmanager:
    """An Alertmanager, by its API of version 2.

    It forgets an alert that is not sent again; so a lasting alarm is sent with every check, with a time until
    which it lasts if nothing more is heard.
    """

    url: str
    lasts: float = 600.0
    """Seconds until it takes an alarm for ended of which it hears no more: several checks."""

    def __post_init__(self) -> None:
        _check_url("--alertmanager", self.url)

    @property
    def name(self) -> str:
        """The address of its alerts."""
        return f"{self.url.rstrip('/').removesuffix('/api/v2/alerts')}/api/v2/alerts"

    @property
    def repeats(self) -> bool:
        """Always."""
        return True

    def tell(self, kept: KeptAlarm) -> None:
        """Post the alert, and its end."""
        alarm = kept.alarm
        until = kept.ended if kept.ended is not None else time.time() + self.lasts
        labels = {
            "alertname": f"OtelEvals{alarm.kind.capitalize()}",
            "monitor": alarm.monitor,
            "gen_ai_evaluation_name": alarm.scorer_id,
            "gen_ai_agent_name": alarm.agent_name,
            "severity": "warning",
        }
        told = {
            "summary": alarm.text,
            "evidence": alarm.evidence_told,
            "traces": " ".join(alarm.trace_ids),
        }
        alert = {
            "labels": {name: value for name, value in labels.items() if value},
            "annotations": {name: value for name, value in told.items() if value},
            "startsAt": _timestamp(alarm.since),
            "endsAt": _timestamp(until),
        }
        _post(self.name, [alert])


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _check_url(option: str, url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise ConfigError(option, f"{url!r} must begin with http:// or https://")


def _post(url: str, body: Mapping[str, Any] | Sequence[Any]) -> None:
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=_SECONDS) as response:
        response.read(1)
