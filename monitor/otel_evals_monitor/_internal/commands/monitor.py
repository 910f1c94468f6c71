"""`otel-evals monitor`: the page of a results store, and the check for alarms."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from otel_evals.errors import ConfigError
from otel_evals.sdk.commands import echo, exit_on
from otel_evals_monitor._internal.commands.shared_options import Link, Store

if TYPE_CHECKING:
    from otel_evals_monitor._internal.alarms.limits import AlarmLimits
    from otel_evals_monitor._internal.alarms.receivers import Receiver
    from otel_evals_monitor._internal.store.database import Database


def monitor(
    store: Store,
    once: Annotated[
        bool, typer.Option("--once", help="Check for alarms once, and exit with 1 if there is one.")
    ] = False,
    floor: Annotated[
        list[str] | None, typer.Option(help="SCORER=MEAN: alarm if the mean falls below; repeatable.")
    ] = None,
    missing: Annotated[float, typer.Option(help="Alarm if more than this share of scores is missing.")] = 0.2,
    agreement: Annotated[
        float, typer.Option(help="Alarm if people agree with less than this share of randomly drawn scores.")
    ] = 0.8,
    webhook: Annotated[str | None, typer.Option(help="Address to post alarms to, as JSON.")] = None,
    slack: Annotated[bool, typer.Option("--slack", help="Post in Slack's format.")] = False,
    alertmanager: Annotated[str | None, typer.Option(help="Base URL of an Alertmanager.")] = None,
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
            floors=_floors(floor or ()),
            missing=missing,
            agreement=agreement,
            webhook=webhook,
            slack=slack,
            alertmanager=alertmanager,
        )
        # With --once, an alert lasts until the next check, for example an hourly cron job.
        receivers = receivers_of(limits, 3600.0 if once else 600.0)
        with closing(Database(store, create=False)) as database:
            if once:
                raise typer.Exit(_check(database, limits, receivers, as_json))
            from otel_evals_monitor._internal.page.server import serve

            serve(database, limits, receivers, link=link, host=host, port=port, token=token, browser=browser)


def _check(database: Database, limits: AlarmLimits, receivers: Sequence[Receiver], as_json: bool) -> int:
    """Check once, print and notify; return the exit status, which ignores muted alarms."""
    from otel_evals_monitor._internal.alarms.alarm_record import lasting_alarms
    from otel_evals_monitor._internal.alarms.check import AlarmCheck
    from otel_evals_monitor._internal.alarms.judgements import judgements
    from otel_evals_monitor._internal.report.zones import Zone

    problems = AlarmCheck(database, limits, receivers).run()
    with database.reading() as connection:
        now, muted = time.time(), judgements(connection).muted
    every = [each.alarm for each in lasting_alarms(database)]
    quiet = {name: mute for name, mute in muted.items() if mute.until > now}
    quiet = {each.monitor: quiet[each.monitor] for each in every if each.monitor in quiet}
    lasting = [each for each in every if each.monitor not in quiet]
    if as_json:
        mutes = {name: asdict(mute) for name, mute in quiet.items()}
        shown = {"alarms": [asdict(alarm) for alarm in lasting], "muted": mutes, "problems": problems}
        print(json.dumps(shown, indent=2))
    else:
        for alarm in lasting:
            line = f"{alarm.kind}: {alarm.scorer_id} {alarm.agent_name}: {alarm.text}"
            worst = f"worst runs: {' '.join(alarm.trace_ids)}" if alarm.trace_ids else ""
            known = f"if known: otel-evals results acknowledge STORE {shlex.quote(alarm.monitor)}"
            for each in (line, alarm.evidence_text, alarm.next_step, worst, known):
                if each:
                    _print(each if each is line else f"  {each}")
        if not lasting:
            print("no alarm")
        for name, mute in quiet.items():
            _print(f"muted until {Zone().full(mute.until)}: {name}{mute.note and f': {mute.note}'}")
    for problem in problems:
        echo(f"otel-evals monitor: notification failed: {problem}", err=True)
    return 1 if lasting else 2 if problems else 0


def _print(line: str) -> None:
    print("".join(c if c.isprintable() else " " for c in line))


def _floors(given: Sequence[str]) -> dict[str, float]:
    floors = {}
    for each in given:
        scorer, _, value = each.rpartition("=")
        try:
            floors[scorer] = float(value)
        except ValueError:
            floors[scorer] = math.nan
        if not scorer or not 0.0 <= floors[scorer] < math.inf:
            raise ConfigError("--floor", f"{each!r} must be SCORER=MEAN, such as grounded_in_tools=0.9")
    return floors
