"""A rule's `when` as an expression in the Common Expression Language (CEL, https://cel.dev) over the run.

Expressions have no loops and no side effects. Their length is bounded, and macros such as `exists` cannot be
nested: the time is linear in the size of the run.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from otel_evals._internal.deliver.record import plain
from otel_evals._internal.model import Run
from otel_evals._internal.model.runs import attributes_of
from otel_evals._internal.util.install_hint import extra
from otel_evals._internal.util.options import suggestion
from otel_evals.errors import ConfigError

_FIELD = "when.cel"
_LONGEST = 2_000
_MACROS = {"all", "exists", "exists_one", "filter", "map"}
_FUNCTIONS = {
    *("size", "contains", "startsWith", "endsWith", "matches", "has"),
    *("int", "uint", "double", "string", "bytes", "timestamp", "duration"),
    *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
    *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
}
_TEXTS = r"""r?\"\"\".*?\"\"\"|r?'''.*?'''|r?"(?:\\.|[^"\\])*"|r?'(?:\\.|[^'\\])*'|//[^\n]*"""
_TOKEN = re.compile(rf"(?P<text>{_TEXTS})|\d[\w.]*|[A-Za-z_]\w*|\S", re.DOTALL | re.IGNORECASE)
_PLACE = re.compile(r"<input>:(\d+):(\d+): (?:Syntax error: )?(.*)")


def _attributes(run: Run) -> Mapping[str, Any]:
    """Merge the attributes of the resource and all spans; the root's take precedence."""
    return {key: value for place in reversed(attributes_of(run)) for key, value in place.items()}


def _plain_field(name: str, run: Run) -> Any:
    return plain(getattr(run, name))


_FIELDS: dict[str, Callable[[Run], Any]] = {
    **{
        name: partial(_plain_field, name)
        for name in (*Run.__dataclass_fields__, "input", "duration")
        if name not in ("operations", "children", "turns", "sources", "ground_truth")
    },
    "attributes": _attributes,
    "resource": lambda run: dict(run.resource),
    "error": lambda run: run.error is not None,
    "error_message": lambda run: run.error,
    "start_time": lambda run: run.start_time / 1e9,
    "end_time": lambda run: None if run.end_time is None else run.end_time / 1e9,
}
"""Fields of a run in expressions, as `run.NAME`."""


class CelCondition:
    """A printable condition in CEL; the run is `run`."""

    def __init__(self, expression: str) -> None:
        self._expression = _bounded(expression)
        with extra("cel", _FIELD):
            import cel
        self._program = _compiled(cel, expression)
        self._fields = _named(expression)
        self._context = cel.Context()
        self._lock = threading.Lock()

    def __call__(self, run: Run) -> bool:
        with self._lock:
            self._context.add_variable("run", self.values_of(run))
            found = self._program.execute(self._context)
        if not isinstance(found, bool):
            raise TypeError(f"{self._expression!r:.200} gives {type(found).__name__}, not true or false")
        return found

    def values_of(self, run: Run) -> dict[str, Any]:
        """Return the fields that the expression names."""
        return {name: _FIELDS[name](run) for name in self._fields}

    def __str__(self) -> str:
        return self._expression


def _compiled(cel: Any, expression: str) -> Any:
    try:
        program = cel.compile(expression)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library is no Exception
        raise _mistake(expression, *_place(str(error))) from None
    for name in program.functions():
        if name.isidentifier() and name not in _FUNCTIONS:
            known = _FUNCTIONS | _MACROS
            raise ConfigError(_FIELD, f"there is no function {name!r}{suggestion(name, known)}")
    return program


def _place(said: str) -> tuple[int, int, str]:
    """Return line, column and problem of a parser's message."""
    found = _PLACE.search(said)
    if found is None:
        return 1, 1, "it cannot be parsed"
    return int(found[1]), int(found[2]), found[3].partition(" expecting ")[0]


def _mistake(expression: str, line: int, column: int, problem: str) -> ConfigError:
    shown = (expression.splitlines() or [""])[min(line, len(expression.splitlines()) or 1) - 1]
    place = f"line {line}, column {column}" if "\n" in expression else f"column {column}"
    return ConfigError(_FIELD, f"{place}: {problem}, in {shown!r:.200}")


def _bounded(expression: Any) -> str:
    if not isinstance(expression, str) or not expression.strip():
        raise ConfigError(_FIELD, "must be an expression, as in 'run.error || run.duration > 5.0'")
    if len(expression) > _LONGEST:
        raise ConfigError(_FIELD, f"has {len(expression)} characters; {_LONGEST} are allowed")
    return expression


def _named(expression: str) -> tuple[str, ...]:
    """Return the fields of the run in an expression, and check the names that the parser does not check."""
    tokens = list(_tokens(expression))
    bound = set(_bound(tokens))
    fields: dict[str, None] = {}
    for index, (name, at) in enumerate(tokens):
        before = tokens[index - 1][0] if index else ""
        after = [token for token, _ in tokens[index + 1 : index + 3]]
        if name == "run" and before != ".":
            if after[:1] != ["."] or len(after) < 2:
                raise _at(expression, at, "name a field of the run, as in run.duration")
            if after[1] not in _FIELDS:
                problem = f"a run has no field {after[1]!r}{suggestion(after[1], _FIELDS)}"
                raise _at(expression, tokens[index + 2][1], problem)
            fields[after[1]] = None
        elif _is_variable(name, before, after) and name not in bound:
            raise _at(expression, at, f"there is no variable {name!r}; the run is `run`")
    return tuple(fields)


def _tokens(expression: str) -> Iterator[tuple[str, int]]:
    """Yield names and signs with their places; texts become `""`, comments are skipped."""
    for match in _TOKEN.finditer(expression):
        if match["text"] is None:
            yield match[0], match.start()
        elif not match[0].startswith("//"):
            yield '""', match.start()


def _is_variable(name: str, before: str, after: list[str]) -> bool:
    words = ("true", "false", "null", "in")
    return name.isidentifier() and name not in words and before != "." and after[:1] != ["("]


def _bound(tokens: list[tuple[str, int]]) -> Iterator[str]:
    """Yield the names that macros bind."""
    depth, inside = 0, 0
    for index, (token, _) in enumerate(tokens):
        opens = tokens[index + 1 : index + 2] and tokens[index + 1][0] == "("
        if token in _MACROS and opens and index and tokens[index - 1][0] == ".":
            if inside:
                problem = "is nested in another macro: its time would be quadratic in the size of the run"
                raise ConfigError(_FIELD, f"{token!r} {problem}")
            inside = depth + 1
            yield from (name for name, _ in tokens[index + 2 : index + 3])
        depth += {"(": 1, ")": -1}.get(token, 0)
        if inside and depth < inside and token == ")":
            inside = 0


def _at(expression: str, at: int, problem: str) -> ConfigError:
    line = expression.count("\n", 0, at) + 1
    return _mistake(expression, line, at - expression.rfind("\n", 0, at), problem)
