"""Addresses of servers, and the credentials in them."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote, urlsplit, urlunsplit


def without_credentials(address: str) -> str:
    """Return an address without user, password, query and fragment."""
    try:
        parts = urlsplit(address)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return "..."


def secrets_of_address(address: str | None) -> Iterator[str]:
    """Yield user, password and values of the query in an address."""
    try:
        parts = urlsplit(address or "")
        secrets = [parts.password or "", parts.username or "" if parts.password else ""]
    except ValueError:
        return
    for secret in secrets:
        yield from (secret, unquote(secret))
    yield from (value for pair in parts.query.split("&") for _, _, value in [pair.partition("=")])
