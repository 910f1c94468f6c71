"""The interface of dialects, each of which reads a convention's spans as Operations.

A dialect claims spans by their instrumentation scope or, in scopes that no dialect knows, by marker
attributes. It reads only what was recorded, and notes what was not. Dialects are found through the
entry-point group `otel_evals_dialect`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Protocol

import msgspec

from otel_evals import semconv
from otel_evals._internal.model import Availability, Operation, SpanRecord
from otel_evals._internal.model.derived import DERIVATION, Derivation
from otel_evals._internal.model.operations import CONTENT
from otel_evals._internal.util.bounded_cache import BoundedCache
from otel_evals._internal.util.entry_points import entry_points
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.plain import attribute, plain_text, type_name

ENTRY_POINT_GROUP = "otel_evals_dialect"
CONTENT_SETTINGS = "otel_evals_content_setting"
"""Entry-point group of functions `(scope, dialect) -> str | None`, which name the setting for content."""


_logger = logging.getLogger(__name__)
_AVAILABILITY: Final = ("availability", "sources")
_MOST_LOGGED: Final = 20
_logged: set[str] = set()
"""Instrumentation scopes with unreadable spans that were logged as a warning."""


class Dialect(Protocol):
    """Reads the spans of a convention."""

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


_BY_MARKER: Any = object()
_UNKNOWN: Any = object()
_MOST_SCOPES: Final = 1_000
"""Instrumentation scopes to remember; a sender may invent new ones for ever."""

_NO_MODELS = """
aio_pika aiohttp_client aiohttp_server aiokafka aiopg asgi asyncio asyncpg boto boto3sqs cassandra celery
click confluent_kafka dbapi django elasticsearch falcon fastapi flask grpc httpx jinja2 kafka logging
mysql mysqlclient pika psycopg psycopg2 pymemcache pymongo pymssql pymysql pyramid redis remoulade
requests sqlalchemy sqlite3 starlette system_metrics threading tornado tortoiseorm urllib urllib3 wsgi
"""
"""Libraries whose OpenTelemetry instrumentations record no models: attributes of their spans are not read.

