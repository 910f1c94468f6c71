"""The interface of conventions, each of which reads a convention's spans as Operations.

A convention claims spans by their instrumentation scope or, in scopes that no convention knows, by marker
attributes. It reads only what was recorded, and notes what was not. Conventions are found through the
entry-point group `otel_evals_convention`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, Protocol

from otel_evals import semconv
from otel_evals._internal.model import Operation, SpanRecord
from otel_evals._internal.util.bounded_cache import BoundedCache
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.installed import entry_points
from otel_evals._internal.util.plain import plain_text, type_name

ENTRY_POINT_GROUP = "otel_evals_convention"


_logger = logging.getLogger(__name__)
_MOST_LOGGED: Final = 20


class Convention(Protocol):
    """Reads the spans of a convention."""

    @property
    def name(self) -> str:
        """Short name, such as `openinference`."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """Prefixes of the instrumentation scopes whose spans it claims, regardless of attributes."""

    @property
    def markers(self) -> tuple[str, ...]:
        """Attribute keys; it claims a span with any of them if no convention knows the scope."""

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span; None if it is no operation of an agent. Must never raise."""


_BY_MARKER: Any = object()
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


class Conventions:
    """Chooses the convention of a span: by scope first, which is cached, then by markers.

    The first of several conventions that claim a span reads it.
    """

    def __init__(self, conventions: Iterable[Convention]) -> None:
        self._conventions = tuple(conventions)
        self._scopes: list[tuple[str, Convention]] = []
        self._named: dict[tuple[str, str], Convention] = {}
        self._by_marker: dict[str, Convention] = {}
        loggers: list[str] = []
        for each in self._conventions:
            # Read once: properties of third-party conventions may raise.
            self._scopes += [(prefix, each) for prefix in _texts(each, "scopes")]
            self._named.update(dict.fromkeys(getattr(each, "span_names", ()), each))
            loggers += _texts(each, "loggers")
            for marker in _texts(each, "markers"):
                self._by_marker.setdefault(marker, each)
        self._loggers = tuple(loggers)
        self._have_names = frozenset(scope for scope, _ in self._named)
        self.failing: dict[str, str] = {}
        """Conventions that raised while they read a span, with their first error."""
        self._by_scope: BoundedCache[str, Convention | None] = BoundedCache(_MOST_SCOPES)
        self._ranks = {marker: rank for rank, marker in enumerate(self._by_marker)}
        self._markers = frozenset(self._ranks)
        self._claimed: BoundedCache[str, bool | None] = BoundedCache(_MOST_SCOPES)

    def __iter__(self) -> Any:
        return iter(self._conventions)

    def unclaimed(self) -> list[str]:
        """Return the instrumentation scopes seen that no convention claims by name."""
        return sorted(name for name, claimed in self._claimed.copy().items() if not claimed)

    def claimed(self) -> list[str]:
        """Return the instrumentation scopes seen whose spans are claimed."""
        return sorted(name for name, claimed in self._claimed.copy().items() if claimed)

    def claims_log(self, scope_name: str, event_name: str) -> bool:
        """Return True for a log record that may have content: an event, or a line of a known logger."""
        return bool(event_name) or scope_name.startswith(self._loggers)

    def choose(self, scope_name: str, attributes: Mapping[str, Any], name: str = "") -> Convention | None:
        """Return the convention of spans of this scope, attributes and name; None without one."""
        try:
            convention = self._by_scope[scope_name]
        except KeyError:
            convention = self._by_scope[scope_name] = self._claim(scope_name)
        if convention is not _BY_MARKER:
            return convention
        if scope_name in self._have_names:
            convention = self._by_name(scope_name, name)
            if convention is not None:
                return convention
        markers = self._markers.intersection(attributes)
        return self._by_marker[min(markers, key=self._ranks.__getitem__)] if markers else None

    def _by_name(self, scope_name: str, name: str) -> Convention | None:
        """Return the convention of a span by its name, for scopes that frameworks share with others."""
        known = (
            d for (scope, start), d in self._named.items() if scope == scope_name and name.startswith(start)
        )
        return next(known, None)

    def claims(self, scope_name: str, span: Any) -> bool:
        """Return True if any convention claims a span of this scope, open or ended.

        Runs on the application's threads, so it must be fast: for most spans the scope alone decides.
        """
        try:
            claimed = self._claimed[scope_name]
        except KeyError:
            convention = self._claim(scope_name)
            claimed = self._claimed[scope_name] = None if convention is _BY_MARKER else convention is not None
        if claimed is not None:
            return claimed
        if scope_name in self._have_names and self._by_name(scope_name, span.name) is not None:
            return True
        # One copy and one pass, both in C: for spans of unknown scopes this is the whole cost.
        keys: Any = span.attributes or ()
        return not self._markers.isdisjoint(keys.copy() if hasattr(keys, "copy") else keys)

    def read(self, span: SpanRecord) -> Operation | None:
        """Read a span; None if no convention claims it, or it is no operation of an agent. Never raises."""
        convention = self.choose(span.scope_name, span.attributes, span.name)
        if convention is None:
            return None
        try:
            operation = convention.read(span)
            if operation is None or isinstance(operation, Operation):
                return operation
            raise TypeError(f"read returned a {type_name(operation)}, not an Operation")
        except BaseException as error:  # a third-party convention must not break the trace
            self._note(convention, error)
            return None

    def _note(self, convention: Convention, error: BaseException) -> None:
        name = plain_text(getattr(convention, "name", "") or type_name(convention), 100)
        if name not in self.failing and len(self.failing) < _MOST_LOGGED:
            self.failing[name] = f"cannot read spans ({type_name(error)})"
            message = "convention %s cannot read a span; further errors are not logged"
            log_error(_logger, message, name, error=error, level=logging.WARNING)

    def _claim(self, scope_name: str) -> Convention | None:
        """Return the convention of a scope by its longest prefix, or what decides about its spans."""
        # A scored evaluation would produce further evaluations to score.
        if scope_name == semconv.SCOPE_NAME or scope_name in _WITHOUT_MODELS:
            return None
        claims = [(len(p), d) for p, d in self._scopes if scope_name.startswith(p)]
        return max(claims, key=itemgetter(0))[1] if claims else _BY_MARKER


