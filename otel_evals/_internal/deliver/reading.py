"""Reading stored traces back from a backend.

Backends that are also destinations implement `read_traces` there. Others are found through the entry-point
group `otel_evals_trace_source`; each entry point is a class whose keyword arguments are its options, with
the methods `read_traces` and `shutdown` of an `ApiDestination`.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import anyio

from otel_evals._internal.deliver.http import MOST_BYTES, HttpClient
from otel_evals._internal.deliver.items import iso
from otel_evals._internal.util.retry import backoff
from otel_evals.errors import ConfigError, DestinationError

TRACE_SOURCES = "otel_evals_trace_source"
"""Entry-point group."""

LARGEST_ANSWER = 256 * 1024 * 1024
"""Bytes of one answer with traces; a trace that is larger cannot be read."""
_ATTEMPTS = 4
_LONGEST = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """Traces to request from a backend: those that began in a range of time. It may return more."""

    since: int
    """From this moment on, in nanoseconds since the Unix epoch."""
    until: int
    """Before this moment."""
    filter: str = ""
    """In the backend's own language; empty for all."""

    @property
    def since_text(self) -> str:
        """The first moment in UTC, as ISO 8601."""
        return iso(self.since)

    @property
    def until_text(self) -> str:
        """The moment after the last in UTC, as ISO 8601."""
        return iso(self.until)

    def words(self) -> dict[str, str]:
        """Return the filter as NAME=VALUE words, for backends without a query language.

        Raises:
            ConfigError: it has another form.
        """
        try:
            return dict(word.split("=", 1) for word in shlex.split(self.filter))
        except ValueError:  # an open quote, or a word without `=`
            raise ConfigError("--filter", f"must be NAME=VALUE words, not {self.filter!r}") from None


async def ask(
    http: HttpClient,
    method: str,
    path: str,
    body: Any = None,
    *,
    params: Mapping[str, Any] | None = None,
    most: int = MOST_BYTES,
) -> Any:
    """Return a server's JSON answer of at most `most` bytes; a busy or absent server is asked a few times.

    Raises:
        DestinationError: it did not answer with success.
    """
    attempt = 1
    while True:
        try:
            return (await http.send(method, path, body, params=params, most=most)).json()
        except DestinationError as error:
            # Reading is done by commands: a person waits.
            if not error.retryable or attempt == _ATTEMPTS:
                raise
            wait = error.retry_after
            await anyio.sleep(backoff(attempt, first=0.5, longest=_LONGEST) if wait is None else wait)
        attempt += 1


async def paged(
    page: Callable[[Any], Awaitable[tuple[Sequence[Any], Any]]], first: Any = None
) -> AsyncIterator[Any]:
    """Iterate over the items of all pages.

    Args:
        page: returns the items at a cursor, and the cursor of the next page; a false one ends it.
        first: the first cursor.

    Raises:
        DestinationError: a page repeats, or has another form.
    """
    cursor, seen = first, {first}
    while True:
        try:
            items, cursor = await page(cursor)
        except (KeyError, TypeError, AttributeError) as error:
            raise _unexpected(f"a page has an unexpected form: {error!r}") from None
        for item in items:
            yield item
        if not cursor:
            return
        # It would be read for ever.
        if cursor in seen:
            raise _unexpected("the server gave the same page twice")
        seen.add(cursor)


def moment(text: Any) -> int:
    """Return an ISO 8601 time, in UTC without a zone, as nanoseconds since the Unix epoch.

    Raises:
        ValueError: it is not one.
    """
    found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    if found.tzinfo is None:
        found = datetime.fromisoformat(f"{found.isoformat()}+00:00")
    return round(found.timestamp() * 1e6) * 1000


def _unexpected(problem: str) -> DestinationError:
    return DestinationError(problem, retryable=False, reason="unexpected_answer")
