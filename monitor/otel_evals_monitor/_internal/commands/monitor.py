"""`otel-evals monitor`: a page on a results store, and its check for alarms."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from otel_evals.errors import ConfigError, OtelEvalsError
from otel_evals.sdk.commands import echo

if TYPE_CHECKING:
    from otel_evals_monitor._internal.alarms.monitors import AlarmSettings
    from otel_evals_monitor._internal.alarms.receivers import Receiver
    from otel_evals_monitor._internal.store.database import Database


def monitor(
    store: Annotated[str, typer.Argument(help="The results store: a SQLite file, or a postgresql:// URL.")],
    check: Annotated[
        bool, typer.Option("--check", help="Look for alarms once; the exit status is 1 if there are any.")
    ] = False,
    floor: Annotated[
        list[str] | None, typer.Option(help="SCORER=MEAN: alarm if the mean falls below; repeatable.")
    ] = None,
    missing: Annotated[float, typer.Option(help="Alarm if more than this share of scores is missing.")] = 0.2,
    agreement: Annotated[
        float,
        typer.Option(help="Alarm if people agree with fewer of the scores drawn by chance."),
    ] = 0.8,
    webhook: Annotated[str | None, typer.Option(help="Address that alarms are posted to, as JSON.")] = None,
    slack: Annotated[bool, typer.Option("--slack", help="Post the form that Slack understands.")] = False,
    alertmanager: Annotated[
        str | None, typer.Option(help="Base URL of an Alertmanager that alarms are sent to.")
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(help="Where traces are shown: a destination, jaeger=http://host, or {trace_id} in one."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8765,
    token: Annotated[
        str | None, typer.Option(envvar="OTEL_EVALS_MONITOR_TOKEN", help="Needed to listen elsewhere.")
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --check: print the alarms as JSON.")] = False,
) -> None:
    """Serve a page with means, intervals, runs and alarms; or check for alarms once."""
    try:
        from otel_evals_monitor._internal.alarms.monitors import AlarmSettings
        from otel_evals_monitor._internal.alarms.receivers import Alertmanager, Webhook
        from otel_evals_monitor._internal.store.database import Database

        settings = AlarmSettings(
            floors=_floors(floor or ()),
            missing=_share("--missing", missing),
            agreement=_share("--agreement", agreement),
        )
        told: list[Receiver] = [Webhook(webhook, slack)] if webhook else []
        # Until then a check by cron must have come again.
        told += [Alertmanager(alertmanager, 3600.0 if check else 600.0)] if alertmanager else []
        database = Database(store, create=False)
        try:
            if check:
                raise typer.Exit(_check(database, settings, told, as_json))
            from otel_evals_monitor._internal.page.server import serve

            serve(database, settings, told, link=link, host=host, port=port, token=token, browser=browser)
        finally:
            database.close()
    except OtelEvalsError as error:
        echo(f"otel-evals monitor: {error}", err=True)
        raise typer.Exit(2) from None
    except ModuleNotFoundError as error:
        missing_module = (error.name or "").partition(".")[0]
        if missing_module in {"", "otel_evals"}:
            raise
        problem = f"needs {missing_module}: pip install 'otel-evals[monitor]'"
        echo(f"otel-evals monitor: {problem}", err=True)
        raise typer.Exit(2) from None


def _check(database: Database, settings: AlarmSettings, receivers: Sequence[Receiver], as_json: bool) -> int:
    """Look once, print, and tell; returns the exit status."""
    from otel_evals_monitor._internal.alarms.alarm_record import alarms_of
    from otel_evals_monitor._internal.alarms.check import AlarmCheck

    problems = AlarmCheck(database, settings, receivers).run()
    lasting = [each for each in alarms_of(database) if each.ended is None]
    if as_json:
        print(
            json.dumps({"alarms": [asdict(each.alarm) for each in lasting], "problems": problems}, indent=2)
        )
    for each in lasting if not as_json else ():
        alarm = each.alarm
        print(_line(f"{alarm.kind}: {alarm.scorer_id} {alarm.agent_name}: {alarm.text}"))
        print(f"  worst runs: {' '.join(alarm.trace_ids)}")
    if not lasting and not as_json:
        print("no alarm")
    for problem in problems:
        echo(f"otel-evals monitor: not told: {problem}", err=True)
    return 1 if lasting else 2 if problems else 0


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _floors(given: Sequence[str]) -> Mapping[str, float]:
    floors = {}
    for each in given:
        scorer, _, value = each.rpartition("=")
        try:
            floors[scorer] = float(value)
        except ValueError:
            raise ConfigError(
                "--floor", f"{each!r} must be SCORER=MEAN, such as grounded_in_tools=0.9"
            ) from None
        if not scorer or not floors[scorer] >= 0.0 or floors[scorer] == float("inf"):
            raise ConfigError("--floor", f"{each!r} must be SCORER=MEAN, such as grounded_in_tools=0.9")
    return floors


def _share(option: str, value: float) -> float:
    if not 0.0 < value < 1.0:
        raise ConfigError(option, f"must be between 0 and 1, not {value:g}")
    return value
