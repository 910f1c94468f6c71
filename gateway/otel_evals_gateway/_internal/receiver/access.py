"""Access control: bearer tokens and TLS, from files that may be replaced while the service runs."""

from __future__ import annotations

import hmac
import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path

from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.options import TlsOptions

_logger = logging.getLogger(__name__)


class FileWatch:
    """Detects that any of some files was replaced or written."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._seen = [_stamp(path) for path in paths]

    def changed(self) -> bool:
        """Return True if any file differs from the last call."""
        before, self._seen = self._seen, [_stamp(path) for path in self._paths]
        return self._seen != before


def reloading(what: str, read: Callable[[], object], *paths: Path) -> Callable[[], None]:
    """Return a function that reads changed files, and keeps what was read before if that fails."""
    watch = FileWatch(*paths)

    def reload() -> None:
        if watch.changed():
            try:
                read()
                _logger.info("reloaded %s", what)
            except (ConfigError, OSError) as error:
                _logger.error("kept the current %s: %s", what, error)

    return reload


class BearerTokens:
    """The tokens of a file, one per line, with # comments; ConfigError if it contains none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokens: tuple[bytes, ...] = ()
        self._read()
        self.reload = reloading("bearer tokens", self._read, path)

    def accept(self, authorization: str) -> bool:
        """Return True if an `Authorization` header has one of the tokens, in constant time."""
        scheme, _, given = authorization.partition(" ")
        offered = given.strip().encode("utf-8", "replace") if scheme.lower() == "bearer" else b""
        # All are compared: how long it takes tells nothing.
        return sum(hmac.compare_digest(token, offered) for token in self._tokens) > 0

    def _read(self) -> None:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("gateway.tokens", f"{self._path} cannot be read: {error}") from error
        stripped = map(str.strip, lines)
        tokens = tuple(line.encode() for line in stripped if line and not line.startswith("#"))
        if not tokens:
            raise ConfigError("gateway.tokens", f"{self._path} contains no token: write one per line")
        self._tokens = tokens


def tls_context(tls: TlsOptions) -> tuple[ssl.SSLContext, Callable[[], None]]:
    """Return a server's TLS, and a function that reads changed files; ConfigError for bad files."""
    context = _context(tls)

    def read() -> None:
        current = _context(tls)

        def use(connection: ssl.SSLObject, *_: object) -> int | None:
            connection.context = current
            # TLS 1.2 resumes sessions by their ids, whatever the options; the client connects again without.
            again = tls.client_ca is not None and connection.session_reused
            return ssl.ALERT_DESCRIPTION_ACCESS_DENIED if again else None

        # The listening socket keeps its first context, which cannot lose an authority.
        context.sni_callback = use

    return context, reloading("TLS files", read, *filter(None, (tls.certificate, tls.key, tls.client_ca)))


def _context(tls: TlsOptions) -> ssl.SSLContext:
    for name in ("certificate", "key", "client_ca"):
        path: Path | None = getattr(tls, name)
        if path is not None and not os.access(path, os.R_OK):
            raise ConfigError(f"gateway.tls.{name}", f"{path} is missing, or cannot be read")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Older versions have known weaknesses.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            # A resumed session would not be verified again: its authority may have been replaced.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
            context.load_verify_locations(tls.client_ca)
    except OSError as error:
        raise ConfigError("gateway.tls", f"certificate, key or client_ca cannot be used: {error}") from error
    return context


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino
