"""The base of destinations that send scores to an HTTP API."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import anyio

from otel_evals._internal.deliver.destination import Unaccepted
from otel_evals._internal.deliver.http import HttpClient, HttpOptions
from otel_evals._internal.deliver.items import ScoreItem, items_of
from otel_evals._internal.deliver.reading import FeedbackQuery, TraceQuery
from otel_evals._internal.deliver.retry import TRACE_NOT_FOUND
from otel_evals._internal.model import Feedback, ScoredRun, SpanRecord
from otel_evals.errors import ConfigError, DestinationError

_ONE_OF_THEM = {400, 404, 409, 413, 422}
"""Statuses that may be caused by one item of a request."""
_REMEMBERED = 20_000
_BUDGET = 25.0
"""Seconds for one batch; the rest is sent with a later one."""

Errors = Sequence[tuple[ScoreItem, DestinationError]]
"""Items that were not accepted, and why."""


class SentRevisions:
    """Remembers the later revisions that a backend has accepted, up to 20,000.

    Refused scores are sent again, so an earlier revision may be sent last; it must not replace a later one.
    """

    def __init__(self) -> None:
        self._sent: OrderedDict[str, int] = OrderedDict()

    def current(self, items: Iterable[ScoreItem]) -> list[ScoreItem]:
        """Return the items without those that have a later revision among them or at the backend."""
        items = list(items)
        newest: dict[str, int] = {}
        for item in items:
            known = newest.get(item.id) or self._sent.get(item.id, 0)
            newest[item.id] = max(known, item.evaluation.revision)
        return [item for item in items if item.evaluation.revision == newest[item.id]]

    def accepted(self, items: Iterable[ScoreItem]) -> None:
        """Remember items that the backend has accepted; a first revision replaces none."""
        for item in items:
            if item.evaluation.revision > 1:
                self._sent[item.id] = item.evaluation.revision
                self._sent.move_to_end(item.id)
        while len(self._sent) > _REMEMBERED:
            self._sent.popitem(last=False)


class ApiDestination(ABC):
    """Sends scores to an API; a refused request is halved until the bad items are alone.

    A subclass implements `send`, which makes a request.

    Args:
        http: the client.
        content: whether to send explanations and error messages, which may quote the conversation.
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

    def __init__(self, http: HttpClient, content: bool = True) -> None:
        self._http = http
        self._content = content
        self._revisions = SentRevisions()

    @abstractmethod
    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send at most `most` scores in one request; returns those that were not accepted.

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

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """Return address and headers for sending spans by OTLP over HTTP; None if they are unknown."""
        return None

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        """Return a score as the backend has it; None if it has none, or no API to read it."""
        return None

    def read_feedback(self, query: FeedbackQuery) -> AsyncIterator[Feedback | None] | None:
        """Read feedback, None for each unreadable record; None without an API for it."""
        return None

    def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]] | None:
        """Read stored traces; None without an API for it."""
        return None

    async def export(self, batch: Sequence[ScoredRun]) -> Sequence[Unaccepted]:
        """Send the scores of a batch, each in its newest revision.

        Raises:
            DestinationError: nothing was accepted, and all for one reason.
        """
        items = self._revisions.current(items_of(batch, content=self._content, errors=self.takes_errors))
        sending = _Sending(self)
        sendable = [item for item in items if not sending.screened(item)]
        groups: dict[str, list[ScoreItem]] = {self.together(item): [] for item in sendable}
        for item in sendable:
            groups[self.together(item)].append(item)
        parts = [g[i : i + self.most] for g in groups.values() for i in range(0, len(g), self.most)]
        limiter = anyio.CapacityLimiter(self.at_once)
        async with anyio.create_task_group() as group:
            for part in parts:
                group.start_soon(sending.limited, limiter, part)
        failed = {id(item) for item, _ in sending.errors}
        self._revisions.accepted(item for item in sendable if id(item) not in failed)
        if sending.halted is not None and not sending.accepted:
            raise sending.halted
        return [Unaccepted(item.evaluation, error) for item, error in sending.errors]

    async def shutdown(self) -> None:
        """Close the connections."""
        await self._http.close()


class _Sending:
    def __init__(self, destination: ApiDestination) -> None:
        self._destination = destination
        self._end = anyio.current_time() + _BUDGET
        self.errors: list[tuple[ScoreItem, DestinationError]] = []
        self.accepted = 0
        self.halted: DestinationError | None = None
        """An error that every other request would have too."""

    def screened(self, item: ScoreItem) -> bool:
        """Record a score that the backend refuses; returns whether it does."""
        reason = self._destination.refuses(item)
        if reason is not None:
            problem = f"{self._destination.name} has no place for {item.name} = {item.value}"
            self.errors.append((item, DestinationError(problem, retryable=False, reason=reason)))
        return reason is not None

    async def limited(self, limiter: anyio.CapacityLimiter, items: Sequence[ScoreItem]) -> None:
        async with limiter:
            await self._send(items)

    async def _send(self, items: Sequence[ScoreItem]) -> None:
        halted = self.halted
        if halted is None and anyio.current_time() > self._end:
            halted = DestinationError(f"not sent within {_BUDGET:g} s", retryable=True, reason="timeout")
        if halted is not None:
            self.errors += [(item, halted) for item in items]
            return
        try:
            errors = await self._destination.send(items)
        except DestinationError as error:
            await self._failed(items, error)
        except Exception as error:  # an item that cannot be written down
            problem = f"{type(error).__name__}: {error}"
            await self._failed(items, DestinationError(problem, retryable=False, status=422))
        else:
            self.errors += errors
            self.accepted += len(items) - len(errors)

    async def _failed(self, items: Sequence[ScoreItem], error: DestinationError) -> None:
        if error.status in _ONE_OF_THEM and len(items) > 1:
            middle = len(items) // 2
            await self._send(items[:middle])
            await self._send(items[middle:])
            return
        if error.status == 404 and self._destination.finds_traces:
            error = DestinationError(str(error), retryable=True, reason=TRACE_NOT_FOUND, status=404)
        elif error.status not in _ONE_OF_THEM:
            self.halted = error
        self.errors += [(item, error) for item in items]


def needed(given: str | None, field: str, *variables: str, default: str | None = None) -> str:
    """Return an option, or else the first of these environment variables that is set.

    Raises:
        ConfigError: there is none.
    """
    value = given or next((os.environ[v] for v in variables if os.environ.get(v)), default)
    if not value:
        raise ConfigError(field, f"is missing: give it, or set {' or '.join(variables)}")
    if not isinstance(value, str):  # YAML reads an unquoted key of digits as a number
        raise ConfigError(field, f"must be text, not {type(value).__name__}: put it in quotes")
    return value.strip()


def client(
    url: str, headers: Mapping[str, str], *secrets: str | None, http: HttpOptions | Mapping[str, Any] | None
) -> HttpClient:
    """Return an HTTP client; `http` has its options, as in YAML."""
    return HttpClient(url, headers, secrets, HttpOptions.of(http))
