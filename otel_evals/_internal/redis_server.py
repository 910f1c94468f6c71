"""A Redis or Valkey server that processes share: bounded in time, and let alone for a while when it is away.

Every call ends within about `3 * CALL_SECONDS`. After one that failed, further calls fail at once for
`PAUSE_SECONDS`, so that a server that is away costs a thread now and then, and no queue. What that means for
a budget, a limit, a cache or a sampler is theirs to say.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from otel_evals._internal.util.fork import renew_after_fork
from otel_evals.errors import ConfigError, StoreError

_logger = logging.getLogger(__name__)

CALL_SECONDS = 1.0
"""That connecting, and waiting for an answer, may take each."""
PAUSE_SECONDS = 1.0
"""From a failed call to the next one that is made."""
PREFIX = "otel-evals:"
"""Of every key."""

_servers: dict[str, RedisServer] = {}
_T = TypeVar("_T")
_SCHEMES = ("redis", "rediss")


def is_address(store: object, field: str) -> bool:
    """Whether a store is a server's address, and no file's path.

    Args:
        store: what the configuration has.
        field: where it stands.

    Raises:
        ConfigError: it is the address of something else.
    """
    if not isinstance(store, str) or "://" not in store:
        return False
    if store.partition("://")[0] not in _SCHEMES:
        raise ConfigError(field, "must be a file's path, or redis://HOST:PORT/NUMBER (rediss:// with TLS)")
    return True


def servers() -> list[RedisServer]:
    """Those that this process has named."""
    return list(_servers.values())


def redis_server(url: str) -> RedisServer:
    """The server at an address; everything in this process that names the address shares its connections.

    Raises:
        ConfigError: the address is none, or the extra `redis` is not installed.
    """
    return _servers.get(url) or _servers.setdefault(url, RedisServer(url))


class RedisServer:
    """Makes calls, from any thread.

    Args:
        url: `redis://USER:PASSWORD@HOST:PORT/NUMBER`; `rediss://` with TLS.

    Raises:
        ConfigError: the address is none, or the extra `redis` is not installed.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = _client(url)
        self.name = without_password(url)
        """The address without user, password and options."""
        self.failures = 0
        """Calls that failed, or were not made because one just had."""
        self._pause_ends = 0.0
        self._away = False
        self.lock = threading.Lock()
        renew_after_fork(self)

    def __reduce__(self) -> tuple[Callable[[str], RedisServer], tuple[str]]:
        return redis_server, (self._url,)

    def renew(self) -> None:
        """In a forked child: a lock that nobody holds; the library makes connections of its own."""
        self.lock = threading.Lock()

    def call(self, work: Callable[[Any], _T]) -> _T:
        """What the work makes of the library's client.

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
        """What a Lua script returns; the server runs it as one step.

        Raises:
            StoreError: as `call`.
        """
        named = [PREFIX + key for key in keys]
        return self.call(lambda client: client.register_script(script)(keys=named, args=arguments))

    def _failed(self, error: Exception) -> None:
        with self.lock:
            self.failures += 1
            self._pause_ends = time.monotonic() + PAUSE_SECONDS
            first, self._away = not self._away, True
        if first:  # its text may quote what was sent
            _logger.warning("%s is away (%s); tried again every second", self.name, type(error).__name__)

    def _answered(self) -> None:
        if self._away:
            with self.lock:
                again, self._away = self._away, False
            if again:
                _logger.warning("%s is back, after %d failed calls in all", self.name, self.failures)


def without_password(url: str) -> str:
    """A server's address without user, password and options."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _client(url: str) -> Any:
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise ConfigError("store", "redis:// needs an extra: pip install 'otel-evals[redis]'") from None
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
        raise ConfigError("store", f"{without_password(url)} is no address of a Redis: {error}") from None
