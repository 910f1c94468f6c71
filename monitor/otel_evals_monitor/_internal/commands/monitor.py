"""`otel-evals monitor`: the page of results, and the check for alarms; `otel-evals mcp`: for agents."""

from __future__ import annotations

import json
import shlex
import signal
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_evals.errors import ConfigError
from otel_evals.sdk.commands import echo, exit_on

if TYPE_CHECKING:
    from otel_evals_monitor._internal.alarms.receivers import Receiver
    from otel_evals_monitor._internal.alarms.section import AlarmOptions
    from otel_evals_monitor._internal.store.database import Database


Store = Annotated[
    str, typer.Argument(metavar="RESULTS", help="The results: a SQLite file, or a postgresql:// URL.")
]
Link = Annotated[
    str | None,
    typer.Option(help="Trace links: a destination, jaeger=http://host, or an address with {trace_id}."),
]
Floors = Annotated[
    list[str] | None, typer.Option("--floor", help="SCORER=MEAN: alarm if the mean falls below; repeatable.")
]


def monitor(
    store: Store,
    once: Annotated[
        bool, typer.Option("--once", help="Check for alarms once, and exit with 1 if there is one.")
    ] = False,
    floor: Floors = None,
    missing: Annotated[float, typer.Option(help="Alarm if more than this share of scores is missing.")] = 0.2,
    webhook: Annotated[str | None, typer.Option(help="Address to post alarms to, as JSON.")] = None,
    slack: Annotated[bool, typer.Option("--slack", help="Post in Slack's format.")] = False,
    alertmanager: Annotated[str | None, typer.Option(help="Base URL of an Alertmanager.")] = None,
    page: Annotated[str | None, typer.Option(help="Address of the page, for links in notifications.")] = None,
    link: Link = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 selects a free one.")] = 8765,
    token: Annotated[
        str | None, typer.Option(envvar="OTEL_EVALS_MONITOR_TOKEN", help="Required to listen on other hosts.")
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --once: print the alarms as JSON.")] = False,
) -> None:
    """Serve a page with means, runs and alarms, or check for alarms once."""
    with exit_on(OSError, command="monitor", extra="monitor"):
        from otel_evals_monitor._internal.alarms.section import AlarmOptions, receivers_of
        from otel_evals_monitor._internal.store.database import Database

        limits = AlarmOptions(
            floors=floors_of(floor or ()),
            missing=missing,
            webhook=webhook,
            slack=slack,
            alertmanager=alertmanager,
            page=page or (None if once else f"http://{host}:{port}"),
        )
        # With --once, an alert lasts until the next check, for example an hourly cron job.
        receivers = receivers_of(limits, 3600.0 if once else 600.0)
        with closing(Database(store, create=False)) as database:
            if once:
                raise typer.Exit(_check(database, limits, receivers, as_json))
            from otel_evals_monitor._internal.page.app import serve

            serve(database, limits, receivers, link=link, host=host, port=port, token=token, browser=browser)


def _check(database: Database, limits: AlarmOptions, receivers: Sequence[Receiver], as_json: bool) -> int:
    """Check once, print and notify; return the exit status."""
    from otel_evals_monitor._internal.alarms.check import AlarmCheck
    from otel_evals_monitor._internal.alarms.receivers import notification
    from otel_evals_monitor._internal.alarms.record import lasting_alarms
    from otel_evals_monitor._internal.store.queries import stored_slices, values_on_record

    check = AlarmCheck(database, limits, receivers)
    problems = check.run()
    lasting = lasting_alarms(database)
    if as_json:
        states = [{**asdict(each), "text": each.text} for each in check.found.states.values()]
        alarms = [notification(each, limits.page) for each in lasting]
        print(json.dumps({"alarms": alarms, "watched": states, "problems": problems}, indent=2))
    else:
        for alarm in lasting:
            echo(f"{alarm.kind}: {alarm.scorer_id} {alarm.agent_name}: {alarm.text}")
            worst = f"worst runs: {' '.join(alarm.trace_ids)}" if alarm.trace_ids else ""
            known = f"if known: otel-evals results acknowledge STORE {shlex.quote(alarm.monitor)}"
            for line in filter(None, (alarm.evidence_text, alarm.next_step, worst, known)):
                echo(f"  {line}")
        if not lasting:
            echo("no alarm")
        for state in check.found.states.values():
            echo(state.text)
    # Not the states of the check: their steps take ten minutes to fill.
    with database.reading() as connection:
        slices = stored_slices(connection)
    for name in limits.floors.keys() - {each["scorer_id"] for each in slices.values()}:
        known = values_on_record(slices, ["scorer_id"])
        echo(f"otel-evals monitor: --floor: no score of {name!r}; {known}", err=True)
    for problem in problems:
        echo(f"otel-evals monitor: notification failed: {problem}", err=True)
    return 1 if lasting else 2 if problems else 0


def mcp(store: Store, floor: Floors = None, link: Link = None) -> None:
    """Answer a coding agent's questions about results, over stdio (Model Context Protocol)."""
    with exit_on(OSError, command="mcp", extra="monitor"):
        from otel_evals.sdk.commands import trace_link
        from otel_evals_monitor._internal.alarms.limits import AlarmLimits
        from otel_evals_monitor._internal.mcp_server import server_of
        from otel_evals_monitor._internal.report.inputs import TraceLink
        from otel_evals_monitor._internal.store.database import Database

        to_trace = TraceLink.parse(trace_link(link))
        # Python would wait for the thread that reads standard input.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        with closing(Database(store, create=False)) as database:
            server_of(database, store, AlarmLimits(floors=floors_of(floor or ())), to_trace).run("stdio")


def floors_of(given: Sequence[str]) -> dict[str, Any]:
    """Split floors of the form SCORER=MEAN; `AlarmLimits` reads the means."""
    floors = {}
    for each in given:
        scorer, _, mean = each.rpartition("=")
        if not scorer:
            raise ConfigError("--floor", f"{each!r} must be SCORER=MEAN, such as grounded_in_tools=0.9")
        floors[scorer] = mean
    return floors
