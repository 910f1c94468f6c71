"""Requests that change data: labels from forms, feedback from applications as JSON."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.alarms.check import AlarmCheck
from otel_evals_monitor._internal.alarms.record import acknowledge, lasting_alarms
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.templates import render
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.labels import add_feedback, add_label

_LARGEST = 64 * 1024
_MONITORS = TypeAdapter(list[str])


class _Feedback(BaseModel, strict=True):
    trace_id: str
    value: bool | float
    name: str | None = None
    comment: str | None = None
    source: str | None = None


class Forms:
    def __init__(self, database: Database, access: Access, check: AlarmCheck) -> None:
        self._database = database
        self._access = access
        self._check = check
        self.label = self._changing(self._label)
        self.alarm = self._changing(self._alarm)

    def _changing(self, change: Callable[[Mapping[str, str]], str]) -> Callable[[Request], Any]:
        """Return an endpoint that makes a change from a form, and goes to the page that it names."""

        async def endpoint(request: Request) -> Response:
            form = await _form(request)
            if self._access.forged(request, form.get("csrf", "")):
                text = "The form is out of date: go back, reload and send it again."
                return message("Refused", text, self._database.name, 403)
            return RedirectResponse(await run_in_threadpool(change, form), 303)

        return endpoint

    def _label(self, form: Mapping[str, str]) -> str:
        """Store a label from the form on a run's page."""
        id, given = form.get("evaluation_id", ""), form.get("label", "").strip()
        add_label(
            self._database,
            id,
            number_of(given, "label") if given else None,
            verdict=form.get("verdict") or None,
            failure_type=form.get("failure_type"),
            expected=form.get("expected"),
        )
        chosen = urlencode({"saved": 1, "score": id})
        return f"/runs/{quote(form.get('trace_id', ''), safe='')}?{chosen}#label"

    def _alarm(self, form: Mapping[str, str]) -> str:
        """Acknowledge the alarms of an incident, from the form on its card."""
        try:
            shown = _MONITORS.validate_json(form.get("monitors", ""))
        except ValidationError as error:
            raise ConfigError("monitors", str(error)) from None
        # Some may have ended since the page was loaded.
        monitors = [each.monitor for each in lasting_alarms(self._database) if each.monitor in shown]
        if not monitors:
            raise ConfigError("alarm", "has ended")
        note, now = form.get("note", ""), time.time()
        for monitor in monitors:
            acknowledge(self._database, monitor, now, note)
        # Ends the acknowledged alarms, so the next page does not show them.
        self._check.run_once()
        return "/"

    async def feedback(self, request: Request) -> Response:
        """Store an application's feedback: JSON, which a browser's form cannot send."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return JSONResponse({"error": "Content-Type must be application/json"}, 415)
        try:
            given = _Feedback.model_validate_json(await _body(request)).model_dump(exclude_none=True)
        except ValidationError as error:
            return JSONResponse({"error": f"must be an object with trace_id and value: {error}"}, 400)
        await run_in_threadpool(add_feedback, self._database, **given)
        return JSONResponse({"kept": True}, 201)


def message(title: str, text: str, source: str, status: int) -> HTMLResponse:
    return HTMLResponse(render("message.html", title=title, text=text, source=source), status)


def number_of(text: str, field: str) -> float:
    """Parse a number from a form or an address; raises ConfigError with the field's name."""
    try:
        # Many languages write a decimal comma.
        number = float(text.replace(",", "."))
    except ValueError:
        raise ConfigError(field, f"{text!r:.100} is not a number") from None
    # Negated, since a comparison with NaN is false.
    if not abs(number) < 1e15:
        raise ConfigError(field, f"{text!r:.100} is too large")
    return number


async def _form(request: Request) -> dict[str, str]:
    text = (await _body(request)).decode("utf-8", "replace")
    try:
        fields = parse_qs(text, max_num_fields=20)
    except ValueError as error:
        raise ConfigError("form", f"cannot be read: {error}") from None
    return {name: values[0] for name, values in fields.items()}


async def _body(request: Request) -> bytes:
    """Read the body, up to 64 KiB."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST:
            raise ConfigError("body", "is too large")
    return body
