"""The interface of dialects, each of which reads the spans of one convention as Operations.

A dialect claims spans by their instrumentation scope or, in scopes that no dialect knows, by marker
attributes. It reads only what was recorded, and notes what was not. Dialects are found through the
entry-point group `otel_evals_dialect`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, Protocol

from otel_evals import semconv
from otel_evals._internal.model import Operation, SpanRecord

ENTRY_POINT_GROUP = "otel_evals_dialect"
CONTENT_SETTINGS = "otel_evals_content_setting"
"""Entry-point group of functions that know what turns content on: `(scope, dialect) -> words or None`."""


class Dialect(Protocol):
    """Reads the spans of one convention."""

    @property
    def name(self) -> str:
        """Short name, such as `openinference`."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """Prefixes of the instrumentation scopes whose spans it claims, whatever their attributes."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Attribute keys by any of which it claims a span of a scope that no dialect knows."""

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span; None if it is no operation of an agent. Must not raise, whatever the span holds."""


class HasAttributes(Protocol):
    """A span, whether it is still open, has ended or was read from a file."""

    @property
    def attributes(self) -> Mapping[str, Any] | None:
        """The span's attributes."""


_BY_MARKER: Any = object()
_UNKNOWN: Any = object()

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
"""Scopes of OpenTelemetry instrumentations that record no models; their spans' attributes are not looked at.

`botocore` is not among them: it records calls of Bedrock models.
"""


class Dialects:
    """Chooses the dialect of a span: by scope first, which is cached, then by markers.

    Where several dialects claim a span, the first one reads it.
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

    def unclaimed(self) -> list[str]:
        """The instrumentation scopes whose spans came and that no dialect claims by name."""
        return sorted(name for name, claimed in self._claimed.copy().items() if not claimed)

    def claimed(self) -> list[str]:
        """The instrumentation scopes whose spans came and were claimed."""
        return sorted(name for name, claimed in self._claimed.copy().items() if claimed)

    def choose(self, scope_name: str, attributes: Mapping[str, Any]) -> Dialect | None:
        """The dialect that reads spans of this scope with these attributes; None if none claims them."""
        dialect = self._by_scope.get(scope_name, _UNKNOWN)
        if dialect is _UNKNOWN:
            dialect = self._of_scope(scope_name)
        if dialect is not _BY_MARKER:
            return dialect
        markers = self._markers.intersection(attributes)
        return self._by_marker[min(markers, key=self._ranks.__getitem__)] if markers else None

    def claims(self, scope_name: str, span: HasAttributes) -> bool:
        """Whether any dialect claims a span of this scope.

        Fast, since it runs on the application's threads; for most spans the scope alone decides, and their
        attributes are not asked for.
        """
        try:
            claimed = self._claimed[scope_name]
        except KeyError:
            dialect = self._of_scope(scope_name)
            claimed = self._claimed[scope_name] = None if dialect is _BY_MARKER else dialect is not None
        if claimed is not None:
            return claimed
        # One copy and one pass, both in C: for spans of unknown scopes this is the whole cost.
        keys: Any = span.attributes or ()
        return not self._markers.isdisjoint(keys.copy() if hasattr(keys, "copy") else keys)

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span with its dialect; None if none claims it, or it is no operation of an agent."""
        dialect = self._by_scope.get(span.scope_name, _UNKNOWN)
        if dialect is _UNKNOWN or dialect is _BY_MARKER:
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
    """All installed dialects, by their `order` (an int, 0 where they have none) and then by name.

    Where a span has the markers of several, the first of them reads it.
    """
    found = [(point.name, point.load()()) for point in entry_points(group=ENTRY_POINT_GROUP)]
    found.sort(key=lambda named: (getattr(named[1], "order", 0), named[0]))
    return Dialects(dialect for _, dialect in found)


@lru_cache(maxsize=256)
def content_setting(scope_name: str, dialect: str) -> str:
    """The setting that has an instrumentation record content, in words.

    Args:
        scope_name: of the spans.
        dialect: the dialect's name.
    """
    for point in entry_points(group=CONTENT_SETTINGS):
        setting = point.load()(scope_name, dialect)
        if setting:
            return str(setting)
    return "see its documentation"
