"""Reading stored traces back from a backend: which are asked for, and the interface of what gives them.

Backends that are destinations too implement `read_traces` there. Others are found through the entry-point
group `otel_evals_trace_source`; each entry point is a class whose keyword arguments are its options.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from otel_evals._internal.deliver.items import iso
from otel_evals._internal.model import SpanRecord
from otel_evals.errors import ConfigError

TRACE_SOURCES = "otel_evals_trace_source"
"""Entry-point group."""

LARGEST_ANSWER = 256 * 1024 * 1024
"""Bytes of one answer with traces; a trace that is larger cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """Which traces a backend is asked for: those that began in a range of time. It may give more."""

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
        """The filter as NAME=VALUE words, as backends take it that have no language of their own.

        Raises:
            ConfigError: it has another form.
        """
        try:
            pairs = [word.partition("=") for word in shlex.split(self.filter)]
        except ValueError as error:
            raise ConfigError("--filter", f"{self.filter!r}: {error}") from None
        for name, equals, _ in pairs:
            if not name or not equals:
                raise ConfigError("--filter", f"must be NAME=VALUE words, not {self.filter!r}")
        return {name: value for name, _, value in pairs}


class TraceSource(Protocol):
    """Where stored traces come from. Its methods are awaited on one event loop."""

    def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]] | None:
        """The spans of each trace, every trace once; None where there is no API for it.

        Raises:
            DestinationError: the backend did not answer, or in another form.
            ConfigError: it cannot be asked with this filter.
        """

    async def shutdown(self) -> None:
        """Close the connections."""
