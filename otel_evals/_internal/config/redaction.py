"""The option `redact`, as a file or code gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from otel_evals._internal.config.imports import PREFIX, imported
from otel_evals._internal.redaction.redactor import Redaction, redact_pii
from otel_evals._internal.redaction.secrets import redact_secrets
from otel_evals.errors import ConfigError

__all__ = ["build_redaction"]

_NAMED: dict[str, Callable[[str], str]] = {"secrets": redact_secrets, "pii": redact_pii}


def build_redaction(value: Any) -> Redaction:
    """The functions that a value names.

    Raises:
        ConfigError: there is no such function, or its library is not installed.
    """
    if isinstance(value, Redaction):
        return value
    if value is False or value == "off":  # YAML reads `off` as false
        return Redaction(())
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    redaction = Redaction(tuple(_function(each) for each in given))
    if redact_pii in redaction.functions:
        redact_pii("0" * 12)  # whether its library is there
    return redaction


def _function(value: Any) -> Callable[[str], str]:
    if isinstance(value, str):
        if value.startswith(PREFIX):
            value = imported(value, "redact")
        elif value in _NAMED:
            return _NAMED[value]
        else:
            close = get_close_matches(value, _NAMED, 1)
            meant = f"; did you mean {close[0]}?" if close else ""
            problem = (
                f"{value!r:.100} is unknown: secrets, pii, off or {PREFIX}package.module:function{meant}"
            )
            raise ConfigError("redact", problem)
    if not callable(value):
        raise ConfigError("redact", f"must be a name or a function of a text, not {value!r:.100}")
    function: Callable[[str], str] = value
    return function
