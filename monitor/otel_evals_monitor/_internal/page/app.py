"""The web page of a results store: scorers, runs and the label queue, kept up to date."""

from __future__ import annotations

import shlex
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import uvicorn
from sqlalchemy import func, select
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from otel_evals.errors import ConfigError, OtelEvalsError
from otel_evals.sdk.commands import echo, trace_link
from otel_evals_monitor._internal.alarms.check import AlarmCheck
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.receivers import Receiver
from otel_evals_monitor._internal.alarms.record import Incident, alarms_of, incidents_of, lasting_alarms
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.asked import PAGE_SIZE, WINDOWS, Asked
from otel_evals_monitor._internal.page.forms import Forms, message
from otel_evals_monitor._internal.page.overview import causes_in, overview
from otel_evals_monitor._internal.page.run_view import RunView, chosen_of
from otel_evals_monitor._internal.page.scorer_page import scorer_page
from otel_evals_monitor._internal.page.templates import ICON, SCRIPT, STYLE, render
from otel_evals_monitor._internal.report.inputs import TraceLink
from otel_evals_monitor._internal.report.runs import (
    RecordedRun,
    RunOfSlice,
    find_runs,
    label_queue,
    recent_runs,
    runs_of_slices,
)
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.labels import (
    failure_types,
    feedback_on,
    labels_on,
    number_of_labels,
)
from otel_evals_monitor._internal.store.queries import stored_slices, time_range
from otel_evals_monitor._internal.store.rows import STATUSES

_FILES = {
    "/style.css": (STYLE, "text/css"),
    "/page.js": (SCRIPT, "text/javascript"),
    "/icon.svg": (ICON, "image/svg+xml"),
}


class Page:
    def __init__(
        self,
        database: Database,
        *,
        access: Access,
        limits: AlarmLimits | None = None,
        link: TraceLink | None = None,
        receivers: Sequence[Receiver] = (),
    ) -> None:
        self._database = database
        self._access = access
        self._limits = limits or AlarmLimits()
        self._link = link or TraceLink()
        self.alarm_check = AlarmCheck(database, self._limits, receivers)
        self._causes = causes_in(database)
        forms = Forms(database, access, self.alarm_check)
        routes = [
            Route("/", self._page(self._overview)),
            Route("/scorer", self._page(self._scorer)),
            Route("/runs", self._page(self._runs)),
            Route("/runs/{trace_id}", self._page(self._run)),
            Route("/alarms", forms.alarm, methods=["POST"]),
            Route("/labels", self._page(self._labels)),
            Route("/labels", forms.label, methods=["POST"]),
            Route("/feedback", forms.feedback, methods=["POST"]),
            Route("/pulse", self._pulse),
            *(Route(path, _file(*file)) for path, file in _FILES.items()),
        ]
        self.app = Starlette(
            routes=routes,
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=access)],
            exception_handlers={OtelEvalsError: self._failed},
        )

    def _page(self, view: Callable[[Request], str]) -> Callable[[Request], Any]:
        """Return an endpoint that runs a view in a thread."""

        async def endpoint(request: Request) -> Response:
            return HTMLResponse(await run_in_threadpool(view, request))

        return endpoint

    async def _pulse(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(pulse_of, self._database))

    async def _failed(self, request: Request, error: Exception) -> Response:
        """Answer a request for something unknown or impossible, or while the store cannot be used."""
        status, title = 503, "The store cannot be used"
        if isinstance(error, ConfigError):
            status, title = (404, "Not found") if request.method == "GET" else (400, "Not saved")
        if request.url.path in ("/pulse", "/feedback"):
            return JSONResponse({"error": str(error)}, status)
        return message(title, str(error), self._database.name, status)

    def _incidents(self) -> list[Incident]:
        """Return the incidents that have not ended, the newest first."""
        return incidents_of(lasting_alarms(self._database))

    def _render(self, template: str, asked: Asked, incidents: Sequence[Incident], **values: Any) -> str:
        with self._database.reading() as connection:
            recorded = time_range(connection)
        return render(
            template,
            source=self._database.name,
            lasting=len(incidents),
            link=self._link,
            script=True,
            zone=asked.zone,
            csrf=self._access.csrf,
            asked=asked,
            incidents=incidents,
            causes=self._causes,
            windows=WINDOWS,
            recorded=recorded,
            **values,
        )

    def _overview(self, request: Request) -> str:
        asked, incidents = Asked.of(request), self._incidents()
        window = asked.window(self._database)
        rows, notes = overview(self._database, window, incidents, self.alarm_check)
        ended = [each for each in alarms_of(self._database) if each.ended is not None]
        values = {"rows": rows, "notes": notes, "ended": ended, "limits": self._limits}
        return self._render("overview.html", asked, incidents, **values, check=self.alarm_check)

    def _scorer(self, request: Request) -> str:
        asked, incidents = Asked.of(request), self._incidents()
        key = asked["scorer"], asked["agent"]
        values = scorer_page(self._database, asked, self._limits, self.alarm_check.found.states.get(key))
        mine = [i for i in incidents if key in {(each.scorer_id, each.agent_name) for each in i.alarms}]
        return self._render("scorer.html", asked, incidents, mine=mine, link_to=self._link, **values)

    def _runs(self, request: Request) -> str:
        asked, incidents = Asked.of(request), self._incidents()
        window = asked.window(self._database, "all")
        order = "worst" if asked["scorer"] and asked["order"] == "worst" else "newest"
        chosen: dict[str, Any] = {"runs": asked.runs, "status": asked["status"]}
        chosen["skip"] = (asked.page - 1) * PAGE_SIZE
        runs: Sequence[RunOfSlice | RecordedRun]
        with self._database.reading() as connection:
            if asked["scorer"]:
                slices = stored_slices(connection, **asked.columns)
                # One more than a page has, to know if another page follows.
                runs = runs_of_slices(connection, slices, window, PAGE_SIZE + 1, order=order, **chosen)
            else:
                runs = recent_runs(connection, window, PAGE_SIZE + 1, wanted=asked.of_run, **chosen)
        return self._render(
            "runs.html",
            asked,
            incidents,
            runs=runs[:PAGE_SIZE],
            more=len(runs) > PAGE_SIZE,
            window=window,
            order=order,
            size=PAGE_SIZE,
            statuses=STATUSES,
        )

    def _run(self, request: Request) -> str:
        asked = Asked.of(request)
        trace_id = request.path_params["trace_id"]
        with self._database.reading() as connection:
            runs = find_runs(connection, trace_id)
        if not runs:
            raise ConfigError("trace", f"{trace_id!r} is not on record; it may have been deleted")
        chosen = chosen_of(runs, asked["score"])
        links = [self._link.to(SimpleNamespace(**{**run.columns, "time": run.time})) for run in runs]
        views = [RunView(run, link, chosen) for run, link in zip(runs, links, strict=True)]
        return self._render(
            "run.html",
            asked,
            self._incidents(),
            trace_id=trace_id,
            views=views,
            chosen=chosen,
            labels=labels_on(self._database, trace_id),
            failure_types=failure_types(self._database),
            feedback=feedback_on(self._database, trace_id),
            command=f"otel-evals export {shlex.quote(self._database.name)} --trace {shlex.quote(trace_id)}"
            " --pytest test_run.py",
        )

    def _labels(self, request: Request) -> str:
        asked, incidents = Asked.of(request), self._incidents()
        with self._database.reading() as connection:
            queues = label_queue(connection, stored_slices(connection))
        labelled = number_of_labels(self._database)
        return self._render("labels.html", asked, incidents, queues=queues, labelled=labelled)


