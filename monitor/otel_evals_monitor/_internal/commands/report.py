"""`otel-evals report`: what scored runs say, from files of the JSONL destination or a results store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from otel_evals.errors import OtelEvalsError
from otel_evals.sdk.commands import echo, json_text

Link = Annotated[
    str | None,
    typer.Option(help="Where traces are shown: a destination, jaeger=http://host, or {trace_id} in one."),
]


def report(
    source: Annotated[
        list[str],
        typer.Argument(help="Files of the jsonl destination (or gzip, or patterns), or one store."),
    ],
    by: Annotated[str, typer.Option(help="Split by agent, version, tenant, rule, service, judge.")] = "",
    since: Annotated[str | None, typer.Option(help="From then on: 2026-11-20T10:00, or 24h ago.")] = None,
    until: Annotated[str | None, typer.Option(help="Before then; as for --since.")] = None,
    window: Annotated[str | None, typer.Option(help="The last so long on record: 15m, 24h, 7d.")] = None,
    against: Annotated[
        str | None, typer.Option(help="Compare with the `previous` window, or with this agent version.")
    ] = None,
    scorer: Annotated[str | None, typer.Option(help="Only this scorer.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst runs to list.")] = 3,
    link: Link = None,
    html: Annotated[Path | None, typer.Option(help="Write one HTML file that needs no network.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Weighted means with intervals, what is missing, what changed, and the worst runs."""
    try:
        from otel_evals.sdk.commands import trace_link
        from otel_evals_monitor._internal.report.links import TraceLink
        from otel_evals_monitor._internal.report.opener import opened
        from otel_evals_monitor._internal.report.report import ReportOptions, make_report
        from otel_evals_monitor._internal.report.windows import window_of

        to_trace = TraceLink.parse(trace_link(link))
        only = {"scorer_id": scorer, "agent_name": agent}
        with opened(source) as loaded:
            options = ReportOptions(
                window=window_of(loaded.database, since, until, window),
                by=[name.strip() for name in by.split(",") if name.strip()],
                against=against,
                only={name: value for name, value in only.items() if value is not None},
                worst=worst,
            )
            made = make_report(loaded.database, options)
            _tell(loaded)
            if html is not None:
                from otel_evals_monitor._internal.page.document import write_html

                write_html(html, made, loaded.database, options, to_trace, loaded.sources)
                echo(f"wrote {html}", err=True)
            if as_json:
                echo(json_text(_plain(made, to_trace, loaded), indent=2))
            elif html is None:
                from otel_evals_monitor._internal.report.terminal import print_report

                print_report(made, to_trace)
    except OtelEvalsError as error:
        echo(f"otel-evals report: {error}", err=True)
        raise typer.Exit(2) from None
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        echo(f"otel-evals report: needs {error.name}: pip install 'otel-evals[monitor]'", err=True)
        raise typer.Exit(2) from None


_LIBRARIES = {"sqlalchemy", "psycopg", "jinja2", "markupsafe", "rich"}


def _plain(made: Any, link: Any, loaded: Any) -> dict[str, Any]:
    from otel_evals_monitor._internal.report.json_values import as_plain

    lost = sum(loaded.broken.values()) + sum(loaded.written.unreadable.values())
    return {**as_plain(made, link), "source": loaded.sources, "unreadable_lines": lost}


def _tell(loaded: Any) -> None:
    """Say what could not be read."""
    for file, count in loaded.broken.items():
        echo(f"otel-evals report: {file}: {count} lines are not JSON; left out", err=True)
    for problem, count in loaded.written.unreadable.most_common(5):
        echo(f"otel-evals report: {count} lines left out: {problem}", err=True)
    if len(loaded.written.unreadable) > 5:
        rest = sum(loaded.written.unreadable.values())
        echo(f"otel-evals report: {rest} lines left out in all", err=True)