`botocore` is not one of them: it records calls of Bedrock models.
"""
_WITHOUT_MODELS: Final = frozenset(f"opentelemetry.instrumentation.{name}" for name in _NO_MODELS.split())


class Dialects:
    """Chooses the dialect of a span: by scope first, which is cached, then by markers.

    The first of several dialects that claim a span reads it.
    """

    def __init__(self, dialects: Iterable[Dialect]) -> None:
        # Read once: properties of third-party dialects may raise.
        found = [(d, _texts(d, "scopes"), _texts(d, "markers")) for d in dialects]
        self._dialects = tuple(d for d, _, _ in found)
        self._scopes = [(prefix, d) for d, scopes, _ in found for prefix in scopes]
        self._loggers = tuple(prefix for d, _, _ in found for prefix in _texts(d, "loggers"))
        self._named = {(s, n): d for d, _, _ in found for s, n in getattr(d, "span_names", ())}
        self._have_names = frozenset(scope for scope, _ in self._named)
        self.failing: dict[str, str] = {}
        """Dialects that raised while they read a span, with their first error."""
        self._by_scope: BoundedCache[str, Dialect | None] = BoundedCache(_MOST_SCOPES)
        by_marker = [(marker, d) for d, _, markers in found for marker in markers]
        self._by_marker = dict(reversed(by_marker))
        self._ranks = {marker: rank for rank, marker in enumerate(dict.fromkeys(m for m, _ in by_marker))}
        self._markers = frozenset(self._ranks)
        self._claimed: BoundedCache[str, bool | None] = BoundedCache(_MOST_SCOPES)

    def __iter__(self) -> Any:
        return iter(self._dialects)

    def unclaimed(self) -> list[str]:
        """Return the instrumentation scopes seen that no dialect claims by name."""
        return sorted(name for name, claimed in self._claimed.copy().items() if not claimed)

    def claimed(self) -> list[str]:
        """Return the instrumentation scopes seen whose spans are claimed."""
        return sorted(name for name, claimed in self._claimed.copy().items() if claimed)

    def knows(self, scope_name: str) -> bool:
        """Return True if a dialect claims all spans of this scope."""
        return self._of_scope(scope_name) not in (None, _BY_MARKER)

    def claims_log(self, scope_name: str, event_name: str) -> bool:
        """Return True for a log record that may have content: an event, or a line of a known logger."""
        return bool(event_name) or scope_name.startswith(self._loggers)

    def choose(self, scope_name: str, attributes: Mapping[str, Any], name: str = "") -> Dialect | None:
        """Return the dialect of spans of this scope with these attributes and this name; None without one."""
        dialect: Dialect | None = self._by_scope.get(scope_name, _UNKNOWN)
        if dialect is _UNKNOWN:
            dialect = self._of_scope(scope_name)
        if dialect is not _BY_MARKER:
            return dialect
        if scope_name in self._have_names:
            dialect = self._by_name(scope_name, name)
            if dialect is not None:
                return dialect
        markers = self._markers.intersection(attributes)
        return self._by_marker[min(markers, key=self._ranks.__getitem__)] if markers else None

    def _by_name(self, scope_name: str, name: str) -> Dialect | None:
        """Return the dialect of a span by its name, for scopes that frameworks share with others."""
        known = (
            d for (scope, start), d in self._named.items() if scope == scope_name and name.startswith(start)
        )
        return next(known, None)

    def claims(self, scope_name: str, span: Any) -> bool:
        """Return True if any dialect claims a span of this scope, open or ended.

        Runs on the application's threads, so it must be fast: for most spans the scope alone decides.
        """
        try:
            claimed = self._claimed[scope_name]
        except KeyError:
            dialect = self._of_scope(scope_name)
            claimed = self._claimed[scope_name] = None if dialect is _BY_MARKER else dialect is not None
        if claimed is not None:
            return claimed
        if scope_name in self._have_names and self._by_name(scope_name, span.name) is not None:
            return True
        # One copy and one pass, both in C: for spans of unknown scopes this is the whole cost.
        keys: Any = span.attributes or ()
        return not self._markers.isdisjoint(keys.copy() if hasattr(keys, "copy") else keys)

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span; None if no dialect claims it, or it is no operation of an agent. Never raises."""
        dialect = self._by_scope.get(span.scope_name, _UNKNOWN)
        if (
            dialect is _BY_MARKER and span.scope_name not in self._have_names
        ):  # as in `choose`, without a call
            markers = self._markers.intersection(span.attributes)
            dialect = self._by_marker[min(markers, key=self._ranks.__getitem__)] if markers else None
        elif dialect is _BY_MARKER or dialect is _UNKNOWN:
            dialect = self.choose(span.scope_name, span.attributes, span.name)
        if dialect is None:
            return None
        try:
            operation = dialect.read(span)
            if operation is None or isinstance(operation, Operation):
                return operation
            raise TypeError(f"read returned a {type_name(operation)}, not an Operation")
        except BaseException as error:  # a third-party dialect must not break the trace
            self._note(dialect, error)
            return None

    def _note(self, dialect: Dialect, error: BaseException) -> None:
        name = plain_text(attribute(dialect, "name") or type_name(dialect), 100)
        if name not in self.failing and len(self.failing) < _MOST_LOGGED:
            self.failing[name] = f"cannot read spans ({type_name(error)})"
            message = "dialect %s cannot read a span; further errors are not logged"
            log_error(_logger, message, name, error=error, level=logging.WARNING)

    def _of_scope(self, scope_name: str) -> Dialect | None:
        try:
            return self._by_scope[scope_name]
        except KeyError:
            dialect = self._by_scope[scope_name] = self._claim(scope_name)
            return dialect

    def _claim(self, scope_name: str) -> Dialect | None:
        """Return the dialect of a scope by its longest prefix, or what decides about its spans."""
        if scope_name == semconv.SCOPE_NAME or scope_name in _WITHOUT_MODELS:
            return None
        claims = [(len(p), d) for p, d in self._scopes if scope_name.startswith(p)]
        return max(claims, key=itemgetter(0))[1] if claims else _BY_MARKER


def load_dialects() -> Dialects:
    """Load the installed dialects, sorted by their `order` (an int, 0 by default) and then by name.

    The first of several whose markers a span has reads it.
    """
    found: list[tuple[int, str, Dialect]] = []
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            dialect = point.load()()
            found.append((int(getattr(dialect, "order", 0)), point.name, dialect))
        except BaseException as error:  # one broken package must not stop all scoring
            message = "dialect %s cannot be loaded; its spans are not scored"
            log_error(_logger, message, point.name, error=error, level=logging.WARNING)
    found.sort(key=itemgetter(0, 1))
    return Dialects(map(itemgetter(2), found))


def _texts(dialect: Dialect, name: str) -> tuple[str, ...]:
    """Return the texts in a dialect's property; none if it raises or does not exist."""
    try:
        return tuple(each for each in getattr(dialect, name, ()) if isinstance(each, str))
    except BaseException as error:
        message = "the %s of dialect %s cannot be read"
        log_error(_logger, message, name, type_name(dialect), error=error, level=logging.WARNING)
        return ()


