"""Destinations in arguments of commands, NAME or NAME=URL, and the traces that they store."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from otel_evals._internal.config.plugins import build_destination
from otel_evals._internal.config.validation import moment_of
from otel_evals._internal.deliver.api import ApiDestination
from otel_evals._internal.deliver.destination import ENTRY_POINT_GROUP
from otel_evals._internal.deliver.reading import TRACE_SOURCES, TraceQuery
from otel_evals._internal.model import SpanRecord
from otel_evals._internal.util.installed import entry_points, load
from otel_evals._internal.util.options import call_with, suggestion
from otel_evals.errors import ConfigError, DestinationError

_WHOLE_SECONDS = 300
"""Seconds; a trace that began later may still continue."""


def backends() -> dict[str, Any]:
    """Return the installed destinations of other products, by name."""
    found = {}
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP)):
        with suppress(ConfigError):  # of a package that cannot be imported
            loaded = load(point, point.name)
            if getattr(loaded, "kind", None) in ("api", "otel"):
                found[point.name] = loaded
    return found


def backend(place: str, option: str) -> Any:
    """Build a destination from NAME, or NAME=URL for a server of your own, as an option gives it.

    Raises:
        ConfigError: the destination is unknown, or a key is missing.
    """
    name, _, url = place.partition("=")
    try:
        return build_destination(name, {"url": url} if url else {}, option)
    except ConfigError as error:
        field = error.field.removeprefix(option).removeprefix(f".{name}")
        raise ConfigError(f"{option} {name}{field}", error.problem) from None


def backend_of_demo(place: str) -> Any:
    """Build a destination from NAME or NAME=URL that receives scores or telemetry of the demo.

    Raises:
        ConfigError: the destination is unknown, a key is missing, or it has no address for telemetry.
    """
    found, (name, _, url) = backend(place, "--to"), place.partition("=")
    if url or hasattr(found, "send") or not hasattr(found, "needs"):  # a file, say, needs no telemetry
        return found
    collector = f"give the address of a Collector that forwards to it: --to {name}=http://localhost:4318"
    lacking = [variable for variable in found.needs if not os.environ.get(variable)]
    if lacking:
        raise ConfigError(f"--to {name}", f"is missing a key: set {' and '.join(lacking)}, or {collector}")
    if found.spans_to() is None:
        raise ConfigError(f"--to {name}", f"does not accept OTLP: {collector}")
    return found


def trace_link(option: str | None) -> str | None:
    """Return the address of traces, with placeholders for ids, if the option names a destination.

    Other options are returned unchanged.

    Raises:
        ConfigError: the destination lacks an option, or has no address for traces.
    """
    if option is None or option not in backends():
        return option
    url = getattr(backend(option, "--link"), "trace_url", lambda *_: None)("{trace_id}", "{span_id}")
    if not url:
        problem = f"{option} has no address for traces: give one with {{trace_id}}"
        raise ConfigError("--link", problem)
    return str(url)


def send_spans_to(destination: Any) -> Mapping[str, str]:
    """Return OpenTelemetry variables to send spans to the same backend; empty if it does not accept OTLP."""
    where = getattr(destination, "spans_to", lambda: None)()
    if where is None:
        return {}
    address, headers = where
    # Backends that receive scores by their own API accept only spans at this address.
    kind = "TRACES_" if hasattr(destination, "send") else ""
    values = ",".join(f"{name}={quote(value)}" for name, value in headers.items() if value)
    variables = {f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT": address, f"OTEL_EXPORTER_OTLP_{kind}HEADERS": values}
    return {name: value for name, value in variables.items() if value}


# --- stored traces ---


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
        except ConfigError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"its answer has an unexpected form: {error!r:.200}"
            raise ConfigError(f"--from {name}", problem) from None
        finally:
            runner.run(source.shutdown())


async def _next(found: AsyncIterator[Sequence[SpanRecord]]) -> Sequence[SpanRecord] | None:
    return await anext(found, None)


def _source(place: str) -> Any:
    name, _, url = place.partition("=")
    points = {point.name: point for point in entry_points(group=TRACE_SOURCES)}
    if name in points:
        return call_with(load(points[name], f"--from {name}"), {"url": url} if url else {}, f"--from {name}")
    unable = (None, ApiDestination.read_traces)
    known = {n: d for n, d in backends().items() if getattr(d, "read_traces", None) not in unable}
    if name not in known:
        fix = suggestion(name, {**points, **known})
        raise ConfigError("--from", f"cannot read traces from {name!r}{fix}")
    return backend(place, "--from")
