"""Options that destinations and sources share: addresses, keys and the fields of a request."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from otel_evals.destinations import base_url, needed


def server_url(
    given: str | None, *variables: str, default: str | None = None, field: str = "url", without: str = ""
) -> str:
    """Return a base URL from an option, an environment variable or its default; see `base_url`."""
    return base_url(needed(given, field, *variables, default=default), field, without=without)


def optional(given: str | None, field: str, variable: str) -> str:
    """Return an option, by default from an environment variable; empty if neither is set."""
    return needed(given, field, variable, default=" ")


def basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
