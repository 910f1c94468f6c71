"""The report as one HTML file that needs nothing else: no network, no script."""

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
from otel_evals_monitor._internal.store.queries import stored_slices

_MOST = 60


def write_html(
    path: Path, report: ScoreReport, database: Database, options: ReportOptions, link: TraceLink, source: str
) -> None:
    """Write a report; the first 60 slices with plots.

    Raises:
        ConfigError: the file cannot be written.
        StoreError: the store cannot be read.
    """
    parts: list[dict[str, Any]] = []
    columns = columns_of(report)
    with database.reading() as connection:
        slices = stored_slices(connection, **options.only)
        for row in report.slices[:_MOST]:
            inside = {i: s for i, s in slices.items() if all(s[n] == v for n, v in row.slice.items())}
            found = detail_of(connection, inside, options.window, report.recorded or (0, 0))
            if found is not None:
                title = " · ".join(str(row.slice[name]) for name in columns if row.slice[name])
                shown = {"plot": found.plot, "points": found.points, "step": found.step}
                parts.append({"title": title, "row": row, "sentence": found.sentence, **shown})
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
