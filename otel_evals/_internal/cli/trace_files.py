"""Reads stored traces from a backend."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from importlib.metadata import entry_points
from typing import Any

from otel_evals._internal.cli.backends import backend, backends
from otel_evals._internal.config.validation import call_with, suggestion
from otel_evals._internal.deliver.api import ApiDestination
from otel_evals._internal.deliver.stored_traces import TRACE_SOURCES, TraceQuery
from otel_evals._internal.model import SpanRecord
from otel_evals._internal.statistics.moments import moment_of
from otel_evals.errors import ConfigError, DestinationError

_WHOLE_SECONDS = 300
"""Seconds; a trace that began later may still continue."""


def query_of(since: str | None, until: str | None, wanted: str | None) -> TraceQuery:
    """Build a query from options; by default it ends five minutes ago."""
    if since is None:
        raise ConfigError("--since", "is required with --from: a time such as 2026-11-20T10:00, or 24h ago")
    begin = moment_of(since, "--since")
    end = int(time.time()) - _WHOLE_SECONDS if until is None else moment_of(until, "--until")
    if begin >= end:
        raise ConfigError("--until", "must be later than --since; the default is five minutes ago")
    return TraceQuery(since=begin * 10**9, until=end * 10**9, filter=wanted or "")


def stored_traces(place: str, query: TraceQuery) -> Iterator[Sequence[SpanRecord]]:
    """Yield the traces of a backend, NAME or NAME=URL, each as soon as it is read."""
    source = _source(place)
    name = place.partition("=")[0]
    found = source.read_traces(query)
    if found is None:
        raise ConfigError(f"--from {name}", "cannot be read with these options: it has no API for traces")
    with asyncio.Runner() as runner:
        try:
            while (trace := runner.run(_next(found))) is not None:
                yield trace
        except DestinationError as error:
            raise ConfigError(f"--from {name}", str(error)) from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"--from {name}", f"its answer has an unexpected form: {error!r:.200}"
            ) from None
        finally:
            runner.run(source.shutdown())


async def _next(found: AsyncIterator[Sequence[SpanRecord]]) -> Sequence[SpanRecord] | None:
    return await anext(found, None)


def _source(place: str) -> Any:
    name, _, url = place.partition("=")
    points = {point.name: point for point in entry_points(group=TRACE_SOURCES)}
    if name in points:
        return call_with(points[name].load(), {"url": url} if url else {}, f"--from {name}")
    unable = (None, ApiDestination.read_traces)
    known = {n: d for n, d in backends().items() if getattr(d, "read_traces", None) not in unable}
    if name not in known:
        fix = suggestion(name, {**points, **known})
        raise ConfigError("--from", f"cannot read traces from {name!r}{fix}")
    try:
        return backend(place)
    except ConfigError as error:
        raise ConfigError(error.field.replace("--to", "--from", 1), error.problem) from None
