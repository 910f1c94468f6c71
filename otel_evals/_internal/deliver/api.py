"""The base of destinations that send scores to an HTTP API."""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import anyio

from otel_evals._internal.deliver.destination import SpansTo, Unaccepted
from otel_evals._internal.deliver.http import HttpClient, HttpSettings
from otel_evals._internal.deliver.items import ScoreItem, items_of
from otel_evals._internal.deliver.reading import TraceQuery
from otel_evals._internal.deliver.retry import TRACE_NOT_FOUND
from otel_evals._internal.model import ScoredRun, SpanRecord
from otel_evals._internal.util.bounded_cache import BoundedCache
from otel_evals.errors import ConfigError, DestinationError

_ONE_OF_THEM = {400, 404, 409, 413, 422}
"""Statuses that may be caused by one item of a request."""
_REMEMBERED = 20_000
_SENDING = 0.9
"""Share of an attempt's time in which requests are sent, so that what was accepted can be told."""

Errors = Sequence[tuple[ScoreItem, DestinationError]]
"""Items that were not accepted, and why."""


class ApiDestination(ABC):
    """Sends scores to an API; a refused request is halved until the bad items are alone.

    A subclass implements `send`, which makes a request.

    Args:
        url: base URL of the API.
        headers: sent with every request; errors do not contain them.
        content: whether to send explanations and error messages, which may quote the conversation.
        http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

    Raises:
        ConfigError: an option is wrong, or httpx is not installed.
    """

    name: str
    """As in configuration."""
    kind: ClassVar[Literal["api", "otel"]] = "api"
    needs: ClassVar[tuple[str, ...]] = ()
    """Environment variables, or options, without which it cannot be used."""
    most: ClassVar[int] = 1
    """Scores in one request."""
    at_once: ClassVar[int] = 8
    """Requests at the same time."""
    takes_errors: ClassVar[bool] = False
    """Whether the backend has a place for evaluations that failed or were dropped."""
    finds_traces: ClassVar[bool] = False
    """Whether 404 says that the trace is not there, which it may be later."""
    otlp_path: ClassVar[str] = ""
    """Path of the backend's address for spans by OTLP over HTTP; empty if there is none."""

    def __init__(
        self, url: str, headers: Mapping[str, str], *, content: bool = True, http: HttpSettings = None
    ) -> None:
        self._http = HttpClient(url, headers, http)
        self._content = content
        self._revisions: BoundedCache[str, int] = BoundedCache(_REMEMBERED)
        """Later revisions that the backend has accepted, by evaluation id."""

    @abstractmethod
    async def send(self, items: Sequence[ScoreItem]) -> Errors | None:
        """Send at most `most` scores in one request; returns those that were not accepted, if any.

        Raises:
            DestinationError: none was accepted.
        """

    def refuses(self, item: ScoreItem) -> str | None:
        """Return why the backend would not take a score; None if it does."""
        if not item.run.trace_flags & 1:
            return "trace_not_sampled"
        return None if item.value is None or math.isfinite(item.value) else "not_finite"

    def together(self, item: ScoreItem) -> str:
        """Return a key that all scores of a request must share."""
        return ""

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """Return the web address of a span's trace; None if it is unknown."""
        return None

    def spans_to(self) -> SpansTo:
        """Return address and headers for sending spans by OTLP over HTTP; None if they are unknown."""
        return (self._http.url + self.otlp_path, self._http.headers) if self.otlp_path else None

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        """Return a score as the backend has it; None if it has none, or no API to read it."""
        return None

    def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]] | None:
        """Read stored traces; None without an API for it."""
        return None

    async def export(self, batch: Sequence[ScoredRun]) -> Sequence[Unaccepted]:
        """Send the scores of a batch, each in its newest revision.

        Raises:
            DestinationError: nothing was accepted, and all for one reason.
        """
        sending = _Sending(self)
        groups: defaultdict[str, list[ScoreItem]] = defaultdict(list)
        for item in self._newest([*items_of(batch, content=self._content, errors=self.takes_errors)]):
            reason = self.refuses(item)
            if reason is None:
                groups[self.together(item)].append(item)
            else:
                problem = f"{self.name} has no place for {item.name} = {item.value}"
                sending.errors.append((item, DestinationError(problem, retryable=False, reason=reason)))
        # Requests of a batch run concurrently, within its limit.
        async with anyio.create_task_group() as tasks:
            for group in groups.values():
                for start in range(0, len(group), self.most):
                    tasks.start_soon(sending.send, group[start : start + self.most])
        for item in sending.accepted:
            # A first revision replaces none, so most scores need no memory.
            if item.evaluation.revision > 1:
                self._revisions[item.id] = item.evaluation.revision
        # The queue then waits before it sends anything else there.
        if sending.halted is not None and not sending.accepted:
            raise sending.halted
        return [Unaccepted(item.evaluation, error) for item, error in sending.errors]

    def _newest(self, items: Sequence[ScoreItem]) -> Iterable[ScoreItem]:
        """Return the items without those that have a later revision among them or at the backend.

        Refused scores are sent again, so an earlier revision may come last; it must not replace a later one.
        """
        newest: dict[str, int] = {}
        for item in items:
            known = newest.get(item.id) or self._revisions.get(item.id, 0)
            newest[item.id] = max(known, item.evaluation.revision)
        return [item for item in items if item.evaluation.revision == newest[item.id]]

    async def shutdown(self) -> None:
        """Close the connections."""
        await self._http.close()


