"""A Redis or Valkey server that processes share: counters, with bounded calls.

A call waits at most `CALL_SECONDS` for each part of an answer. After a failure, or an answer of another form,
further calls fail at once for `PAUSE_SECONDS`, which keeps threads and queues free while a server is away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from otel_evals._internal.util.credentials import without_credentials
from otel_evals._internal.util.fork import renew_after_fork
from otel_evals._internal.util.installed import extra
from otel_evals.errors import ConfigError, StoreError

_logger = logging.getLogger(__name__)

CALL_SECONDS = 1.0
"""Timeout of connecting, and of a part of an answer."""
PAUSE_SECONDS = 1.0
"""Seconds without calls after a failure."""
PREFIX = "otel-evals"

_servers: dict[str, RedisServer] = {}
_SCHEMES = ("redis", "rediss")


def is_address(store: object, field: str) -> bool:
    """Return True for a server's address, False for a file's path; raise ConfigError for another address."""
    if not isinstance(store, str) or "://" not in store:
        return False
    if store.partition("://")[0] not in _SCHEMES:
        raise ConfigError(field, "must be a file's path, or redis://HOST:PORT/NUMBER (rediss:// with TLS)")
    return True


def servers() -> list[RedisServer]:
    """Return the servers that this process has named."""
    return list(_servers.values())


def redis_server(url: str) -> RedisServer:
    """Return the server at an address; all users of the address share its connections."""
    # `setdefault` returns the same object to all threads.
    return _servers.get(url) or _servers.setdefault(url, RedisServer(url))


class RedisServer:
    """Makes calls, from any thread. Its methods raise StoreError if the server is away or refuses.

    Raises ConfigError if the address is invalid, or the extra `redis` is not installed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._storage = _storage(url)
        self.name = without_credentials(url)
        """The address without user, password and options."""
        self.failures = 0
        """Calls that failed, or were skipped after a failure."""
        self._pause_ends = 0.0
        self._away = False
        self.lock = threading.Lock()
        renew_after_fork(self)

    def __reduce__(self) -> tuple[Callable[[str], RedisServer], tuple[str]]:
        return redis_server, (self._url,)

    def renew(self) -> None:
        """Replace the lock in a forked child; the library makes its own connections."""
        self.lock = threading.Lock()

    def add(self, key: str, amount: int, seconds: float) -> int:
        """Add to a counter, which lasts for some seconds after its first use; return its value."""
        return self._call(lambda: int(self._storage.incr(key, round(seconds), amount=amount)))

    def value(self, key: str) -> int:
        return self._call(lambda: int(self._storage.get(key)))

    def _call(self, work: Callable[[], int]) -> int:
        """Return the result of `work`.

        Raises:
            StoreError: the server is away, or refuses; the work may have been done nevertheless.
        """
        import redis

        with self.lock:
            if time.monotonic() < self._pause_ends:
                self.failures += 1
                raise StoreError(f"{self.name} failed a moment ago")
        # Without the lock: threads need not wait for each other's calls.
        try:
            try:
                found = work()
            except redis.ConnectionError:  # the server had closed an idle connection
                found = work()
        except Exception as error:  # also an answer of another type than the call's
            with self.lock:
                self.failures += 1
                self._pause_ends = time.monotonic() + PAUSE_SECONDS
                first, self._away = not self._away, True
            if first:  # its text may quote the request
                kind = type(error).__name__
                _logger.warning("%s is unavailable (%s); retrying every second", self.name, kind)
            raise StoreError(f"{self.name}: {type(error).__name__}") from error
        if self._away:
            self._away = False
            _logger.warning("%s is available again, after %d failed calls", self.name, self.failures)
        return found


def _storage(url: str) -> Any:
    """Return counters of `limits` on connections with timeouts."""
    with extra("redis", "store"):
        import redis
        from limits.storage import RedisStorage
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    try:
        client = redis.Redis.from_url(
            url,
            socket_timeout=CALL_SECONDS,
            socket_connect_timeout=CALL_SECONDS,
            # `_call` makes the second attempt: the library's own would exceed the bound.
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
        return RedisStorage("redis://", connection_pool=client.connection_pool, key_prefix=PREFIX)
    except (ValueError, TypeError) as error:
        raise ConfigError("store", f"{without_credentials(url)} is not a Redis address: {error}") from None