def load_conventions() -> Conventions:
    """Load the installed conventions, sorted by their `order` (an int, 0 by default) and then by name.

    The first of several whose markers a span has reads it.
    """
    found: list[tuple[int, str, Convention]] = []
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            convention = point.load()()
            found.append((int(getattr(convention, "order", 0)), point.name, convention))
        except BaseException as error:  # one broken package must not stop all scoring
            message = "convention %s cannot be loaded; its spans are not scored"
            log_error(_logger, message, point.name, error=error, level=logging.WARNING)
    found.sort(key=itemgetter(0, 1))
    return Conventions(map(itemgetter(2), found))


def _texts(convention: Convention, name: str) -> tuple[str, ...]:
    """Return the texts in a convention's property; none if it raises or does not exist."""
    try:
        return tuple(each for each in getattr(convention, name, ()) if isinstance(each, str))
    except BaseException as error:
        message = "the %s of convention %s cannot be read"
        log_error(_logger, message, name, type_name(convention), error=error, level=logging.WARNING)
        return ()


@lru_cache(maxsize=256)
def content_setting(scope_name: str, convention: str) -> str:
    """Return a description of the setting that makes an instrumentation record content.

    A convention may have it as `content`, and for some scopes in the mapping `content_by_scope`.
    """
    known = tuple(load_conventions())
    by_scope = {prefix: text for d in known for prefix, text in getattr(d, "content_by_scope", {}).items()}
    prefixes = [prefix for prefix in by_scope if scope_name.startswith(prefix)]
    if prefixes:
        return str(by_scope[max(prefixes, key=len)])
    texts = (getattr(d, "content", None) for d in known if d.name == convention)
    return str(next(texts, None) or "see its documentation")
