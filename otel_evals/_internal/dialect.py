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
"""Entry-point group of functions `(scope, dialect) -> str | None`, which name the setting for content."""


class Dialect(Protocol):
    """Reads the spans of one convention."""

    @property
    def name(self) -> str:
        """Short name, such as `openinference`."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """Prefixes of the instrumentation scopes whose spans it claims, regardless of attributes."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Attribute keys; it claims a span with any of them if no dialect knows the scope."""

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span; None if it is no operation of an agent. Must never raise."""


class HasAttributes(Protocol):
    """A span that is open, has ended or was read from a file."""

    @property
    def attributes(self) -> Mapping[str, Any] | None:
        """The span's attributes."""


_BY_MARKER: Any = object()
_UNKNOWN: Any = object()

_NO_MODELS = """
aio_pika aiohttp_client aiohttp_server aiokafka aiopg asgi asyncio asyncpg boto boto3sqs cassandra celery
click confluent_kafka dbapi django elasticsearch falcon fastapi flask grpc httpx jinja2 kafka logging
mysql mysqlclient pika psycopg psycopg2 pymemcache pymongo pymssql pymysql pyramid redis remoulade
requests sqlalchemy sqlite3 starlette system_metrics threading tornado tortoiseorm urllib urllib3 wsgi
"""
"""Libraries whose OpenTelemetry instrumentations record no models: attributes of their spans are not read.

`botocore` is not one of them: it records calls of Bedrock models.
"""


class Dialects:
    """Chooses the dialect of a span: by scope first, which is cached, then by markers.

    The first of several dialects that claim a span reads it.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        self._dialects = tuple(dialects)
        self._by_scope: dict[str, Dialect | None] = {semconv.SCOPE_NAME: None}
        for library in _NO_MODELS.split():
            self._by_scope[f"opentelemetry.instrumentation.{library}"] = None
        by_marker = [(marker, d) for d in self._dialects for marker in d.markers]
        self._by_marker = dict(reversed(by_marker))
        self._ranks = {marker: rank for rank, marker in enumerate(dict.fromkeys(m for m, _ in by_marker))}
        self._markers = frozenset(self._ranks)
        self._claimed: dict[str, bool | None] = {}

    def __iter__(self) -> Any:
        return iter(self._dialects)

    def unclaimed(self) -> list[str]:
        """Return the instrumentation scopes seen that no dialect claims by name."""
        return sorted(name for name, claimed in self._claimed.copy().items() if not claimed)

    def claimed(self) -> list[str]:
        """Return the instrumentation scopes seen whose spans are claimed."""
        return sorted(name for name, claimed in self._claimed.copy().items() if claimed)

    def choose(self, scope_name: str, attributes: Mapping[str, Any]) -> Dialect | None:
        """Return the dialect for spans of this scope with these attributes; None if none claims them."""
        dialect: Dialect | None = self._by_scope.get(scope_name, _UNKNOWN)
        if dialect is _UNKNOWN:
            dialect = self._of_scope(scope_name)
        if dialect is not _BY_MARKER:
            return dialect
        markers = self._markers.intersection(attributes)
        return self._by_marker[min(markers, key=self._ranks.__getitem__)] if markers else None

    def claims(self, scope_name: str, span: HasAttributes) -> bool:
        """Return True if any dialect claims a span of this scope.

        Runs on the application's threads, so it must be fast: for most spans the scope alone decides.
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
        """Read a span; None if no dialect claims it, or it is no operation of an agent."""
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
        """Return the dialect with the longest prefix of this scope, the first of several."""
        claims = [(len(p), d) for d in self._dialects for p in d.scopes if scope_name.startswith(p)]
        return max(claims, key=lambda claim: claim[0])[1] if claims else None


def load_dialects() -> Dialects:
    """Load the installed dialects, sorted by their `order` (an int, 0 by default) and then by name.

    The first of several whose markers a span has reads it.
    """
    found = [(point.name, point.load()()) for point in entry_points(group=ENTRY_POINT_GROUP)]
    found.sort(key=lambda named: (getattr(named[1], "order", 0), named[0]))
    return Dialects(dialect for _, dialect in found)


@lru_cache(maxsize=256)
def content_setting(scope_name: str, dialect: str) -> str:
    """Return a description of the setting that makes an instrumentation record content."""
    for point in entry_points(group=CONTENT_SETTINGS):
        setting = point.load()(scope_name, dialect)
        if setting:
            return str(setting)
    return "see its documentation"
