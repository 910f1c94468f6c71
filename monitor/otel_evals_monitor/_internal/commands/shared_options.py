"""Arguments of the monitor's commands."""

from __future__ import annotations

from typing import Annotated

import typer

Store = Annotated[
    str, typer.Argument(metavar="RESULTS", help="The results: a SQLite file, or a postgresql:// URL.")
]
Link = Annotated[
    str | None,
    typer.Option(help="Trace links: a destination, jaeger=http://host, or an address with {trace_id}."),
]
