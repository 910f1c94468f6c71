"""Checks that the answer is JSON and fits a schema. Code only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.bounds import (
    PatternSearch,
    extra_library,
    pattern_search,
    unreadable,
)
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals._internal.util.plain import read_json
from otel_evals.errors import ConfigError

_OPENING = re.compile(r"```(?:json)?[ \t]*\n", re.IGNORECASE)


def valid_json(
    *, schema: Mapping[str, Any] | type[BaseModel] | None = None, fenced: bool = True
) -> FunctionScorer:
    """Score 1 if the answer is one JSON value that fits a schema.

    The schema is a JSON Schema without `patternProperties`, or a pydantic model. With `fenced`, an answer may
    be a single fenced code block with the value. NaN and Infinity are no JSON. A search for a pattern of the
    schema fails with a TimeoutError after a second.

    Range: 0 or 1, higher is better. Labels: `valid`, `not_json`, `wrong_form`.
    Needs: the output; for a JSON Schema, the `text` extra.
    Not scored: `output_not_recorded`, `output_captured_off`, `output_empty`.
    Cost: none; microseconds for small answers.

    Raises:
        ConfigError: the schema is invalid, has `patternProperties` or a `$ref` to another file, or jsonschema
            or regex is not installed.
    """
    problem = _checker(schema)

    @scorer(id="valid_json", inline=not isinstance(schema, Mapping))
    def valid_json(run: Run) -> Score | NotScored:
        absent = unreadable(run, "output")
        if absent is not None:
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
    # `$schema` would restore the library's own search for patterns.
    own = {name: part for name, part in schema.items() if name != "$schema"}
    bounded = jsonschema.validators.extend(kind, {"pattern": _bounded_search(schema, jsonschema)})
    # Without a registry, the library would fetch a schema from its address again for each answer.
    registry = extra_library("jsonschema_specifications", "valid_json").REGISTRY
    validator, best_match = bounded(own, registry=registry), jsonschema.exceptions.best_match
    try:
        kind.check_schema(schema)
        _follow_references(validator)
    except Exception as error:  # of several libraries
        said = getattr(error, "message", error)
        raise ConfigError("valid_json.schema", f"cannot be used as a JSON Schema: {said}") from error

    def problem(value: Any) -> str | None:
        error = best_match(validator.iter_errors(value))
        return None if error is None else f"{error.json_path}: {error.message}"[:300]

    return problem


def _follow_references(validator: Any) -> None:
    """Raise an error for a reference that leads nowhere, or to itself."""
    whole, *parts = _parts(validator.schema)
    # Inside of a part with its own `$id`, references start there.
    if not any("$id" in part for part in parts):
        for target in (part.get("$ref") for part in (whole, *parts)):
            if isinstance(target, str):
                validator.evolve(schema={"$ref": target}).is_valid(None)


def _model_problem(model: type[BaseModel], value: Any) -> str | None:
    try:
        model.model_validate(value)
    except ValidationError as error:
        # One problem is enough to fix the prompt.
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:300]
    return None


def _bounded_search(schema: Mapping[str, Any], jsonschema: Any) -> Callable[..., Iterator[Any]]:
    """Return the keyword `pattern` with searches that end after a second.

    jsonschema's own uses `re`, which takes exponential time on some texts and stops every thread.
    """
    searches: dict[str, PatternSearch] = {}
    for part in _parts(schema):
        if "patternProperties" in part:
            raise ConfigError("valid_json.schema", "has patternProperties; use propertyNames with a pattern")
        source = part.get("pattern")
        if isinstance(source, str):
            searches[source] = pattern_search("valid_json.schema", source)

    def pattern(_: Any, wanted: str, instance: Any, __: Any) -> Iterator[Any]:
        if isinstance(instance, str) and not searches[wanted](instance):
            yield jsonschema.ValidationError(f"{instance[:100]!r} does not match {wanted!r}")

    return pattern


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all mappings in a schema, itself included."""
    if isinstance(schema, Mapping):
        yield schema
        schema = list(schema.values())
    for part in schema if isinstance(schema, list | tuple) else ():
        yield from _parts(part)
