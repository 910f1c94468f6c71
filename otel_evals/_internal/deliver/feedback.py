"""Reading feedback back from a backend: what is asked for, page by page, bounded in time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import anyio

from otel_evals._internal.deliver.http import MOST_BYTES, HttpClient
from otel_evals._internal.deliver.items import iso
from otel_evals._internal.model import Feedback
from otel_evals._internal.util.retry import backoff
from otel_evals.errors import DestinationError

_ATTEMPTS = 4
_LONGEST = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackQuery:
    """Which feedback a backend is asked for. It may give more than that, never less."""

    since: int
    """Not before this moment, in nanoseconds since the Unix epoch."""
    names: tuple[str, ...] = ()
    """Only of these names; all, if there are none."""
    judged: tuple[tuple[str, str], ...] = ()
    """Trace and span ids of the runs on record, for backends that list feedback by span."""

    @property
    def since_text(self) -> str:
        """The moment in UTC, as ISO 8601."""
        return iso(self.since)


async def ask(
    http: HttpClient,
    method: str,
    path: str,
    body: Any = None,
    *,
    params: Mapping[str, Any] | None = None,
    most: int = MOST_BYTES,
) -> Any:
    """The JSON that a server answers; where it is busy or away, it is asked again a few times.

    Args:
        http: the client.
        method: of the request.
        path: below the client's base URL.
        body: sent as JSON.
        params: the query.
        most: bytes of the answer.

    Raises:
        DestinationError: it did not answer with success.
    """
    attempt = 1
    while True:
        try:
            return (await http.send(method, path, body, params=params, most=most)).json()
        except DestinationError as error:
            if not error.retryable or attempt == _ATTEMPTS:
                raise
            wait = error.retry_after
            await anyio.sleep(backoff(attempt, first=0.5, longest=_LONGEST) if wait is None else wait)
        attempt += 1


async def paged(
    page: Callable[[Any], Awaitable[tuple[Sequence[Any], Any]]], first: Any = None
) -> AsyncIterator[Any]:
    """The items of all pages.

    Args:
        page: gives the items at a cursor, and the cursor of the next page; a false one ends it.
        first: the first cursor.

    Raises:
        DestinationError: a server leads in a circle, or its answer has another form.
    """
    cursor, seen = first, {first}
    while True:
        try:
            items, cursor = await page(cursor)
        except (KeyError, TypeError, AttributeError) as error:
            raise _unexpected(f"a page has another form: {error!r}") from None
        for item in items:
            yield item
        if not cursor:
            return
        if cursor in seen:
            raise _unexpected("the server gave the same page twice")
        seen.add(cursor)


def readable(record: Any, read: Callable[[Any], Feedback]) -> Feedback | None:
    """A record as feedback; None if it has another form."""
    try:
        return read(record)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def moment(text: Any) -> int:
    """A time in ISO 8601, without a zone in UTC, as nanoseconds since the Unix epoch.

    Raises:
        ValueError: it is none.
    """
    found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    if found.tzinfo is None:
        found = datetime.fromisoformat(f"{found.isoformat()}+00:00")
    return round(found.timestamp() * 1e6) * 1000


def _unexpected(problem: str) -> DestinationError:
    return DestinationError(problem, retryable=False, reason="unexpected_answer")
