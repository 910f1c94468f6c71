"""Checks that the answer is JSON and fits a schema. Code only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.bounds import extra_library, pattern_search, unreadable
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals._internal.util.plain import read_json
from otel_evals.errors import ConfigError

_OPENING = re.compile(r"```(?:json)?[ \t]*\n", re.IGNORECASE)


def valid_json(
    *, schema: Mapping[str, Any] | type[BaseModel] | None = None, fenced: bool = True
) -> FunctionScorer:
    """Score 1 if the answer is one JSON value that fits a schema.

    The schema is a JSON Schema or a pydantic model. With `fenced`, an answer may be a single fenced code
    block with the value. NaN and Infinity are no JSON. A search for a pattern of the schema fails with a
    TimeoutError after a second.

    Range: 0 or 1, higher is better. Labels: `valid`, `not_json`, `wrong_form`.
    Needs: the output; for a JSON Schema, the `text` extra.
    Not scored: `output_not_recorded`, `output_captured_off`, `output_empty`.
    Cost: none; microseconds for small answers.

    Raises:
        ConfigError: the schema is invalid, or combines patterns with `unevaluatedProperties`; or jsonschema
            or regex is not installed.
    """
    problem = _checker(schema)

    @scorer(id="valid_json", inline=not isinstance(schema, Mapping))
    def valid_json(run: Run) -> Score | NotScored:
        if (absent := unreadable(run, "output")) is not None:
            return absent
        text = run.output or ""
        try:
            value = read_json(_unfenced(text) if fenced else text, parse_constant=_refuse)
        except ValueError as error:
            return Score(value=0.0, label="not_json", explanation=str(error)[:300])
        wrong = problem(value)
        return Score(value=float(wrong is None), label="wrong_form" if wrong else "valid", explanation=wrong)

    return valid_json


def _unfenced(text: str) -> str:
    """Return the content of a text that is a single fenced code block, otherwise the text."""
    stripped = text.strip()
    opening = _OPENING.match(stripped)
    if opening is None or not stripped.endswith("```") or len(stripped) < opening.end() + 3:
        return text
    return stripped[opening.end() : -3]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _checker(schema: Mapping[str, Any] | type[BaseModel] | None) -> Callable[[Any], str | None]:
    """Return a function from a value to its problem, None if it has none."""
    if schema is None:
        return lambda value: None
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        return partial(_model_problem, schema)
    if not isinstance(schema, Mapping):
        raise ConfigError("valid_json.schema", "must be a JSON Schema or a pydantic model")
    jsonschema = extra_library("jsonschema", "valid_json")
    kind = jsonschema.validators.validator_for(schema)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ConfigError("valid_json.schema", f"is not a JSON Schema: {error.message}") from error
    bounded = jsonschema.validators.extend(kind, _bounded_keywords(schema, kind.VALIDATORS, jsonschema))
    validator, best_match = bounded(_of_one_convention(schema)), jsonschema.exceptions.best_match

    def problem(value: Any) -> str | None:
        error = best_match(validator.iter_errors(value))
        return None if error is None else f"{error.json_path}: {error.message}"[:300]

    return problem


def _model_problem(model: type[BaseModel], value: Any) -> str | None:
    try:
        model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:300]
    return None


def _bounded_keywords(
    schema: Mapping[str, Any], keywords: Mapping[str, Any], jsonschema: Any
) -> dict[str, Any]:
    """Return the keywords that search for patterns, with searches that end after a second.

    jsonschema's own use `re`, which takes exponential time on some texts and stops every thread.
    """
    searches = {source: pattern_search("valid_json.schema", source) for source in _patterns(schema)}
    if searches and "unevaluatedProperties" in _keys(schema):
        problem = "combines patterns with unevaluatedProperties; use additionalProperties"
        raise ConfigError("valid_json.schema", problem)

    def pattern(_: Any, wanted: str, instance: Any, __: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not searches[wanted](instance):
            yield jsonschema.ValidationError(f"{instance[:100]!r} does not match {wanted!r}")

    def pattern_properties(validator: Any, wanted: Mapping[str, Any], instance: Any, _: Any) -> Iterator[Any]:
        if isinstance(instance, dict):
            for source, subschema in wanted.items():
                for name, value in instance.items():
                    if searches[source](name):
                        yield from validator.descend(value, subschema, path=name, schema_path=source)

    def additional(validator: Any, wanted: Any, instance: Any, parent: Mapping[str, Any]) -> Iterator[Any]:
        known, sources = parent.get("properties", {}), parent.get("patternProperties", {})
        others = {
            name: value
            for name, value in (instance.items() if isinstance(instance, dict) else ())
            if name not in known and not any(searches[source](name) for source in sources)
        }
        yield from keywords["additionalProperties"](validator, wanted, others, {})

    return {"pattern": pattern, "patternProperties": pattern_properties, "additionalProperties": additional}


def _patterns(schema: Any) -> Iterator[str]:
    for part in _parts(schema):
        yield from part["patternProperties"] if isinstance(part.get("patternProperties"), Mapping) else ()
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]


def _keys(schema: Any) -> set[str]:
    return {key for part in _parts(schema) for key in part}


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all mappings in a schema, itself included."""
    if isinstance(schema, Mapping):
        yield schema
        schema = list(schema.values())
    for part in schema if isinstance(schema, list | tuple) else ():
        yield from _parts(part)


def _of_one_convention(schema: Any) -> Any:
    """Remove `$schema`, which would restore jsonschema's own keywords."""
    if isinstance(schema, Mapping):
        return {
            key: _of_one_convention(value)
            for key, value in schema.items()
            if key != "$schema" or not isinstance(value, str)
        }
    return [_of_one_convention(part) for part in schema] if isinstance(schema, list) else schema
