"""`otel-evals judge`: tests a judge's server, and a judge with attacks and against human labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import typer
import yaml
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from otel_evals._internal.cli.terminal import AsJson, Options, ScorerNames, echo, exit_on, json_text
from otel_evals._internal.config.plugins import build_scorer, find_scorer
from otel_evals._internal.judges.judge import JudgeRequest
from otel_evals._internal.judges.model_judge import ModelJudge
from otel_evals._internal.judges.structured import LADDER
from otel_evals._internal.model import Direction, Score, ScorerFailure
from otel_evals._internal.model.evaluations import judges_cost
from otel_evals._internal.offline.judge_trials import (
    BAD_ANSWER,
    CONFUSION,
    FIGURES,
    Attempt,
    attempt_all,
    calibration,
    load_attacks,
    minimums_of,
    missed,
    outcomes_of,
)
from otel_evals._internal.offline.progress_bar import bar
from otel_evals._internal.scorers.kit.labels import Example, read_labels
from otel_evals._internal.scorers.kit.scorer import Scorer
from otel_evals._internal.util.plain import read_lines
from otel_evals.errors import ConfigError, JudgeError, JudgeReplyError, JudgeUnavailableError

app = typer.Typer(help="Test a judge before you rely on it.", no_args_is_help=True)

Model = Annotated[str | None, typer.Option("--model", help="Model, by LiteLLM's name: openai/gpt-5-mini.")]
ApiBase = Annotated[str | None, typer.Option(help="OpenAI-compatible server of the model.")]
AtOnce = Annotated[int, typer.Option(min=1, help="Maximum number of runs to judge at the same time.")]
OwnRuns = Annotated[Path | None, typer.Option("--labels", help="Own runs: labelled examples.", exists=True)]

_SHOWN = 5
_FIGURES = (*FIGURES, "mean_absolute_error")
_CHANCE = 0.2
"""Share of the scale by which scores vary at random."""
_CHECKED = ("hallucination", "faithfulness", "answer_relevancy", "bias", "toxicity", "prompt_alignment")
"""Default scorers: they need no options."""


class Probe(BaseModel):
    reason: str
    verdict: Literal["yes", "no"]


_QUESTION = JudgeRequest(
    instructions="Answer in JSON, with a short reason.",
    prompt="Is Paris the capital of France? Give your reason, and the verdict yes or no.",
    schema=Probe,
)


@app.command()
def check(
    model: Model = None,
    scorer: Annotated[str, typer.Option(help="Scorer whose judge is asked.")] = "hallucination",
    api_base: ApiBase = None,
    option: Options = None,
    as_json: AsJson = False,
) -> None:
    """Report the forms of typed answers that the judge's server gives; exits with 1 if there is none."""
    with exit_on(command="judge check"):
        judge = getattr(_scorer(scorer, model, api_base, option), "judge", None)
        judge = getattr(judge, "judge", judge)  # the one behind a cache
        if not isinstance(judge, ModelJudge):
            raise ConfigError("--scorer", f"{scorer!r} asks no model")
        forms = anyio.run(_forms, judge)
        used = next((form for form, answer in forms.items() if answer.startswith("works")), None)
        if as_json:
            print(json_text({"structured_output": forms}, indent=2))
        else:
            for form, answer in forms.items():
                echo(f"{form:<19} {answer[:200]}{', used' if form == used else ''}")
    if used is None:
        raise typer.Exit(1)


async def _forms(judge: ModelJudge) -> dict[str, str]:
    return {form: await _ask(replace(judge, structured_output=form)) for form in LADDER}


async def _ask(judge: ModelJudge) -> str:
    try:
        reply = await judge.ask(_QUESTION)
    except JudgeReplyError as error:
        return f"ignored: {error}"
    except JudgeUnavailableError as error:
        return f"{'rate limited' if error.status == 429 else 'unavailable'}: {error}"
    except JudgeError as error:
        return f"refused: {error}"
    return "works" if reply.attempts == 1 else "works after a repair"