def _file(text: str, media_type: str) -> Callable[[Request], Response]:
    return lambda request: Response(text, media_type=media_type)


def pulse_of(database: Database) -> dict[str, Any]:
    """Return the newest evaluation, the number of runs of the last hour, and the alarms."""
    newest, runs = select(func.max(schema.evaluations.c.id)), schema.runs.c
    now = time.time_ns()
    recent = select(func.count(runs.id)).where(runs.time > now - schema.HOUR * schema.NANO, runs.time <= now)
    with database.reading() as connection:
        last = connection.execute(newest).scalar() or 0
        count = connection.execute(recent).scalar_one()
    alarms = [each.id for each in lasting_alarms(database)]
    return {"newest": last, "hour": count, "alarms": alarms}


def serve(
    database: Database,
    limits: AlarmLimits,
    receivers: Sequence[Receiver] = (),
    *,
    link: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    browser: bool = False,
) -> None:
    page = Page(
        database,
        access=Access(token, host),
        limits=limits,
        link=TraceLink.parse(trace_link(link)),
        receivers=receivers,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise ConfigError("--port", f"cannot listen on {host}:{port}: {error}; give another") from None
    with listening:
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}/"
        page.alarm_check.run_once()  # the first view already shows alarms
        echo(f"The page is at {address}  (Ctrl-C ends it)")
        ended = threading.Event()
        threading.Thread(target=_check_until, args=(page.alarm_check, ended), daemon=True).start()
        if browser:
            webbrowser.open(address)
        server = uvicorn.Server(uvicorn.Config(page.app, log_level="warning", access_log=False))
        try:
            server.run(sockets=[listening])
        finally:
            ended.set()


def _check_until(check: AlarmCheck, ended: threading.Event) -> None:
    while not ended.wait(60.0):
        # Less than the wait, since a thread that wakes slightly early would skip its turn.
        check.run_once(54.0)
