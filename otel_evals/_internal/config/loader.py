"""Builds a Config, with sections of other packages, from objects, names and mappings, or YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from opentelemetry._logs import Logger

from otel_evals._internal.config.imports import destination_mistake, scorer_mistake
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.plugins import build_destination, build_scorer
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.deliver.destination import Destination
from otel_evals._internal.scorers.kit.scorer import FunctionScorer
from otel_evals._internal.util.installed import entry_points, load
from otel_evals._internal.util.options import Problems, call_with, suggestion
from otel_evals.errors import ConfigError

SECTIONS = "otel_evals_config_section"
"""Entry-point group of sections: the name of the section, and the model that reads it."""
CHECKS = "otel_evals_config_check"
"""Entry-point group of checks: the name of a section, and a function that gets the configuration."""


def build_config(
    rules: Sequence[Any] = (), destinations: Sequence[Any] = (), *, sample: Any = None, **options: Any
) -> Config:
    """Build a Config from rules (or scorers, or mappings as in YAML), destinations and other fields.

    `sample` is the sampler of rules that are no `Rule` and name no sampler.
    """
    problems = Problems()
    built, places = [], []
    default: dict[str, Any] = {}
    if sample is not None:
        with problems.noting():
            default["sample"] = Rule(FunctionScorer(bool, id="any"), sample=sample).sample
    for index, rule in enumerate(_listed(rules, "rules", problems)):
        with problems.noting(f"rules[{index}]"):
            built.append(_rule(rule, f"rules[{index}]", default))
    for index, place in enumerate(_listed(destinations, "destinations", problems)):
        with problems.noting():
            places.append(_destination(place, f"destinations[{index}]"))
    usable = _usable(options, problems)
    with problems.noting():
        # Built for its mistakes only, which are reported together with those of the rules.
        Config(**usable)
    problems.raise_any()
    return Config(rules=tuple(built), destinations=tuple(places), **usable)


def _usable(options: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """Return the options that are fields of Config, with the sections of other packages in `sections`."""
    fields = Config.__dataclass_fields__.keys() - {"sections"}
    sections: dict[str, Any] = {}
    for name in options.keys() - fields:
        # Sections are looked up only now: that reads the entry points of every installed package.
        known = fields | section_names()
        if name not in known:
            problems.add(str(name), "unknown option" + suggestion(str(name), known))
        elif options[name] is not None:
            with problems.noting():
                sections[name] = _section(name, options[name])
    return {name: value for name, value in options.items() if name in fields} | {"sections": sections}


def load_config(path: str | Path) -> Config:
    """Read a Config from a YAML file.

    Raises:
        ConfigError: the file cannot be read, or a value is wrong; the message names place and field.
        ConfigErrors: several values are wrong.
    """
    # PyYAML is loaded for files only.
    from otel_evals._internal.config.yaml_file import YamlFile

    file = YamlFile(path)
    problems = Problems()
    if not isinstance(file.values, dict):
        problems.add("the file", "must be a mapping with `rules` and optionally `destinations`")
    elif "rules" not in file.values and (near := get_close_matches("rules", map(str, file.values), n=1)):
        problems.add(near[0], "unknown option; did you mean 'rules'?")
    elif not file.values.get("rules"):
        problems.add("rules", "nothing would be scored: name at least one scorer, as in `rules: [answered]`")
    else:
        with problems.noting():
            config = build_config(**{str(key): value for key, value in file.values.items()})
    problems.found = file.placed(problems.found)
    problems.raise_any()
    return config


def _listed(value: Any, field: str, problems: Problems) -> Sequence[Any]:
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        problems.add(field, f"must be a list, not {type(value).__name__}")
        return ()
    return value


def _rule(value: Any, field: str, default: Mapping[str, Any]) -> Rule:
    if isinstance(value, Rule):
        return value
    if isinstance(value, str):
        value = {"scorer": value}
    if not isinstance(value, Mapping):
        mistake = scorer_mistake(value)
        if mistake is not None:
            raise ConfigError(field, mistake)
        return Rule(value, **default)
    return _rule_of_mapping({**default, **{str(key): each for key, each in value.items()}}, field)


def _rule_of_mapping(fields: dict[str, Any], field: str) -> Rule:
    problems = Problems()
    known = {*Rule.__dataclass_fields__, "options"}
    options = fields.pop("options", None)
    for name in fields.keys() - known:
        problems.add(f"{field}.{name}", "unknown option" + suggestion(name, known))
    if "scorer" not in fields:
        problems.add(field, "must be a scorer's name, or a mapping with `scorer`")
    elif isinstance(fields["scorer"], str):
        with problems.noting():
            given = _options(options, f"{field}.options")
            fields["scorer"] = build_scorer(fields["scorer"], given, field)
    elif options is not None:
        problems.add(f"{field}.options", "require a scorer that is given by name")
    if problems.found:
        # Use any scorer, to find the other mistakes.
        usable = {name: value for name, value in fields.items() if name in known and name != "scorer"}
        with problems.noting(field):
            Rule(FunctionScorer(bool, id="any"), **usable)
    problems.raise_any()
    return Rule(**fields)


def _options(options: Any, field: str) -> Mapping[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ConfigError(field, f"must be a mapping of options, not {type(options).__name__}")
    return {str(key): value for key, value in options.items()}


def _destination(value: Any, field: str) -> Destination:
    if isinstance(value, str):
        return build_destination(value, {}, field)
    if isinstance(value, Mapping):
        if len(value) != 1:
            raise ConfigError(field, "must name one destination, as in `jsonl: {path: scores.jsonl}`")
        name, options = next(iter(value.items()))
        return build_destination(str(name), _options(options, f"{field}.{name}"), field)
    mistake = destination_mistake(value)
    if mistake is not None:
        raise ConfigError(field, mistake)
    return cast("Destination", value)


# --- sections that other packages define, such as `gateway` and `alarms` ---


def section_names() -> set[str]:
    return {point.name for point in entry_points(group=SECTIONS)}


def _section(name: str, value: Any) -> Any:
    """Read a section from a mapping; a model's instance is returned as it is."""
    model = load(entry_points(group=SECTIONS)[name], name)
    return value if isinstance(value, model) else call_with(model, _options(value, name), name)


def check_sections(config: Config) -> None:
    """Check the sections of a configuration beyond what their models check.

    Raises:
        ConfigError: a file that a section names cannot be used, or options do not work together.
    """
    for name in config.sections:
        for point in entry_points(group=CHECKS).select(name=name):
            load(point, name)(config)


def start_watches(
    sections: Mapping[str, Any], destinations: tuple[Any, ...], logger: Callable[[], Logger]
) -> list[Any]:
    """Start the background work of sections that have a method `watch(destinations, logger)`.

    Each result has `start()`, which is called again in forked children, and `stop()`.

    Raises:
        ConfigError: the configuration lacks an option that the work needs.
    """
    return [each.watch(destinations, logger) for each in sections.values() if hasattr(each, "watch")]