class _Sending:
    """Requests for one batch."""

    def __init__(self, destination: ApiDestination) -> None:
        self._destination = destination
        self._limiter = anyio.CapacityLimiter(destination.at_once)
        now = anyio.current_time()
        self._end = now + _SENDING * (anyio.current_effective_deadline() - now)
        self.errors: list[tuple[ScoreItem, DestinationError]] = []
        self.accepted: list[ScoreItem] = []
        self.halted: DestinationError | None = None
        """An error that every other request would have too."""

    async def send(self, items: Sequence[ScoreItem]) -> None:
        """Send scores in one request; one that may be refused for one of them is halved until that is alone.

        Finds one bad item of n in about 2 log n requests.
        """
        async with self._limiter:
            parts = [items]
            while parts:
                part = parts.pop()
                error = await self._try(part)
                middle = len(part) // 2
                if error is not None and error.status in _ONE_OF_THEM and middle:
                    parts += [part[middle:], part[:middle]]
                elif error is not None:
                    self._fail(part, error)

    async def _try(self, items: Sequence[ScoreItem]) -> DestinationError | None:
        if self.halted is not None:
            return self.halted
        try:
            with anyio.fail_after(self._end - anyio.current_time()):
                errors = await self._destination.send(items) or ()
        except DestinationError as error:
            return error
        except TimeoutError:
            problem = "too slow for a whole batch; the rest is sent again"
            return DestinationError(problem, retryable=True, reason="timeout")
        except Exception as error:  # an item that cannot be written down
            return DestinationError(f"{type(error).__name__}: {error}", retryable=False, status=422)
        failed = {id(item) for item, _ in errors}
        self.errors += errors
        self.accepted += [item for item in items if id(item) not in failed]
        return None

    def _fail(self, items: Sequence[ScoreItem], error: DestinationError) -> None:
        if error.status not in _ONE_OF_THEM:
            self.halted = error
        elif error.status == 404 and self._destination.finds_traces:
            error = DestinationError(str(error), retryable=True, reason=TRACE_NOT_FOUND, status=404)
        self.errors += [(item, error) for item in items]


def needed(given: str | None, field: str, *variables: str, default: str | None = None) -> str:
    """Return an option, or else the first of these environment variables that is set.

    Raises:
        ConfigError: there is none.
    """
    value = given or next((os.environ[v] for v in variables if os.environ.get(v)), default)
    if not value:
        raise ConfigError(field, f"is missing: give it, or set {' or '.join(variables)}")
    return value.strip()


def server_url(
    given: str | None, *variables: str, default: str | None = None, field: str = "url", without: str = ""
) -> str:
    """Return a base URL without a slash at its end, and without a path that belongs to another API.

    By default it comes from an environment variable.

    Raises:
        ConfigError: there is none, it is no http URL, or it contains a user or password.
    """
    url = needed(given, field, *variables, default=default)
    if not re.match(r"https?://[^/\s@]+(/\S*)?$", url):
        shown = re.sub(r"//[^/@]*@", "//***@", url)
        raise ConfigError(field, f"{shown!r} is not a URL such as https://example.com")
    return re.sub(rf"({without})?/*$", "", url.rstrip("/"))
