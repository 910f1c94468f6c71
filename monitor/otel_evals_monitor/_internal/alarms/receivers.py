"""Receivers of alarm notifications: webhooks, Slack, Alertmanager."""

from __future__ import annotations

import hashlib
import html
import json
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import urlencode, urlsplit

from otel_evals_monitor._internal.report.words import timestamp

if TYPE_CHECKING:
    from otel_evals_monitor._internal.alarms.record import Alarm

_SECONDS = 10.0
_SLACK_PLAIN = {"mrkdwn": False, "parse": "none", "unfurl_links": False, "unfurl_media": False}
"""Slack formats no names, turns no text into links, and fetches no address."""


class Receiver(Protocol):
    @property
    def name(self) -> str:
        """Name in the store, which must not contain the address; each notification reaches a name once."""

    @property
    def shown(self) -> str:
        """Name in messages: the address without its path, which may be a secret."""

    @property
    def repeats(self) -> bool:
        """True to repeat notifications of a lasting alarm with every check."""

    def notify(self, alarm: Alarm) -> None:
        """Notify of an alarm's start or end; after any exception, the next check retries it."""


@dataclass(frozen=True, slots=True)
class HttpReceiver:
    """A server that hears of alarms by POST.

    Alertmanager (version 2 of the API) resolves an alert that is not sent again, so a lasting alarm is sent
    to it with every check.
    """

    url: str
    form: Literal["webhook", "slack", "alertmanager"] = "webhook"
    page: str | None = None
    """Address of the page, for links."""
    lasts: float = 600.0
    """Seconds until an Alertmanager's alert ends unless it is sent again: several checks."""

    @property
    def name(self) -> str:
        return f"{self.form} {hashlib.blake2b(self.url.encode(), digest_size=8).hexdigest()}"

    @property
    def shown(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def repeats(self) -> bool:
        return self.form == "alertmanager"

    def notify(self, alarm: Alarm) -> None:
        if self.form == "webhook":
            _post(self.url, notification(alarm, self.page))
        elif self.form == "slack":
            _post(self.url, {"text": _slack_text(alarm, self.page), **_SLACK_PLAIN})
        else:
            # The option takes the base URL, and the full address of the alerts as well.
            base = self.url.rstrip("/").removesuffix("/api/v2/alerts")
            _post(f"{base}/api/v2/alerts", [_alert(alarm, self.page, self.lasts)])


def notification(alarm: Alarm, page: str | None) -> dict[str, Any]:
    """Return what a webhook receives, as described in docs/monitoring.md."""
    same = ("state", "severity", "kind", "monitor", "before", "now", "evidence")
    texts = ("text", "evidence_text", "next_step")
    return {
        "version": 1,
        **{name: getattr(alarm, name) for name in (*same, *texts)},
        "scorer": alarm.scorer_id,
        "agent": alarm.agent_name or None,
        "agent_version": alarm.version or None,
        "since": timestamp(alarm.since),
        "raised": timestamp(alarm.raised),
        "ended": timestamp(alarm.ended),
        "trace_ids": list(alarm.trace_ids),
        "link": _link(alarm, page),
    }


def _link(alarm: Alarm, page: str | None) -> str | None:
    if page is None:
        return None
    # The `scorer_id` of these is a rule or a service, and neither has a page.
    if alarm.kind in ("sampler", "silence"):
        return f"{page.rstrip('/')}/"
    return f"{page.rstrip('/')}/scorer?{urlencode({'scorer': alarm.scorer_id, 'agent': alarm.agent_name})}"


def _slack_text(alarm: Alarm, page: str | None) -> str:
    """Return a message in Slack's format, in which names and texts cannot make links or mentions."""
    link = _link(alarm, page)
    name = f"{alarm.scorer_id} {alarm.agent_name}".strip()
    todo = f". {alarm.next_step}." if alarm.ended is None else ""
    # Slack decodes only &, < and >, so quotes stay as they are.
    text = html.escape(f"{alarm.kind} alarm {alarm.state}: {name}: {alarm.text}{todo}", quote=False)
    return f"{text} <{link}|Open the page>" if link else text


def _alert(alarm: Alarm, page: str | None, lasts: float) -> dict[str, Any]:
    """Return an alert of Alertmanager's API."""
    # Alertmanager resolves an alert whose `endsAt` is in the past.
    until = time.time() + lasts if alarm.ended is None else alarm.ended
    # Alertmanager identifies an alert by its labels, so none may change while the alarm lasts.
    labels = {
        "alertname": f"OtelEvals{alarm.kind.capitalize()}",
        "monitor": alarm.monitor,
        "gen_ai_evaluation_name": alarm.scorer_id,
        "gen_ai_agent_name": alarm.agent_name,
        "severity": alarm.severity,
    }
    annotations = {
        "summary": alarm.text,
        "evidence": alarm.evidence_text,
        "traces": " ".join(alarm.trace_ids),
        "description": alarm.next_step,
    }
    alert: dict[str, Any] = {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": timestamp(alarm.since),
        "endsAt": timestamp(until),
    }
    link = _link(alarm, page)
    return alert | ({"generatorURL": link} if link else {})


def _post(url: str, body: Mapping[str, Any] | Sequence[Any]) -> None:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    _opener.open(request, timeout=_SECONDS).close()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes redirects errors: urllib would follow them with a GET, which drops the notification."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)
