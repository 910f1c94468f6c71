"""Arguments of the monitor's commands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import typer

from otel_evals.errors import ConfigError

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


def floors_of(given: Sequence[str]) -> dict[str, float]:
    """Parse floors of the form SCORER=MEAN."""
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
