"""Access control: bearer tokens and TLS, from files that may be replaced while the service runs."""

from __future__ import annotations

import hmac
import logging
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.options import TlsOptions

_logger = logging.getLogger(__name__)


class FileWatch:
    """Detects that any of some files was replaced or written."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._seen = self._state()

    def changed(self) -> bool:
        """Return True if any file differs from the last call."""
        before, self._seen = self._seen, self._state()
        return self._seen != before

    def _state(self) -> tuple[tuple[int, ...] | None, ...]:
        return tuple(_stamp(path) for path in self._paths)


class BearerTokens:
    """The tokens of a file, one per line, with # comments; ConfigError if it contains none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._watch = FileWatch([path])
        self._tokens = _read(path)

    def reload(self) -> None:
        """Read a changed file; keep the current tokens if that fails."""
        if self._watch.changed():
            try:
                self._tokens = _read(self._path)
                _logger.info("reloaded the bearer tokens")
            except ConfigError as error:
                _logger.error("kept the current bearer tokens: %s", error)

    def accept(self, authorization: str) -> bool:
        """Return True if an `Authorization` header has one of the tokens, in constant time."""
        scheme, _, given = authorization.partition(" ")
        offered = given.strip().encode("utf-8", "replace") if scheme.lower() == "bearer" else b""
        found = False
        for token in self._tokens:
            found |= hmac.compare_digest(token, offered)
        return found


def tls_context(tls: TlsOptions) -> tuple[ssl.SSLContext, Callable[[], None]]:
    """Return a server's TLS, and a function that reads a changed certificate; ConfigError for bad files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    watch = FileWatch([tls.certificate, tls.key])
    for name in ("certificate", "key", "client_ca"):
        if (path := getattr(tls, name)) is not None:
            try:
                path.read_bytes()
            except OSError as error:
                raise ConfigError(
                    f"gateway.tls.{name}", f"{path} cannot be read: {error.strerror}"
                ) from error
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(tls.client_ca)
    except (OSError, ssl.SSLError) as error:
        files = f"{tls.certificate} and {tls.key}"
        raise ConfigError("gateway.tls", f"{files} cannot be used: {error}") from error

    def reload() -> None:
        if watch.changed():
            try:
                context.load_cert_chain(tls.certificate, tls.key)
                _logger.info("reloaded the TLS certificate")
            except (OSError, ssl.SSLError):
                _logger.exception("kept the current TLS certificate")

    return context, reload


def _read(path: Path) -> tuple[bytes, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("gateway.tokens", f"{path} cannot be read: {error}") from error
    tokens = tuple(t.encode() for line in lines if (t := line.strip()) and not t.startswith("#"))
    if not tokens:
        raise ConfigError("gateway.tokens", f"{path} contains no token: write one per line")
    return tokens


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino
