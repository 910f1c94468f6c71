"""What people send to the page: labels by its forms, and feedback by applications as JSON."""

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
"""How many runs a draw takes."""
_LARGEST = 64 * 1024


class Forms:
    """The endpoints that change something."""

    def __init__(self, database: Database, access: Access) -> None:
        self._database = database
        self._access = access

    async def label(self, request: Request) -> Response:
        """A label, from the form on a run's page."""
        form = await _form(request)
        if self._access.forged(request, form.get("csrf", "")):
            return self._message(
                "Refused", "The form is out of date: go back, reload and send it again.", 403
            )
        try:
            label = number_of(form.get("label", ""), "label")
            await run_in_threadpool(
                add_label,
                self._database,
                form.get("evaluation_id", ""),
                label,
                expected=form.get("expected"),
            )
        except OtelEvalsError as error:
            return self._message("Not saved", str(error), 400)
        return RedirectResponse(f"/runs/{quote(form.get('trace_id', ''), safe='')}?saved=1", 303)

    async def draw(self, request: Request) -> Response:
        """A draw of runs to label, from the form on the label queue."""
        form = await _form(request)
        if self._access.forged(request, form.get("csrf", "")):
            return self._message(
                "Refused", "The form is out of date: go back, reload and send it again.", 403
            )
        try:
            await run_in_threadpool(draw, self._database, DRAWN)
        except OtelEvalsError as error:
            return self._message("Not drawn", str(error), 503)
        return RedirectResponse("/labels", 303)

    async def feedback(self, request: Request) -> Response:
        """Feedback of an application: JSON with `trace_id` and `value`. A browser's form cannot send JSON."""
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return JSONResponse({"error": "Content-Type must be application/json"}, 415)
        try:
            given = json.loads(await _body(request))
            known = {
                name: given[name] for name in ("name", "comment", "source") if given.get(name) is not None
            }
            value = given["value"]
            if not isinstance(value, bool | int | float) or not all(
                isinstance(v, str) for v in known.values()
            ):
                raise TypeError("value must be a number or true or false, and other fields texts")
            await run_in_threadpool(add_feedback, self._database, str(given["trace_id"]), value, **known)
        except OtelEvalsError as error:
            return JSONResponse({"error": str(error)}, 400 if isinstance(error, ConfigError) else 503)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            return JSONResponse({"error": f"must be an object with trace_id and value: {error}"}, 400)
        return JSONResponse({"kept": True}, 201)

    def _message(self, title: str, text: str, status: int) -> HTMLResponse:
        return message(title, text, self._database.name, status)


def message(title: str, text: str, source: str, status: int) -> HTMLResponse:
    """A page that says what is wrong."""
    return HTMLResponse(render("message.html", title=title, text=text, source=source), status)


def number_of(text: str, field: str) -> float:
    """A number that someone typed, or that stands in an address.

    Raises:
        ConfigError: it is none; names the field.
    """
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        raise ConfigError(field, f"{text!r} is no number") from None
    if not abs(number) < 1e15:
        raise ConfigError(field, f"{text!r} is no number that can be used")
    return number


async def _form(request: Request) -> dict[str, str]:
    fields = parse_qs((await _body(request)).decode("utf-8", "replace"), max_num_fields=20)
    return {name: values[0] for name, values in fields.items()}


async def _body(request: Request) -> bytes:
    """The body, of which no more than a form's size is read."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST:
            raise ConfigError("body", "is too large")
    return body
