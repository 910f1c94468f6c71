"""Credentials in addresses and in a judge's settings, which must not appear in messages and replies."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
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
        # In an address, they may be percent-encoded.
        yield from (secret, unquote(secret))
    yield from (value for pair in parts.query.split("&") for _, _, value in [pair.partition("=")])


_SECRET_NAME = re.compile(
    r"(?:key|token|secret|password|passwd|pwd|authorization|cookie|credentials?)\Z", re.I
)
_SHORTEST = 6


def credentials(api_key: str | None, api_base: str | None, options: Mapping[str, Any]) -> frozenset[str]:
    """Return the values that only this process should know: the key, credentials in the address, options and
    headers with a secret's name, and the environment variables with one, from which LiteLLM reads keys.
    """
    found = {api_key or "", *secrets_of_address(api_base), *_of_options(options)}
    found.update(value for name, value in os.environ.items() if _SECRET_NAME.search(name))
    return frozenset(value for value in found if len(value) >= _SHORTEST)


def _of_options(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _of_options(value)
        elif isinstance(value, str) and _SECRET_NAME.search(str(name)):
            yield from {value, value.rpartition(" ")[2]}  # of `Bearer x`, also x
