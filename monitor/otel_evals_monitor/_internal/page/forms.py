"""Requests that change data: labels and draws from forms, feedback from applications as JSON."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from otel_evals.errors import ConfigError, OtelEvalsError
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.templates import render
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.label_draws import draw
from otel_evals_monitor._internal.store.labels import add_feedback, add_label

DRAWN = 8
"""Number of runs of a draw."""
_LARGEST = 64 * 1024


class Forms:
    """Endpoints that change data."""

    def __init__(self, database: Database, access: Access) -> None:
        self._database = database
        self._access = access

    async def label(self, request: Request) -> Response:
        """Store a label from the form on a run's page."""
        try:
            form = await _form(request)
            if self._access.forged(request, form.get("csrf", "")):
                return self._refused()
            label, id = number_of(form.get("label", ""), "label"), form.get("evaluation_id", "")
            await run_in_threadpool(add_label, self._database, id, label, expected=form.get("expected"))
        except OtelEvalsError as error:
            status = 400 if isinstance(error, ConfigError) else 503
            return message("Not saved", str(error), self._database.name, status)
        return RedirectResponse(f"/runs/{quote(form.get('trace_id', ''), safe='')}?saved=1", 303)

    async def draw(self, request: Request) -> Response:
        """Draw runs to label, from the form on the label queue."""
        try:
            form = await _form(request)
            if self._access.forged(request, form.get("csrf", "")):
                return self._refused()
            await run_in_threadpool(draw, self._database, DRAWN)
        except OtelEvalsError as error:
            status = 400 if isinstance(error, ConfigError) else 503
            return message("Not drawn", str(error), self._database.name, status)
        return RedirectResponse("/labels", 303)

    async def feedback(self, request: Request) -> Response:
        """Store an application's feedback: JSON, which a browser's form cannot send."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return JSONResponse({"error": "Content-Type must be application/json"}, 415)
        try:
            given = json.loads(await _body(request))
            names, value = ("name", "comment", "source"), given["value"]
            known = {name: given[name] for name in names if given.get(name) is not None}
            texts = all(isinstance(each, str) for each in known.values())
            if not texts or not isinstance(value, bool | int | float):
                raise TypeError("value must be a number, true or false, and other fields must be strings")
            await run_in_threadpool(add_feedback, self._database, str(given["trace_id"]), value, **known)
        except OtelEvalsError as error:
            return JSONResponse({"error": str(error)}, 400 if isinstance(error, ConfigError) else 503)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            return JSONResponse({"error": f"must be an object with trace_id and value: {error}"}, 400)
        return JSONResponse({"kept": True}, 201)

    def _refused(self) -> HTMLResponse:
        text = "The form is out of date: go back, reload and send it again."
        return message("Refused", text, self._database.name, 403)


def message(title: str, text: str, source: str, status: int) -> HTMLResponse:
    """Return a page with a message."""
    return HTMLResponse(render("message.html", title=title, text=text, source=source), status)


def number_of(text: str, field: str) -> float:
    """Parse a number from a form or an address; raises ConfigError with the field's name."""
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        raise ConfigError(field, f"{text!r:.100} is not a number") from None
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
