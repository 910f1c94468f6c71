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


_BY_MARKER: Any = object()

_NEVER = [
    f"opentelemetry.instrumentation.{library}"
    for library in (
        "aio_pika",
        "aiohttp_client",
        "aiohttp_server",
        "aiokafka",
        "aiopg",
        "asgi",
        "asyncio",
        "asyncpg",
        "boto",
        "boto3sqs",
        "cassandra",
        "celery",
        "click",
        "confluent_kafka",
        "dbapi",
        "django",
        "elasticsearch",
        "falcon",
        "fastapi",
        "flask",
        "grpc",
        "httpx",
        "jinja2",
        "kafka",
        "logging",
        "mysql",
        "mysqlclient",
        "pika",
        "psycopg",
        "psycopg2",
        "pymemcache",
        "pymongo",
        "pymssql",
        "pymysql",
        "pyramid",
        "redis",
        "remoulade",
        "requests",
        "sqlalchemy",
        "sqlite3",
        "starlette",
        "system_metrics",
        "threading",
        "tornado",
        "tortoiseorm",
        "urllib",
        "urllib3",
        "wsgi",
    )
]
"""Scopes of OpenTelemetry's instrumentations of other things than models (`botocore` is not among them: it
records Bedrock's models). Nobody looks at their spans' attributes."""


class Dialects:
    """Chooses the dialect of a span: by scope first, by markers second; the scope's choice is cached.

    Earlier dialects win over later ones.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self._dialects = tuple(dialects)
        self._by_scope: dict[str, Dialect | None] = {semconv.SCOPE_NAME: None, **dict.fromkeys(_NEVER)}
        by_marker = [(marker, d) for d in self._dialects for marker in d.markers]
        self._by_marker = dict(reversed(by_marker))
        self._ranks = {marker: rank for rank, marker in enumerate(dict.fromkeys(m for m, _ in by_marker))}
        self._markers = frozenset(self._ranks)
        self._claimed: dict[str, bool | None] = {}

    def __iter__(self) -> Any:
        return iter(self._dialects)

    def choose(self, scope_name: str, attributes: Mapping[str, Any]) -> Dialect | None:
        """The dialect that reads spans of this scope with these attributes; None when nobody claims them."""
        dialect = self._of_scope(scope_name)
        if dialect is not _BY_MARKER:
            return dialect
        markers = self._markers.intersection(attributes)
        return self._by_marker[min(markers, key=self._ranks.__getitem__)] if markers else None

    def claims_scope(self, scope_name: str) -> bool | None:
        """Whether the spans of a scope are read; None where their attributes decide.

        Cheap, as `claims_attributes` is: both run on the application's threads.
        """
        try:
            return self._claimed[scope_name]
        except KeyError:
            dialect = self._of_scope(scope_name)
            told = self._claimed[scope_name] = None if dialect is _BY_MARKER else dialect is not None
            return told

    def claims_attributes(self, attributes: Mapping[str, Any] | None) -> bool:
        """Whether any dialect reads spans with such attributes, in a scope that does not tell."""
        # One copy made in C, then one pass in C: most spans of unknown scopes end here.
        keys: Any = attributes or ()
        return not self._markers.isdisjoint(keys.copy() if hasattr(keys, "copy") else keys)

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span with its dialect; None when nobody claims it or it says nothing about an agent."""
        dialect = self.choose(span.scope_name, span.attributes)
        return None if dialect is None or span.attributes.get(semconv.MARK) else dialect.read(span)

    def _of_scope(self, scope_name: str) -> Dialect | None:
        try:
            return self._by_scope[scope_name]
        except KeyError:
            dialect = self._by_scope[scope_name] = self._claim(scope_name) or _BY_MARKER
            return dialect

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
