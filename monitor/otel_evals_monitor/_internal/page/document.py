"""The report as one HTML file without scripts or network access."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from markupsafe import Markup

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.page.detail import detail_of
from otel_evals_monitor._internal.page.templates import STYLE, render
from otel_evals_monitor._internal.report.links import TraceLink
from otel_evals_monitor._internal.report.report import ReportOptions, ScoreReport
from otel_evals_monitor._internal.report.terminal import columns_of
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.queries import matching, stored_slices

_MOST = 60


def write_html(
    path: Path, report: ScoreReport, database: Database, options: ReportOptions, link: TraceLink, source: str
) -> None:
    """Write a report, with plots of the first 60 slices."""
    parts: list[dict[str, Any]] = []
    columns = columns_of(report)
    with database.reading() as connection:
        slices = stored_slices(connection, **options.only)
        for row in report.slices[:_MOST]:
            inside = matching(slices, row.slice)
            found = detail_of(connection, inside, row, options.window, report.recorded or (0, 0))
            title = " · ".join(str(row.slice[name]) for name in columns if row.slice[name])
            parts.append({**found, "title": title})
    text = render(
        "report.html",
        style=Markup(STYLE),
        source=source,
        recorded=report.recorded,
        since=report.window.since,
        until=report.window.until,
        rows=report.slices,
        columns=columns,
        parts=parts,
        link=link,
    )
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError("--html", f"cannot write {path}: {error}") from error
