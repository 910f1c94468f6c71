"""Pydantic models whose errors are ConfigErrors that name the field and the fix, and times in options."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar, get_args

import pydantic
from pydantic import AfterValidator, BeforeValidator, ConfigDict, NonNegativeFloat, PositiveFloat

from otel_evals._internal.redaction.secrets import redact_secrets
from otel_evals._internal.util.options import Problems, joined, suggestion
from otel_evals.errors import ConfigError

_Model = TypeVar("_Model")
MODEL = ConfigDict(arbitrary_types_allowed=True, extra="forbid")
"""The pydantic settings of the configuration's dataclasses."""

_UNITS = {
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3_600.0,
    "d": 86_400.0,
    "w": 604_800.0,
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(us|µs|ms|s|m|h|d|w)")
_MINUTE = 60


def seconds(value: Any) -> Any:
    """Convert a duration such as `5s`, `1m30s` or `200ms` to seconds; other values are returned unchanged."""
    if not isinstance(value, str):
        return value
    text = value.replace(" ", "")
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("write seconds as a number, or a duration such as 5s, 200ms or 1m30s")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


FOREVER = 1e9
"""Maximum of every duration in seconds, infinity included: clocks and locks accept no more."""


_at_most_forever = AfterValidator(lambda value: min(value, FOREVER))

Seconds = Annotated[NonNegativeFloat, BeforeValidator(seconds), _at_most_forever]
"""Seconds, or a duration as text."""
PositiveSeconds = Annotated[PositiveFloat, BeforeValidator(seconds), _at_most_forever]
"""Seconds above 0, or a duration as text."""


def raises_config_errors(model: type[_Model]) -> type[_Model]:
    """Make a model's constructor raise ConfigError instead of pydantic's ValidationError."""
    # Wrapped instead of a base class: pydantic's dataclasses generate the constructor.
    build = model.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **values: Any) -> None:
        problems = Problems()
        try:
            build(self, *args, **values)
        except pydantic.ValidationError as error:
            problems.found += [_config_error(each, model) for each in error.errors()]
        problems.raise_any()  # after the handler: one traceback

    model.__init__ = init  # type: ignore[method-assign]  # wraps the generated constructor
    return model


def _config_error(error: Any, model: Any) -> ConfigError:
    loc = ("scorer", *error["loc"][1:]) if error["loc"][:1] == (0,) else error["loc"]  # the one positional
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc).lstrip(".")
    if error["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return ConfigError(path, "unknown option" + suggestion(str(loc[-1]), _options_at(model, loc[:-1])))
    # Our own errors pass through pydantic as causes, and keep their field and fix.
    ours = error.get("ctx", {}).get("error")
    if isinstance(ours, ConfigError):
        return ConfigError(joined(path, ours.field), ours.problem)
    said = str(ours) if isinstance(ours, ValueError) else error["msg"]
    # Values of variables are in it: a section of the wrong form may have a key.
    given = redact_secrets(repr(error["input"]))
    return ConfigError(path, f"{said[0].lower()}{said[1:]}, got {given:.100}")


def _options_at(model: Any, path: Iterable[Any]) -> Iterable[str]:
    """Return the options of the section at a path below a model; empty if it has no model."""
    for name in path:
        field = getattr(model, "__pydantic_fields__", {}).get(name)
        types = () if field is None else (field.annotation, *get_args(field.annotation))
        model = next((each for each in types if hasattr(each, "__pydantic_fields__")), None)
    return getattr(model, "__dataclass_fields__", ())


def seconds_of(text: str, field: str) -> int:
    """Return a duration such as 15m, 24h, 7d or 2w in whole seconds.

    Raises:
        ConfigError: the text is no duration of at least a second; names the field.
    """
    try:
        found = int(min(seconds(text), FOREVER))
    except ValueError:
        found = 0
    if not found:
        raise ConfigError(field, f"{text!r} is not a duration: write 15m, 24h, 7d or 2w")
    return found


def moment_of(text: str, field: str) -> int:
    """Return a time in seconds since the Unix epoch, at a full minute.

    The text is ISO 8601, by default in UTC, or a duration before now.

    Raises:
        ConfigError: the text is neither; names the field.
    """
    if _DURATION.match(text.strip()) is not None:
        return (int(time.time()) - seconds_of(text, field)) // _MINUTE * _MINUTE
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        problem = f"{text!r} is not a time: write 2026-11-20, 2026-11-20T10:00, or 24h"
        raise ConfigError(field, problem) from None
    aware = found if found.tzinfo else found.replace(tzinfo=UTC)
    return int(aware.timestamp()) // _MINUTE * _MINUTE
