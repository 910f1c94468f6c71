"""Pydantic models whose errors are ConfigErrors that name the field and the fix."""

from __future__ import annotations

import difflib
import functools
from typing import Any, TypeVar

import pydantic
from pydantic import ConfigDict

from otel_evals.errors import ConfigError

__all__ = ["MODEL", "checked", "raises_config_errors", "suggestion"]

_Model = TypeVar("_Model")
_SECTIONS = ("gateway",)
"""Options that are models of their own: their errors name a field inside."""
MODEL = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
"""The pydantic settings of the configuration's dataclasses."""


def raises_config_errors(model: type[_Model]) -> type[_Model]:
    """Have a model's constructor raise ConfigError where pydantic raises its own."""
    build = model.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **values: Any) -> None:
        try:
            build(self, *args, **values)
        except pydantic.ValidationError as error:
            raise _config_error(error) from None

    model.__init__ = init  # type: ignore[method-assign]  # wraps the generated constructor
    return model


def _config_error(error: pydantic.ValidationError) -> ConfigError:
    first = error.errors()[0]
    loc = ("scorer", *first["loc"][1:]) if first["loc"][:1] == (0,) else first["loc"]  # the one positional
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")
    ours = first.get("ctx", {}).get("error")
    if isinstance(ours, ConfigError):
        inner = ours.field if loc and isinstance(loc[-1], str) and loc[-1] in _SECTIONS else ""
        return ConfigError(f"{path}.{inner}" if path and inner else path or ours.field, ours.problem)
    return ConfigError(path, f"{first['msg'][0].lower()}{first['msg'][1:]}, got {first['input']!r:.100}")


def suggestion(wrong: str, known: Any) -> str:
    """The end of an error message: the most similar known name, or all known names."""
    near = difflib.get_close_matches(wrong, known, n=1)
    return (
        f"; meant {near[0]!r}?" if near else f"; known are {', '.join(sorted(k for k in known if k != '_'))}"
    )


def checked(model: Any, field: str, **values: Any) -> Any:
    """Build a model; its errors name the full path of the field."""
    try:
        return model(**values)
    except ConfigError as error:
        path = error.field if error.field.startswith(field) else f"{field}{error.field}"
        raise ConfigError(path, error.problem) from None
