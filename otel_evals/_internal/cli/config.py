"""`otel-evals config`: checks a configuration file, estimates its cost, and prints its JSON schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from otel_evals._internal.cli.terminal import AsJson, echo, json_text
from otel_evals._internal.config.costs import judge_calls
from otel_evals._internal.config.loader import load_config
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.config.schema import config_schema
from otel_evals._internal.config.sections import check_sections
from otel_evals._internal.model import OperationKind, Run
from otel_evals._internal.util.plain import counted
from otel_evals.errors import ConfigError

app = typer.Typer(help="Check a configuration file and explain its rules.", no_args_is_help=True)

_UNEVENTFUL = Run(
    trace_id="0" * 31 + "1",
    root_span_id="0" * 15 + "1",
    root_kind=OperationKind.AGENT,
    start_time=0,
    end_time=1,
)
"""A run without errors, tools and attributes: a sampler sees most runs like this."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The YAML file.")],
    input_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a question to a judge.")] = 2_000,
    output_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a judge's answer.")] = 300,
    as_json: AsJson = False,
) -> None:
    """List all mistakes of a configuration file, or its rules with sampling rate and cost."""
    try:
        config = load_config(file)
        check_sections(config)
    except ConfigError as error:
        for each in error.errors:
            echo(f"otel-evals config check: {each}", err=True)
        raise typer.Exit(2) from None
    rules = [_explained(rule, input_tokens, output_tokens) for rule in config.rules]
    if as_json:
        echo(json_text({"rules": rules}, indent=2))
    else:
        echo("\n".join(_lines(str(file), config, rules, input_tokens, output_tokens)))


@app.command()
def schema() -> None:
    """Print the JSON schema of configuration files, for editors that complete and check YAML."""
    echo(json_text(config_schema(), indent=2))


def _explained(rule: Rule, input_tokens: int, output_tokens: int) -> dict[str, Any]:
    """Describe a rule; costs in US dollars, None if a price is unknown."""
    calls = judge_calls(rule.scorer, input_tokens, output_tokens)
    probability = rule.sample.chance(_UNEVENTFUL).probability
    priced = [each["calls"] * each["price"] for each in calls if each["price"] is not None]
    cost = sum(priced) if len(priced) == len(calls) else None
    return {
        "rule": rule.name,
        "version": rule.facts.version,
        "judges": _applies_to(rule),
        "sample": rule.sampling.words,
        "probability": probability,
        "ceiling": rule.sampling.ceiling,
        "calls": calls,
        "cost_per_run": cost,
        "cost_per_1000": None if cost is None else cost * probability * 1_000,
    }


def _applies_to(rule: Rule) -> str:
    what = {"run": "runs", "agent": "every agent in a run", "conversation": "conversations"}[rule.scope]
    if rule.when is None:
        return what
    name = getattr(rule.when, "__name__", "")
    return f"{what} where {f'{name}(run) is true' if name else rule.when}"


def _lines(
    file: str, config: Config, rules: Sequence[Mapping[str, Any]], input_tokens: int, output_tokens: int
) -> Iterator[str]:
    places = counted(len(config.destinations), "destination")
    yield f"{file}: no mistakes; {counted(len(rules), 'rule')}, {places}"
    for rule in rules:
        yield f"\n{rule['rule']}"
        yield f"  judges     {rule['judges']}"
        yield f"  how often  {_how_often(rule)}"
        yield f"  cost       {_cost(rule)}"
    if any(rule["calls"] for rule in rules):
        length = f"{input_tokens:,} tokens and answers of {output_tokens:,}"
        yield f"\nCosts are estimates, for questions of {length} (--input-tokens, --output-tokens)."
        total = [rule["cost_per_1000"] for rule in rules]
        known = sum(cost for cost in total if cost is not None)
        rest = ", plus the rules with an unknown price" if None in total else ""
        yield f"All rules, for 1,000 runs without errors that they apply to: {_usd(known)}{rest}."
    yield f"\nScores go to {_where(config)}."


def _how_often(rule: Mapping[str, Any]) -> str:
    if rule["probability"] >= 1:
        return "every one"
    usual = f"{rule['probability']:.3%}".rstrip("0%").rstrip(".") or "0"
    return f"{rule['sample']}: {usual}% of runs without errors, at most {rule['ceiling']:.0%} of any"


def _cost(rule: Mapping[str, Any]) -> str:
    if not rule["calls"]:
        return "none: no judge is called"
    calls = ", ".join(
        f"at least {counted(each['calls'], 'call')} to {each['model']}" for each in rule["calls"]
    )
    if rule["cost_per_run"] is None:
        return f"{calls} per scored run; unknown price: set input_price and output_price"
    per_run, per_1000 = _usd(rule["cost_per_run"]), _usd(rule["cost_per_1000"])
    return f"{calls}: {per_run} per scored run, {per_1000} per 1,000 runs"


def _where(config: Config) -> str:
    ways = {
        "attributes of the judged span": config.span_attributes,
        "evaluation events": config.evaluation_events,
        "evaluation spans": config.evaluation_spans,
        "metrics": config.metrics,
    }
    places = [way for way, on in ways.items() if on] + [place.name for place in config.destinations]
    return ", ".join(places) or "nowhere: all outputs are disabled, and there is no destination"


def _usd(amount: float) -> str:
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.2g}"
