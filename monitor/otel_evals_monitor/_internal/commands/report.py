"""`otel-evals report`: means and intervals, from files of the jsonl destination or a results store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from otel_evals.sdk.commands import AsJson, echo, exit_on, json_text
from otel_evals_monitor._internal.commands.monitor import Link

if TYPE_CHECKING:
    from otel_evals_monitor._internal.report.inputs import Loaded


def report(
    source: Annotated[
        list[str],
        typer.Argument(help="Files of the jsonl destination (or gzip, or patterns), or results."),
    ],
    by: Annotated[
        str,
        typer.Option(
            help="Split by agent, version, prompt, model, tenant, rule, service, judge, attribute:NAME."
        ),
    ] = "",
    since: Annotated[str | None, typer.Option(help="Start: 2026-11-20T10:00, or 24h ago.")] = None,
    until: Annotated[str | None, typer.Option(help="End, in the same forms.")] = None,
    window: Annotated[str | None, typer.Option(help="Last recorded period only: 15m, 24h, 7d.")] = None,
    against: Annotated[
        str | None, typer.Option(help="Compare with the `previous` window, or with this agent version.")
    ] = None,
    scorer: Annotated[str | None, typer.Option(help="Only this scorer.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    worst: Annotated[int, typer.Option(min=0, help="Number of worst runs to list.")] = 3,
    link: Link = None,
    html: Annotated[Path | None, typer.Option(help="Write one HTML file that needs no network.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print weighted means with intervals, changes and the worst runs."""
    with exit_on(OSError, command="report", extra="monitor"):
        from otel_evals.sdk.commands import trace_link
        from otel_evals_monitor._internal.report.inputs import (
            ReportOptions,
            TraceLink,
            names_in,
            only_of,
            opened,
            window_of,
        )
        from otel_evals_monitor._internal.report.report import make_report

        to_trace = TraceLink.parse(trace_link(link))
        with opened(source) as loaded:
            options = ReportOptions(
                window=window_of(loaded.database, since, until, window),
                by=names_in(by),
                against=against,
                only=only_of(scorer, agent),
                worst=worst,
            )
            made = make_report(loaded.database, options)
            _print_unreadable(loaded)
            if html is not None:
                from otel_evals_monitor._internal.page.detail import write_html

                write_html(html, made, loaded.database, options, to_trace, loaded.sources)
                echo(f"wrote {html}", err=True)
            if as_json:
                from otel_evals_monitor._internal.report.json_values import as_plain

                lines = {"source": loaded.sources, "unreadable_lines": loaded.lost}
                echo(json_text({**as_plain(made, to_trace), **lines}, indent=2))
            elif html is None:
                from otel_evals_monitor._internal.report.terminal import print_report

                print_report(made, to_trace)


def _print_unreadable(loaded: Loaded) -> None:
    for file, count in loaded.broken.items():
        echo(f"otel-evals report: {file}: {count} lines are not JSON; left out", err=True)
    for problem, count in loaded.written.unreadable.most_common(5):
        echo(f"otel-evals report: {count} lines left out: {problem}", err=True)
