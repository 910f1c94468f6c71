"""The web page of a results store: scorers, runs, alarms and the label queue."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from otel_evals.errors import ConfigError, OtelEvalsError
from otel_evals_monitor._internal.alarms.alarm_record import alarms_of, lasting_alarms
from otel_evals_monitor._internal.alarms.check import AlarmCheck
from otel_evals_monitor._internal.alarms.monitors import AlarmSettings
from otel_evals_monitor._internal.alarms.receivers import Receiver
from otel_evals_monitor._internal.page.access import Access
from otel_evals_monitor._internal.page.detail import detail_of, summary_of
from otel_evals_monitor._internal.page.forms import DRAWN, Forms, message, number_of
from otel_evals_monitor._internal.page.templates import STYLE, render
from otel_evals_monitor._internal.report.label_queue import agreement_of, label_queue
from otel_evals_monitor._internal.report.links import TraceLink
from otel_evals_monitor._internal.report.report import GROUPS, ReportOptions, make_report, sampler_checks
from otel_evals_monitor._internal.report.runs import find_runs, runs_of_slices
from otel_evals_monitor._internal.report.windows import window_of
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.label_draws import waiting_for_draw
from otel_evals_monitor._internal.store.labels import feedback_on, labels_on, number_of_labels
from otel_evals_monitor._internal.store.queries import (
    Window,
    matching,
    measure,
    series,
    stored_slices,
    time_range,
)

WINDOWS = {"": "all", "6h": "6 hours", "24h": "24 hours", "2d": "2 days", "7d": "7 days", "4w": "4 weeks"}
_MOST = 100


class Page:
    """The page and its check for alarms."""

    def __init__(
        self,
        database: Database,
        *,
        access: Access,
        settings: AlarmSettings | None = None,
        link: TraceLink | None = None,
        receivers: Sequence[Receiver] = (),
    ) -> None:
        self._database = database
        self._access = access
        self._settings = settings or AlarmSettings()
        self._link = link or TraceLink()
        self.alarm_check = AlarmCheck(database, self._settings, receivers)
        forms = Forms(database, access)
        routes = [
            Route("/", self._page(self._overview)),
            Route("/scorer", self._page(self._scorer)),
            Route("/runs", self._page(self._runs)),
            Route("/runs/{trace_id}", self._page(self._run)),
            Route("/alarms", self._page(self._alarms)),
            Route("/labels", self._page(self._labels)),
            Route("/labels", forms.label, methods=["POST"]),
            Route("/labels/draw", forms.draw, methods=["POST"]),
            Route("/feedback", forms.feedback, methods=["POST"]),
            Route("/style.css", lambda request: Response(STYLE, media_type="text/css")),
        ]
        self.app = Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=access)])

    def _page(self, view: Callable[[Request], str]) -> Callable[[Request], Any]:
        """Return an endpoint that runs a view in a thread, with errors as pages."""

        async def endpoint(request: Request) -> Response:
            try:
                return HTMLResponse(await run_in_threadpool(view, request))
            except ConfigError as error:
                return message("Not found", str(error), self._database.name, 404)
            except OtelEvalsError as error:
                return message("The store cannot be read", str(error), self._database.name, 503)

        return endpoint

    def _render(self, template: str, **values: Any) -> str:
        lasting = len(lasting_alarms(self._database))
        return render(template, source=self._database.name, lasting=lasting, link=self._link, **values)

    def _overview(self, request: Request) -> str:
        cards = []
        with self._database.reading() as connection:
            recorded, slices = time_range(connection), stored_slices(connection)
            pairs = sorted({(each["scorer_id"], each["agent_name"]) for each in slices.values()})
            for scorer, agent in pairs[:_MOST]:
                inside = matching(slices, {"scorer_id": scorer, "agent_name": agent})
                delay = self.alarm_check.delays.get((scorer, agent))
                if recorded and (found := summary_of(connection, inside, Window(), delay)):
                    row, sentence = found
                    href = "/scorer?" + urlencode({"scorer": scorer, "agent": agent})
                    cards.append({"row": row, "sentence": sentence, "href": href})
        alarms = lasting_alarms(self._database)
        return self._render("overview.html", cards=cards, recorded=recorded, alarms=alarms)

    def _scorer(self, request: Request) -> str:
        scorer, agent, length, by = (_asked(request, name) for name in ("scorer", "agent", "window", "by"))
        by = by or "version"
        window = window_of(self._database, None, None, length or None)
        only = {"scorer_id": scorer, "agent_name": agent}
        versions = make_report(
            self._database,
            ReportOptions(window=window, by=[by], only=only, against=self._older(only, by), worst=0),
        )
        with self._database.reading() as connection:
            recorded = time_range(connection)
            inside = stored_slices(connection, **only)
            if not inside or recorded is None:
                raise ConfigError("scorer", f"{scorer!r} of agent {agent!r} is not on record")
            ids = {"scorer": scorer, "agent": agent}
            found = detail_of(
                connection,
                inside,
                window,
                recorded,
                floor=self._settings.floors.get(scorer),
                href=lambda a, b: "/runs?" + urlencode({**ids, "since": a, "until": b}),
                delay=self.alarm_check.delays.get((scorer, agent)),
            )
            values: dict[str, Any] = {"row": None}
            if found:
                whole = measure(connection, inside, window, ())[()]
                values = {
                    **found,
                    "worst": runs_of_slices(connection, inside, window, 10, order="worst"),
                    "sampler": sampler_checks(connection, inside, window),
                    "agreement": agreement_of(connection, inside, window, whole, found["row"]),
                    "more": "/runs?" + urlencode(ids),
                }
        lasting = lasting_alarms(self._database)
        mine = [k for k in lasting if (k.alarm.scorer_id, k.alarm.agent_name) == (scorer, agent)]
        return self._render(
            "scorer.html",
            **values,
            **ids,
            alarms=mine,
            length=length,
            windows=WINDOWS.items(),
            by=by,
            groups=list(GROUPS),
            rows=versions.slices,
            columns=list(dict.fromkeys([GROUPS.get(by, "agent_version"), "scorer_version"])),
            comparison=_comparison(versions.slices),
        )

    def _older(self, only: dict[str, str], by: str) -> str | None:
        """Return the agent version before the newest one, to compare with."""
        if by != "version":
            return None
        with self._database.reading() as connection:
            found = series(connection, stored_slices(connection, **only), Window(), 3600, ("agent_version",))
        firsts = sorted((min(steps), version) for (version,), steps in found.items() if version)
        return firsts[-2][1] if len(firsts) > 1 else None

    def _runs(self, request: Request) -> str:
        names = ("scorer", "agent", "since", "until", "order", "status")
        asked = {name: _asked(request, name) for name in names}
        window = Window(_seconds(asked["since"], "since"), _seconds(asked["until"], "until"))
        with self._database.reading() as connection:
            inside = stored_slices(connection, scorer_id=asked["scorer"], agent_name=asked["agent"])
            order = "worst" if asked["order"] == "worst" else "newest"
            status = asked["status"] or None
            runs = runs_of_slices(connection, inside, window, _MOST, order=order, status=status)
        other = {k: v for k, v in asked.items() if v} | {"order": "worst" if order == "newest" else "newest"}
        return self._render(
            "runs.html",
            runs=runs,
            scorer=asked["scorer"],
            agent=asked["agent"],
            since=window.since,
            until=window.until,
            order=order,
            most=_MOST,
            other="/runs?" + urlencode(other),
        )

    def _run(self, request: Request) -> str:
        trace_id = request.path_params["trace_id"]
        with self._database.reading() as connection:
            runs = find_runs(connection, trace_id)
        if not runs:
            raise ConfigError("trace", f"{trace_id!r} is not on record; it may have been deleted")
        return self._render(
            "run.html",
            trace_id=trace_id,
            runs=runs,
            links=[self._link.to(_linked(run.columns)) for run in runs],
            labels=labels_on(self._database, trace_id),
            feedback=feedback_on(self._database, trace_id),
            csrf=self._access.csrf,
            saved="The label is saved." if request.query_params.get("saved") else "",
            command=f"otel-evals export {shlex.quote(self._database.name)} --trace {shlex.quote(trace_id)}"
            " --pytest test_run.py",
        )

    def _alarms(self, request: Request) -> str:
        kept = alarms_of(self._database)
        check = {"checked": self.alarm_check.checked, "problem": self.alarm_check.problem}
        return self._render("alarms.html", alarms=kept, settings=self._settings, **check)

    def _labels(self, request: Request) -> str:
        with self._database.reading() as connection:
            queues = label_queue(connection, stored_slices(connection))
            new = waiting_for_draw(connection)
        labelled = number_of_labels(self._database)
        csrf = self._access.csrf
        return self._render("labels.html", queues=queues, labelled=labelled, new=new, csrf=csrf, draws=DRAWN)


def _linked(columns: Any) -> SimpleNamespace:
    """Return the ids and the time of a run in seconds, for `TraceLink.to`."""
    ids = {name: columns[name] for name in ("trace_id", "span_id")}
    return SimpleNamespace(**ids, time=columns["start_time"] // 1_000_000_000)


def _comparison(rows: Any) -> str:
    """Return a sentence about the newest comparison of versions."""
    changed = [row for row in rows if row.change]
    if not changed:
        return ""
    row = changed[-1]
    difference = f"{row.change.mean:+.3f}, between {row.change.low:+.3f} and {row.change.high:+.3f}"
    return (
        f"Version {row.slice['agent_version']} against {row.change.against}: {difference}. "
        "It is the version's effect only if both answered the same traffic at the same time."
    )


def _asked(request: Request, name: str) -> str:
    return request.query_params.get(name, "")[:2000]


def _seconds(text: str, field: str) -> int | None:
    return int(number_of(text, field)) // 60 * 60 if text else None
