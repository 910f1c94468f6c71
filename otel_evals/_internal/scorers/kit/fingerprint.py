"""Short fingerprints of scorers: a version changes when a scorer could judge differently."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Set
from enum import Enum
from functools import lru_cache, partial
from types import CodeType
from typing import Any

import msgspec
from pydantic import BaseModel

_DEPTH = 8


def fingerprint(*parts: Any) -> str:
    """Return twelve hex digits that are equal for equal parts, in any process.

    Functions count by their source, defaults and captured values; pydantic classes by their JSON schema;
    other objects by their type and fields.
    """
    text = json.dumps([_plain(part, _DEPTH) for part in parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _plain(value: Any, depth: int) -> Any:
    """Convert a value to JSON that does not depend on addresses or the order of sets."""
    if value is None or isinstance(value, bool | int | float | str):
        # A member of an Enum may be a text or a number too: its plain value counts.
        return value.value if isinstance(value, Enum) else value
    name = _type_name(type(value))
    # Objects may refer to each other in a circle.
    if depth == 0:
        return name
    if isinstance(value, type):
        return _schema(value) if issubclass(value, BaseModel) else value.__qualname__
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted(json.dumps(_plain(item, depth - 1), sort_keys=True) for item in value)
    if isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value]
    if isinstance(value, partial):
        return [_plain(item, depth - 1) for item in (value.func, value.args, value.keywords)]
    if inspect.ismethod(value):
        return [_plain(value.__func__, depth - 1), _plain(value.__self__, depth - 1)]
    if inspect.isfunction(value):
        return _function(value, depth)
    if dataclasses.is_dataclass(value):
        # Fields that a repr leaves out, such as keys, have no influence on a judgement.
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.repr}
        return [name, _plain(fields, depth - 1)]
    if isinstance(value, msgspec.Struct):
        return [name, _plain(msgspec.structs.asdict(value), depth - 1)]
    return [name, _plain({k: v for k, v in getattr(value, "__dict__", {}).items() if k[0] != "_"}, depth - 1)]


def _type_name(kind: type) -> str:
    """Return a type's name; without the module for our own types, which may move."""
    ours = kind.__module__.split(".")[0].startswith("otel_evals")
    return kind.__qualname__ if ours else f"{kind.__module__}.{kind.__qualname__}"


def _function(function: Callable[..., Any], depth: int) -> Any:
    closure = getattr(function, "__closure__", None) or ()
    captured = [cell.cell_contents for cell in closure if _filled(cell)]
    return [
        _source(function.__code__),
        *(_plain(item, depth - 1) for item in (function.__defaults__, function.__kwdefaults__, captured)),
    ]


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a name that is assigned later, or a function that refers to itself
        return False


@lru_cache(maxsize=1024)
def _schema(model: type[BaseModel]) -> Any:
    return model.model_json_schema()


@lru_cache(maxsize=1024)
def _source(code: CodeType) -> str:
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):  # typed at a prompt: no file to read
        return _code(code)


def _code(code: CodeType) -> str:
    # Bytecode differs between versions of Python, and so does the version of such a scorer.
    constants = [_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
