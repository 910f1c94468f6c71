"""`otel-evals init` writes a first configuration; `config check` lists its mistakes or its rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from otel_evals._internal.cli.terminal import echo
from otel_evals._internal.config.loader import check_sections, load_config
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule, judges_of
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
_JUDGED = {"run": "runs", "agent": "every agent in a run", "conversation": "conversations"}
_FILE = """\
# Configuration of otel-evals. All options: docs/configuration.md.
# `otel-evals config check {name}` lists all mistakes, or the rules with sampling rate and judge calls.

rules:
  # Is there an answer? In code, on every run.
  - answered

  # Are the facts in the answer supported by tool results? In code, on every run.
  - scorer: grounded_in_tools
    # when: {{agent_name: [support, sales], tenant.id: acme}}   # run fields and span attributes

  # A model as judge, on one run in twenty and all failed runs. More: `otel-evals scorers list`.
  # - scorer: answer_relevancy
  #   options: {{model: "${{JUDGE_MODEL:-openai/gpt-5-mini}}"}}   # needs the litellm extra
  #   sample: ratio(0.05) | errors()
  #   timeout: 30s

destinations:
  - console                        # question, answer and scores of each run, on standard output
  # - jsonl: {{path: scores.jsonl}}  # one line of JSON per run

# To keep prompts, contexts and explanations off the scores: capture_content: false
"""


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("otel-evals.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a first configuration, with comments."""
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(_FILE.format(name=path))
    except OSError as error:
        hint = "; --force replaces it" if isinstance(error, FileExistsError) else ""
        echo(f"otel-evals init: {path} cannot be written: {error.strerror or error}{hint}", err=True)
        raise typer.Exit(2) from None
    echo(f'{path} is written. In your application, at startup:\n\n  otel_evals.install("{path}")')
    echo("\nThe line that turns your framework's spans on is reported by: otel-evals doctor -- python app.py")


@app.callback()
def _group() -> None:
    """Keep `check` a command of its own: Typer makes the only command of an application the application."""


@app.command()
def check(file: Annotated[Path, typer.Argument(help="The YAML file.")]) -> None:
    """List all mistakes of a configuration file, or its rules with sampling rate and judge calls."""
    try:
        config = load_config(file)
        check_sections(config)
    except ConfigError as error:
        for each in error.errors:
            echo(f"otel-evals config check: {each}", err=True)
        raise typer.Exit(2) from None
    places = counted(len(config.destinations), "destination")
    echo(f"{file}: no mistakes; {counted(len(config.rules), 'rule')}, {places}")
    for rule in config.rules:
        echo("\n".join(_lines(rule)))
    echo(f"\nScores go to {_where(config)}.")


def _lines(rule: Rule) -> Iterator[str]:
    name = getattr(rule.when, "__name__", "")
    where = "" if rule.when is None else f" where {f'{name}(run) is true' if name else rule.when}"
    calls = Counter(judge.model for judge in judges_of(rule.scorer))
    asks = [f"at least {counted(count, 'call')} to {model}" for model, count in calls.items()]
    yield f"\n{rule.name}"
    yield f"  judges       {_JUDGED[rule.scope]}{where}"
    yield f"  how often    {_how_often(rule)}"
    yield f"  judge calls  {', '.join(asks) + ' per scored run' if asks else 'none'}"


def _how_often(rule: Rule) -> str:
    probability = rule.sample.chance(_UNEVENTFUL).probability
    if probability >= 1:
        return "every one"
    usual = f"{probability:.3%}".rstrip("0%").rstrip(".") or "0"
    sampling = rule.sampling
    return f"{sampling.words}: {usual}% of runs without errors, at most {sampling.ceiling:.0%} of any"


def _where(config: Config) -> str:
    ways = {
        "attributes of the judged span": config.span_attributes,
        "evaluation events": config.evaluation_events,
        "evaluation spans": config.evaluation_spans,
        "metrics": config.metrics,
    }
    places = [way for way, on in ways.items() if on] + [place.name for place in config.destinations]
    return ", ".join(places) or "nowhere: all outputs are disabled, and there is no destination"