@lru_cache(maxsize=256)
def content_setting(scope_name: str, dialect: str) -> str:
    """Return a description of the setting that makes an instrumentation record content."""
    for point in entry_points(group=CONTENT_SETTINGS):
        try:
            if setting := point.load()(scope_name, dialect):
                return str(setting)
        except BaseException as error:
            log_error(_logger, "content setting %s failed", point.name, error=error, level=logging.WARNING)
    return "see its documentation"


def read_operations(
    records: Iterable[SpanRecord], dialects: Dialects
) -> list[tuple[int, int, str, Operation]]:
    """Return the operations of a trace after what orders them: start, end (the latest first) and span id."""
    found: list[tuple[int, int, str, Operation]] = []
    for record in records:
        operation = dialects.read(record)
        if operation is not None:
            span = operation.span
            found.append((span.start_time, -(span.end_time or 0), span.span_id, operation))
    _defer_content(map(itemgetter(3), found))
    return found


def _defer_content(operations: Iterable[Operation]) -> None:
    """Defer reading the content of new operations to its first use.

    Truncated JSON can be recognised, truncated text cannot. But an attribute length limit is the same for
    all attributes: if truncated JSON has the greatest length in the trace, a text of that length is
    truncated too. So the availability of one operation's content depends on all others.
    """
    contents: list[_Content] = []
    trace = _TraceContent(())
    for operation in operations:
        values = operation.__dict__
        derivation, found = values.get(DERIVATION), None
        if derivation is None:
            found = {name: getattr(operation, name) for name in _AVAILABILITY}
        content = _Content(operation.span, derivation, found)
        contents.append(content)
        values.pop("availability", None)
        values.pop("sources", None)
        values[DERIVATION] = _ContentOfTrace(content, trace)
    trace.contents = tuple(contents)


# The garbage collector skips these three: none refers to an operation, and neither may a derivation.


class _TraceContent(msgspec.Struct, eq=False, gc=False):
    """The content of a trace's operations."""

    contents: tuple[_Content, ...]
    marked: bool = False


class _Content(msgspec.Struct, eq=False, gc=False):
    """The content of a span, without a reference to its operation: neither keeps the other alive."""

    span: SpanRecord
    derivation: Derivation | None
    known: Mapping[str, Any] | None
    failed: bool = False

    def found(self) -> Mapping[str, Any]:
        """Return the fields that were left to be read."""
        if self.known is None and self.derivation is not None:
            found = self._read(self.derivation)
            if self.known is None:  # another thread may have been first; both found the same
                self.known = found
        return self.known or {}

    def _read(self, derivation: Derivation) -> Mapping[str, Any]:
        try:
            return derivation.derive("availability")
        except BaseException as error:  # a third-party dialect must not fail the scorer
            logged = self.span.scope_name in _logged or len(_logged) >= _MOST_LOGGED
            level = logging.DEBUG if logged else logging.WARNING
            if not logged:
                _logged.add(self.span.scope_name)
            message = "the content of span %s could not be read"
            log_error(_logger, message, self.span.span_id, error=error, level=level)
            self.failed = True
            return dict(_NOTHING_FOUND, availability={}, sources={})


class _ContentOfTrace(msgspec.Struct, eq=False, gc=False):
    """An operation's content in its trace. The trace does not refer to it, which avoids a cycle."""

    content: _Content
    trace: _TraceContent
    failed: bool = False

    def derive(self, field: str) -> Mapping[str, Any]:
        found = self.content.found()
        self.failed = self.content.failed
        if field in _AVAILABILITY:
            if not self.trace.marked:
                _mark_truncated(self.trace.contents)
                self.trace.marked = True
            return {name: found[name] for name in _AVAILABILITY}
        rest = dict(found)
        for name in _AVAILABILITY:
            rest.pop(name, None)
        return rest


_NOTHING_FOUND = {f.name: f.default for f in fields(Operation) if f.name in CONTENT}


def _mark_truncated(contents: Sequence[_Content]) -> None:
    cut_off = [c for c in contents if Availability.TRUNCATED in c.found()["availability"].values()]
    limit = max((n for c in cut_off for n in _cut_lengths(c)), default=0)
    if not limit or any(
        len(v) > limit for c in contents for v in c.span.attributes.values() if isinstance(v, str)
    ):
        return
    for content in contents:
        for field, source in content.found()["sources"].items():
            value = content.span.attributes.get(source.key)
            if isinstance(value, str) and len(value) == limit:
                content.found()["availability"][field] = Availability.TRUNCATED


def _cut_lengths(content: _Content) -> list[int]:
    availability, sources = (content.found()[name] for name in _AVAILABILITY)
    cut_off = [field for field, state in availability.items() if state is Availability.TRUNCATED]
    keys = [sources[field].key for field in cut_off if field in sources]
    values = [content.span.attributes.get(key) for key in keys]
    return [len(value) for value in values if isinstance(value, str)]