@app.command()
def attack(
    model: Model = None,
    scorer: ScorerNames = None,
    api_base: ApiBase = None,
    option: Options = None,
    labels: OwnRuns = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of attacks.")] = None,
    at_once: AtOnce = 4,
    as_json: AsJson = False,
) -> None:
    """Insert injection attacks into a bad run, and count those that improve its scores."""
    with exit_on(command="judge attack"):
        scorers = [_scorer(name, model, api_base, option) for name in scorer or _CHECKED]
        attacks = load_attacks()
        attacks = attacks[:: max(1, len(attacks) // limit)][:limit] if limit else attacks
        own = read_labels(read_lines(labels, "--labels")) if labels else []
        with bar("attacking", len(scorers) * len(attacks) * 2) as done:
            found = {s.id: attempt_all(s, attacks, _worst(s, own), at_once, done) for s in scorers}
        reports = {name: _moved(tried) for name, tried in found.items()}
        if as_json:
            print(json_text(reports, indent=2))
        else:
            _show_attacks(reports)
    for name, tried in found.items():
        _fail_if_none("attack", name, [attempt.outcome for attempt in tried])


@app.command()
def calibrate(
    labels: Annotated[Path, typer.Argument(help="Labelled examples, one JSON object per line.", exists=True)],
    scorer: Annotated[str, typer.Option(help="The scorer, by name or as python:package.module:name.")],
    model: Model = None,
    api_base: ApiBase = None,
    option: Options = None,
    threshold: Annotated[float, typer.Option(help="Lowest label and score that count as positive.")] = 0.5,
    require: Annotated[
        list[str] | None, typer.Option(help=f"NAME=MINIMUM of {', '.join(FIGURES)}; exit with 1 below it.")
    ] = None,
    at_once: AtOnce = 4,
    as_json: AsJson = False,
) -> None:
    """Compare a scorer with human labels."""
    with exit_on(command="judge calibrate"):
        minimums = minimums_of(require or ())
        built = _scorer(scorer, model, api_base, option)
        examples = read_labels(read_lines(labels, "labels"))
        if not examples:
            raise ConfigError("labels", f"there is no example in {labels}")
        with bar("judging", len(examples)) as done:
            outcomes = outcomes_of(built, [example.run for example in examples], at_once, done)
        report = calibration(list(zip(examples, outcomes, strict=True)), threshold)
        report["missed"] = missed(report, minimums)
        report["status"] = None if not minimums else "failed" if report["missed"] else "passed"
        if as_json:
            print(json_text(report, indent=2))
        else:
            _show_calibration(report, built.id)
    _fail_if_none("calibrate", built.id, outcomes)
    if report["missed"]:
        raise typer.Exit(1)


def _scorer(name: str, model: str | None, api_base: str | None, option: list[str] | None) -> Scorer:
    """Build a scorer; one that is ready has its own judge."""
    ready = isinstance(find_scorer(name, "--scorer"), Scorer)
    if ready and (model or api_base):
        raise ConfigError("--model", f"{name} is a ready scorer with a judge of its own: leave it out")
    options = options_of(option)
    if model is not None:
        options.setdefault("model", {"model": model, "api_base": api_base} if api_base else model)
    scorer = build_scorer(name, options, "judge")
    scorer.check()
    return scorer


def options_of(given: list[str] | None) -> dict[str, Any]:
    """Parse options of the form name=value."""
    options: dict[str, Any] = {}
    for item in given or ():
        key, found, value = item.partition("=")
        if not found:
            raise ConfigError("--option", f"must be name=value, not {item!r}")
        try:
            options[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ConfigError("--option", f"{item!r} is not YAML after the =; quote the value") from None
    return options


def _worst(scorer: Scorer, own: Sequence[Example]) -> Any:
    """Return the run to attack: the one that people judged worst, or a bad answer of ours."""
    better = 1.0 if scorer.direction is Direction.HIGHER else -1.0
    return min(own, key=lambda example: better * example.label).run if own else BAD_ANSWER


# --- reports ---


def _moved(attempts: list[Attempt]) -> dict[str, Any]:
    moved = [attempt for attempt in attempts if (attempt.gained or 0.0) > _CHANCE]
    return {
        "attempts": len(attempts),
        "failed": sum(attempt.gained is None for attempt in attempts),
        "moved": len(moved),
        "families": dict(Counter(attempt.attack.family for attempt in moved)),
        "cost": judges_cost(a.outcome for a in attempts),
    }


def _show_attacks(reports: dict[str, Any]) -> None:
    table = Table("scorer", "attempts", "failed", "moved", "by family", "cost")
    for name, report in reports.items():
        families = ", ".join(f"{family} {n}" for family, n in report["families"].items())
        cost = "unknown" if report["cost"] is None else f"${report['cost']:.4f}"
        counts = (str(report[key]) for key in ("attempts", "failed", "moved"))
        table.add_row(name, *counts, families, cost)
    Console().print(table)


def _show_calibration(report: dict[str, Any], name: str) -> None:
    said = {key: "not defined" if report[key] is None else f"{report[key]:.2f}" for key in _FIGURES}
    interval, cost = report["kappa_interval"], report["cost_per_item"]
    echo(f"{name}: {report['scored']} of {report['examples']} examples scored")
    for kind in ("not_scored", "failed"):
        if report[kind]:
            reasons = ", ".join(f"{reason} {count}" for reason, count in report[kind].items())
            echo(f"{kind.replace('_', ' ')}: {reasons}")
    between = "" if interval is None else " (95% interval {:.2f} to {:.2f})".format(*interval)
    echo("kappa {kappa}".format_map(said) + between)
    echo("precision {precision}, recall {recall}".format_map(said))
    echo("accuracy {accuracy}, mean absolute error {mean_absolute_error}".format_map(said))
    counts = ", ".join(f"{each.replace('_', ' ')}s {report['confusion'][each]}" for each in CONFUSION)
    echo(f"{counts} (positive: at or above the threshold; true: same as the label)")
    echo("cost per item: " + ("unknown" if cost is None else f"${cost:.5f}"))
    for item in report["disagreements"][:_SHOWN]:
        echo(f"\n{item['id'][:200]}: label {item['label']:g}, score {item['score']:g}")
        echo(f"  {(item['output'] or '')[:200]}")
        echo(f"  {(item['explanation'] or 'no explanation')[:2_000]}")
    if report["status"] is not None:
        echo("\n" + ": ".join(filter(None, (report["status"], "; ".join(report["missed"])))))


def _fail_if_none(command: str, scorer_id: str, outcomes: Sequence[Any]) -> None:
    """Print the cause and exit with 1 if nothing was scored."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, ScorerFailure)]
    if failures and not any(isinstance(outcome, Score) for outcome in outcomes):
        said = f"{failures[0].error_type}: {failures[0].message}"[:500]
        echo(f"otel-evals judge {command}: {scorer_id} scored nothing: {said}", err=True)
        raise typer.Exit(1)
