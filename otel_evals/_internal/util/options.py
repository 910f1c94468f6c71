"""Calls from text, and with options from text: mistakes are ConfigErrors that name option and fix."""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from otel_evals.errors import ConfigError, ConfigErrors


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
        except (ConfigError, ImportError):
            raise
        except Exception as error:
            problems.add(field, f"are refused: {error}")
    problems.raise_any()
    return None


def _check_names(
    function: Callable[..., Any], options: Mapping[str, Any], field: str, problems: Problems, values: int
) -> None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in C
        return
    kinds = inspect.Parameter
    if any(p.kind is kinds.VAR_KEYWORD for p in parameters):
        return
    named = [p for p in parameters if p.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    known = {p.name: p.annotation for p in named}
    for name, value in options.items():
        if name not in known:
            problems.add(f"{field}.{name}", "unknown option" + suggestion(name, known))
        elif problem := _other_kind(known[name], value):
            problems.add(f"{field}.{name}", problem)
    missing = [p.name for p in named[values:] if p.default is kinds.empty and p.name not in options]
    if missing and not problems.found:
        problems.add(f"{field}.{missing[0]}", "is missing: it has no default")


_KINDS: Mapping[str, tuple[str, Any]] = {
    "str": ("text", str),
    "int": ("a whole number", int),
    "float": ("a number", int | float),
    "bool": ("true or false", bool),
    "Sequence[str]": ("a list of texts", list | tuple),
    "Mapping[str, str]": ("a mapping of texts", Mapping),
    "Mapping[str, float]": ("a mapping of texts", Mapping),
}


def _other_kind(annotation: Any, value: Any) -> str:
    """Return what is wrong with an option's value of another kind; empty if it fits.

    Only plain annotations count, such as `int | None`: others may convert their values.
    """
    wanted, kind = _KINDS.get(str(annotation).removesuffix(" | None"), ("", object))
    if "of texts" in wanted and isinstance(value, kind):
        # In YAML, an unquoted `yes` is true.
        kind, value = str, next((each for each in value if not isinstance(each, str)), None)
    if value is None or isinstance(value, kind):
        return ""
    quotes = ": put it in quotes" if kind is str else ""
    # Never shows the value, which may be a secret.
    return f"must be {wanted}, not {type(value).__name__}{quotes}"


def evaluate(text: str, functions: Mapping[str, Callable[..., Any]], field: str, what: str, hint: str) -> Any:
    """Evaluate a call of one of these functions in a text, or several calls combined by `|` and `&`.

    Arguments are numbers, quoted texts, lists of these, and further calls.
    """
    reader = _Reader(functions, field, what, hint)
    try:
        return reader.value(ast.parse(text.strip(), mode="eval").body)
    except ConfigError:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise reader.mistake(f"{text:.200}") from None


class _Reader:
    def __init__(self, functions: Mapping[str, Callable[..., Any]], field: str, what: str, hint: str) -> None:
        self._functions = functions
        self._field, self._what, self._hint = field, what, hint

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self.value(left) | self.value(right)
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                return self.value(left) & self.value(right)
            case ast.Name(id=name):
                return self._call(name, [], {})
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                named = {str(k.arg): self._argument(k.value) for k in keywords}
                return self._call(name, [self._argument(each) for each in args], named)
        raise self.mistake(ast.unparse(node))

    def _call(self, name: str, values: list[Any], named: dict[str, Any]) -> Any:
        if name not in self._functions:
            problem = f"there is no {self._what} {name!r}{suggestion(name, self._functions)}"
            raise ConfigError(self._field, problem)
        return call_with(self._functions[name], named, self._field, *values)

    def _argument(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Call):
            return self.value(node)
        try:
            return ast.literal_eval(node)
        except ValueError:
            problem = f"{ast.unparse(node)!r} is neither a number, a quoted text nor a list of these"
            raise ConfigError(self._field, problem) from None

    def mistake(self, text: str) -> ConfigError:
        return ConfigError(self._field, f"{text!r} is not a {self._what}; {self._hint}")
