"""The configuration file as a JSON schema, for editors that complete and check YAML."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any, Literal, Union

from otel_evals._internal.config.imports import PREFIX
from otel_evals._internal.config.options import Config, ConfigOptions
from otel_evals._internal.config.plugins import find_scorer, scorer_names
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.config.sections import section_model, section_names
from otel_evals.errors import ConfigError

_REFERENCE = {"type": "string", "pattern": r"\$\{"}
_SIMPLE = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
_RULE: dict[str, Any] = {
    "sample": {"type": ["string", "number"]},
    "when": {"type": "object", "minProperties": 1},
    "options": {"type": "object"},
    "scope": {"enum": ["run", "agent", "conversation"]},
    "isolation": {"enum": ["thread", "process"]},
    "idle": {"type": ["number", "string"]},
    "timeout": {"type": ["number", "string"]},
    "concurrency": {"anyOf": [{"type": "integer"}, _REFERENCE]},
    "attempts": {"anyOf": [{"type": "integer"}, _REFERENCE]},
}


def config_schema() -> dict[str, Any]:
    """Return the JSON schema of configuration files, with the installed scorers and their options."""
    names = scorer_names()
    name = {"anyOf": [{"enum": names}, {"type": "string", "pattern": f"^{PREFIX}"}]}
    words = {field: text for field, _, text in described_fields(Rule)}
    rule = {
        "type": "object",
        "required": ["scorer"],
        "additionalProperties": False,
        "properties": {
            "scorer": {**name, "description": words["scorer"]},
            **{key: {**kind, **_description(words, key)} for key, kind in _RULE.items()},
        },
        "allOf": [_options_of(each) for each in names],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "otel-evals",
        "type": "object",
        "required": ["rules"],
        "additionalProperties": False,
        "properties": {
            "rules": {"type": "array", "minItems": 1, "items": {"anyOf": [name, rule]}},
            "destinations": {"type": "array", "items": {"type": ["string", "object"]}},
            **_options(),
            **{each: _section(section_model(each)) for each in sorted(section_names())},
        },
    }


def described_fields(model: type) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and description of each field of a configuration class, from its source."""
    body = ast.parse(inspect.getsource(model)).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, doc in zip(body.body, body.body[1:], strict=False):
        described = isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr) and described:
            default = ast.unparse(field.value) if field.value else "required"
            yield ast.unparse(field.target), default, " ".join(ast.literal_eval(doc.value).split())


def _options() -> dict[str, Any]:
    hints = typing.get_type_hints(ConfigOptions)
    words = {field: text for field, _, text in described_fields(Config)}
    sections = section_names()
    return {
        key: {**_kind(kind), **_description(words, key)} for key, kind in hints.items() if key not in sections
    }


def _section(model: type) -> dict[str, Any]:
    """Return the schema of a section that another package defines."""
    hints = typing.get_type_hints(model)
    words = {field: text for field, _, text in described_fields(model)}
    return {
        "type": ["object", "null"],
        "description": (inspect.getdoc(model) or "").partition("\n")[0],
        "additionalProperties": False,
        "properties": {key: {**_section_field(hints[key]), **_description(words, key)} for key in words},
    }


def _section_field(hint: Any) -> dict[str, Any]:
    """Return the schema of a section's option; a number may be written as a duration."""
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    models = [part for part in parts if isinstance(part, type) and is_dataclass(part)]
    if models:
        return _section(models[0])
    return _kind(hint | str if float in parts else hint)


def _description(words: dict[str, str], field: str) -> dict[str, str]:
    return {"description": words[field]} if field in words else {}


def _kind(hint: Any) -> dict[str, Any]:
    """Return the schema of a simple type; other types accept anything."""
    if typing.get_origin(hint) is Literal:
        return {"enum": list(typing.get_args(hint))}
    parts = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    simple = [_SIMPLE[part] for part in parts if part in _SIMPLE]
    if not simple:
        return {}
    return {"type": simple} if "string" in simple else {"anyOf": [{"type": simple}, _REFERENCE]}


def _options_of(name: str) -> dict[str, Any]:
    """Return the schema of the options of a scorer."""
    try:
        found = find_scorer(name, "scorer")
        parameters = inspect.signature(found).parameters if callable(found) else {}
    except (ConfigError, ValueError):  # its library is not installed
        return {}
    options: dict[str, Any] = {
        "properties": {option: _described(found, option) for option in parameters},
        "additionalProperties": False,
    }
    options["required"] = [n for n, p in parameters.items() if p.default is inspect.Parameter.empty]
    then: dict[str, Any] = {"properties": {"options": options}}
    if options["required"]:
        then["required"] = ["options"]
    return {"if": {"properties": {"scorer": {"const": name}}}, "then": then}


def _described(factory: Callable[..., Any], option: str) -> dict[str, str]:
    """Return the description of an option in the docstring's Args."""
    for line in (inspect.getdoc(factory) or "").splitlines():
        name, found, text = line.strip().partition(": ")
        if found and name == option:
            return {"description": text}
    return {}
