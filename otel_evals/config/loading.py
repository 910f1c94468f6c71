"""Builds a Config from objects, names and mappings, or from a YAML file.

In code a rule takes objects; in YAML the same fields take text:

    rules:
      - scorer: keyword_coverage
        sample: ratio(0.1) | errors()
      - scorer: hallucination
        options: {model: openai/gpt-5-mini, get_context: tool_results}
        when: {agent_name: support}
    destinations:
      - console
      - jsonl: {path: scores.jsonl}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from otel_evals.config import names
from otel_evals.config.options import Config
from otel_evals.config.rules import Rule
from otel_evals.config.validation import checked, suggestion
from otel_evals.errors import ConfigError
from otel_evals.export import Destination
from otel_evals.scoring.scorer import Scorer

__all__ = ["build_config", "load_config"]


def build_config(
    rules: Sequence[Any] = (),
    destinations: Sequence[Any] = (),
    *,
    field: str = "",
    **options: Any,
) -> Config:
    """Build a Config.

    Args:
        rules: rules, scorers, or mappings as in YAML.
        destinations: destinations, names, or `{name: options}` mappings.
        field: prefix of the field paths in error messages.
        options: the other fields of Config.

    Raises:
        ConfigError: a value is wrong; the message names the field and the fix.
    """
    rules = _listed(rules, f"{field}rules")
    destinations = _listed(destinations, f"{field}destinations")
    built = [_rule(rule, f"{field}rules[{i}]") for i, rule in enumerate(rules)]
    places = [_destination(place, f"{field}destinations[{i}]") for i, place in enumerate(destinations)]
    unknown = sorted(set(options) - set(Config.__dataclass_fields__))
    if unknown:
        raise ConfigError(
            f"{field}{unknown[0]}",
            "there is no such option" + suggestion(unknown[0], Config.__dataclass_fields__),
        )
    return cast("Config", checked(Config, field, rules=tuple(built), destinations=tuple(places), **options))


def load_config(path: str | Path) -> Config:
    """Read a Config from a YAML file.

    Raises:
        ConfigError: the file cannot be read, or a value is wrong; the message names the file and the field.
    """
    import yaml

    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(str(path), f"is not YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(str(path), "must be a mapping with `rules` and, optionally, `destinations`")
    return build_config(field=f"{path}: ", **{str(key): value for key, value in data.items()})


def _listed(value: Any, field: str) -> Sequence[Any]:
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise ConfigError(field, f"must be a list, not {type(value).__name__}")
    return value


def _rule(value: Any, field: str) -> Rule:
    if isinstance(value, Rule):
        return value
    if isinstance(value, Scorer):
        return Rule(value)
    if isinstance(value, str):
        value = {"scorer": value}
    if not isinstance(value, Mapping) or "scorer" not in value:
        raise ConfigError(field, "must be a Rule, a scorer, or a mapping with `scorer`")
    fields = {str(key): each for key, each in value.items()}
    options = fields.pop("options", None)
    if isinstance(fields["scorer"], str):
        fields["scorer"] = names.build_scorer(fields["scorer"], options or {}, field)
    elif options is not None:
        raise ConfigError(f"{field}.options", "only go with a scorer that is given by name")
    unknown = sorted(set(fields) - (set(Rule.__dataclass_fields__) - {"_"}))
    if unknown:
        raise ConfigError(
            f"{field}.{unknown[0]}",
            "there is no such option" + suggestion(unknown[0], Rule.__dataclass_fields__),
        )
    return cast("Rule", checked(Rule, f"{field}.", **fields))


def _destination(value: Any, field: str) -> Destination:
    if isinstance(value, str):
        return names.build_destination(value, {}, field)
    if isinstance(value, Mapping):
        if len(value) != 1:
            raise ConfigError(field, "must name one destination, as in `jsonl: {path: scores.jsonl}`")
        name, options = next(iter(value.items()))
        return names.build_destination(str(name), options or {}, field)
    if isinstance(value, type) or not all(hasattr(value, name) for name in ("name", "export", "shutdown")):
        raise ConfigError(
            field, f"{value!r:.100} is not a destination: it needs `name`, `export` and `shutdown`"
        )
    return cast("Destination", value)
