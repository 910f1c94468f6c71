"""The socket for span conventions: an ended span in, an Operation out.

A dialect knows one convention. It claims spans by their instrumentation scope or, in scopes nobody knows,
by marker attributes; it reads only what is there and says what is not. Dialects are found through the
entry-point group `otel_evals_dialect`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any, Protocol

from otel_evals import semconv
from otel_evals.model import Operation, SpanRecord

__all__ = ["ENTRY_POINT_GROUP", "Dialect", "Dialects", "load_dialects"]

ENTRY_POINT_GROUP = "otel_evals_dialect"


class Dialect(Protocol):
    """Knows one span convention."""

    @property
    def name(self) -> str:
        """Short name, such as `openinference`."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """Instrumentation scopes whose spans are all this dialect's, by prefix."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Attribute keys, any of which makes a span of an unknown scope this dialect's."""

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span; None if it says nothing about an agent. Must not raise, whatever the span holds."""


class Dialects:
    """Chooses the dialect of a span: by scope first, by markers second; the scope's choice is cached.

    Earlier dialects win over later ones.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self._dialects = tuple(dialects)
        self._by_scope: dict[str, Dialect | None] = {semconv.SCOPE_NAME: None}
        self._by_marker = [(marker, d) for d in self._dialects for marker in d.markers]

    def __iter__(self) -> Any:
        return iter(self._dialects)

    def choose(self, scope_name: str, attributes: Mapping[str, Any]) -> Dialect | None:
        """The dialect that reads spans of this scope with these attributes; None when nobody claims them.

        Thread-safe, parses nothing: this runs on the application's threads.
        """
        try:
            dialect = self._by_scope[scope_name]
        except KeyError:
            dialect = self._by_scope[scope_name] = self._claim(scope_name)
        if dialect is not None or scope_name == semconv.SCOPE_NAME:
            return dialect
        for marker, dialect in self._by_marker:
            if marker in attributes:
                return dialect
        return None

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span with its dialect; None when nobody claims it or it says nothing about an agent."""
        dialect = self.choose(span.scope_name, span.attributes)
        return None if dialect is None or span.attributes.get(semconv.MARK) else dialect.read(span)

    def _claim(self, scope_name: str) -> Dialect | None:
        """The dialect with the longest prefix of this scope."""
        claims = [
            (len(p), -i, d)
            for i, d in enumerate(self._dialects)
            for p in d.scopes
            if scope_name.startswith(p)
        ]
        return max(claims, key=lambda claim: claim[:2])[2] if claims else None


def load_dialects() -> Dialects:
    """All installed dialects by name; OpenTelemetry's own, which most others write too, comes last."""
    points = sorted(
        entry_points(group=ENTRY_POINT_GROUP), key=lambda point: (point.name == "otel_genai", point.name)
    )
    return Dialects(point.load()() for point in points)
