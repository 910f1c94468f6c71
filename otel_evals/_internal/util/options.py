"""Calls with options from text: their mistakes as ConfigErrors that name the option and the fix."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from otel_evals.errors import ConfigError, ConfigErrors

_ADDRESSES = ("url", "endpoint", "address", "host", "base_url", "api_base")


class Problems:
    """Collects mistakes, to report all of them at once."""

    def __init__(self) -> None:
        self.found: list[ConfigError] = []

    def add(self, field: str, problem: str) -> None:
        """Note a mistake."""
        self.found.append(ConfigError(field, problem))

    @contextmanager
    def noting(self, prefix: str = "") -> Iterator[None]:
        """Note the mistakes that are raised inside, with this prefix for their fields."""
        try:
            yield
        except ConfigError as error:
            for each in error.errors:
                self.add(joined(prefix, each.field), each.problem)

    def raise_any(self) -> None:
        """Raise the noted mistakes, if there are any."""
        if self.found:
            raise self.found[0] if len(self.found) == 1 else ConfigErrors(self.found)


def joined(prefix: str, field: str) -> str:
    if not prefix or not field or field.startswith(prefix):
        return field or prefix
    return f"{prefix}{field}" if field.startswith("[") else f"{prefix}.{field}"


def suggestion(wrong: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the most similar known name, or all known names."""
    names = sorted(name for name in known if not name.startswith("_"))
    near = difflib.get_close_matches(wrong, names, n=1)
    if not near and wrong in _ADDRESSES:
        near = [name for name in names if name in _ADDRESSES]
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(names)}" if names else "; it takes none"


def call_with(function: Callable[..., Any], options: Mapping[str, Any], field: str, *values: Any) -> Any:
    """Call a factory with options after a check of their names; `field` is their path in messages."""
    problems = Problems()
    _check_names(function, options, field, problems, len(values))
    problems.raise_any()
    with problems.noting(field):
        try:
            return function(*values, **options)
        except ConfigError:
            raise
        except (TypeError, ValueError) as error:
            problems.add(field, f"are refused: {error}")
    problems.raise_any()
    return None


def _check_names(
    function: Callable[..., Any], options: Mapping[str, Any], field: str, problems: Problems, values: int
) -> None:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # written in C
        return
    kinds = inspect.Parameter
    named = {
        n: p for n, p in parameters.items() if p.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    }
    if all(p.kind is not kinds.VAR_KEYWORD for p in parameters.values()):
        for name in options:
            if name not in named:
                problems.add(f"{field}.{name}", "unknown option" + suggestion(name, named))
    if problems.found:
        return
    for name, parameter in [*named.items()][values:]:
        if parameter.default is kinds.empty and name not in options:
            problems.add(f"{field}.{name}", "is missing: it has no default")
