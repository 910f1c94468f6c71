"""The configuration file as a JSON schema, for editors that complete and check YAML."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
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
}
"""Options of a rule that have another type in a file than in code."""


def config_schema() -> dict[str, Any]:
    """Return the JSON schema of configuration files, with the installed scorers and their options."""
    names = scorer_names()
    name = {"anyOf": [{"enum": names}, {"type": "string", "pattern": f"^{PREFIX}"}]}
    hints = {key: hint for key, hint in typing.get_type_hints(Rule).items() if key != "_"}
    rule = {
        "type": "object",
        "required": ["scorer"],
        "additionalProperties": False,
        "properties": _properties(Rule, hints, {"scorer": name, **_RULE}),
        "allOf": [_options_of(each) for each in names],
    }
    options, sections = typing.get_type_hints(ConfigOptions), section_names()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "otel-evals",
        "type": "object",
        "required": ["rules"],
        "additionalProperties": False,
        "properties": {
            "rules": {"type": "array", "minItems": 1, "items": {"anyOf": [name, rule]}},
            "sample": {**_RULE["sample"], "description": "Sampler of all rules that name none."},
            "destinations": {"type": "array", "items": {"type": ["string", "object"]}},
            **_properties(Config, {k: h for k, h in options.items() if k not in (*sections, "sample")}),
            **{each: _section_of(each) for each in sorted(sections)},
        },
    }


def described_fields(model: type) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and description of each field of a configuration class, from its source."""
    for base in filter(is_dataclass, model.__bases__):
        yield from described_fields(base)
    # The text below a field is no attribute at run time: only the source has it.
    body = ast.parse(inspect.getsource(model)).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, doc in zip(body.body, body.body[1:], strict=False):
        described = isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr) and described:
            default = ast.unparse(field.value) if field.value else "required"
            yield ast.unparse(field.target), default, " ".join(ast.literal_eval(doc.value).split())


def _properties(model: type, hints: Mapping[str, Any], known: Mapping[str, Any] = {}) -> dict[str, Any]:
    """Return the schemas of options by their types, with the descriptions of a model's fields."""
    words = {field: {"description": text} for field, _, text in described_fields(model)}
    kinds = {**known, **{key: _type(hint) for key, hint in hints.items() if key not in known}}
    return {key: {**kind, **words.get(key, {})} for key, kind in kinds.items()}


def _section_of(name: str) -> dict[str, Any]:
    try:
        return _section(section_model(name))
    except ConfigError:  # its package cannot be used
        return {}


def _section(model: type) -> dict[str, Any]:
    return {
        "type": ["object", "null"],
        "description": (inspect.getdoc(model) or "").partition("\n")[0],
        "additionalProperties": False,
        "properties": _properties(model, typing.get_type_hints(model)),
    }


def _type(hint: Any) -> dict[str, Any]:
    """Return the schema of a type: a simple one, a section, a number that may be a duration, or anything."""
    if typing.get_origin(hint) is Literal:
        return {"enum": list(typing.get_args(hint))}
    parts = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)
    models = [part for part in parts if isinstance(part, type) and is_dataclass(part)]
    if models:
        return _section(models[0])
    simple = [_SIMPLE[part] for part in parts if part in _SIMPLE]
    if "number" in simple and "string" not in simple:
        simple.append("string")
    if not simple:
        return {}
    return {"type": simple} if "string" in simple else {"anyOf": [{"type": simple}, _REFERENCE]}


_EXAMPLES = "file of labelled examples to show the judge, as for `judge calibrate`"


def _options_of(name: str) -> dict[str, Any]:
    try:
        found = find_scorer(name, "scorer")
        parameters = inspect.signature(found).parameters if callable(found) else {}
    except (ConfigError, ValueError):  # its library is not installed
        return {}
    options: dict[str, Any] = {
        "properties": {option: _described(found, option) for option in parameters},
        "additionalProperties": False,
    }
    if "model" in parameters:
        options["properties"]["examples"] = {"type": "string", "description": _EXAMPLES}
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
