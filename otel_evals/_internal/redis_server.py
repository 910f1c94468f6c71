"""A Redis or Valkey server that processes share, with bounded calls and a pause after failures.

Every call ends within about `3 * CALL_SECONDS`. After a failure, further calls fail at once for
`PAUSE_SECONDS`, which keeps threads and queues free while a server is away. Budgets, limits, caches and
samplers decide how to continue then.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from otel_evals._internal.util.addresses import without_credentials
from otel_evals._internal.util.fork import renew_after_fork
from otel_evals._internal.util.install_hint import extra
from otel_evals.errors import ConfigError, StoreError

_logger = logging.getLogger(__name__)

CALL_SECONDS = 1.0
"""Timeout of connecting, and of an answer."""
PAUSE_SECONDS = 1.0
"""Seconds without calls after a failure."""
PREFIX = "otel-evals:"

_servers: dict[str, RedisServer] = {}
_T = TypeVar("_T")
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
    return _servers.get(url) or _servers.setdefault(url, RedisServer(url))


class RedisServer:
    """Makes calls, from any thread.

    Raises ConfigError if the address is invalid, or the extra `redis` is not installed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = _client(url)
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

    def call(self, work: Callable[[Any], _T]) -> _T:
        """Return the result of `work` with the library's client.

        Raises:
            StoreError: the server is away, or refuses; the work may have been done nevertheless.
        """
        import redis

        with self.lock:
            if time.monotonic() < self._pause_ends:
                self.failures += 1
                raise StoreError(f"{self.name} failed a moment ago")
        try:
            found = work(self._client)
        except (redis.RedisError, OSError) as error:
            self._failed(error)
            raise StoreError(f"{self.name}: {type(error).__name__}") from error
        self._answered()
        return found

    def run(self, script: str, keys: list[str], arguments: list[Any]) -> Any:
        """Run a Lua script as one step of the server; return its result or raise as `call` does."""
        named = [PREFIX + key for key in keys]
        return self.call(lambda client: client.register_script(script)(keys=named, args=arguments))

    def _failed(self, error: Exception) -> None:
        with self.lock:
            self.failures += 1
            self._pause_ends = time.monotonic() + PAUSE_SECONDS
            first, self._away = not self._away, True
        if first:  # its text may quote the request
            _logger.warning("%s is unavailable (%s); retrying every second", self.name, type(error).__name__)

    def _answered(self) -> None:
        if self._away:
            with self.lock:
                again, self._away = self._away, False
            if again:
                _logger.warning("%s is available again, after %d failed calls", self.name, self.failures)


def _client(url: str) -> Any:
    with extra("redis", "store"):
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    try:
        return redis.Redis.from_url(
            url,
            socket_timeout=CALL_SECONDS,
            socket_connect_timeout=CALL_SECONDS,
            # once more on a connection that the server had closed; never after a call that took too long
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
            decode_responses=True,
        )
    except (ValueError, TypeError) as error:
        raise ConfigError("store", f"{without_credentials(url)} is not a Redis address: {error}") from None
