"""`otel-evals judge`: tests a judge for biases, with attacks, and against human labels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
import yaml
from rich.console import Console
from rich.table import Table

from otel_evals._internal.cli.judge_check import check_biases, check_forms, check_report, show_check
from otel_evals._internal.cli.proposals import proposals, show_proposals
from otel_evals._internal.cli.terminal import AsJson, Options, ScorerNames, echo, exit_on, json_text
from otel_evals._internal.config.plugins import build_scorer
from otel_evals._internal.judges.fence import visible
from otel_evals._internal.model import Score
from otel_evals._internal.model.evaluations import total_cost
from otel_evals._internal.offline.agreement import CONFUSION, agreement
from otel_evals._internal.offline.judge_trials import Attempt, Judged, attempt_all, judge_all, load_attacks
from otel_evals._internal.offline.progress_bar import bar
from otel_evals._internal.scoring.labels import read_labels
from otel_evals._internal.scoring.outcome import root_cause
from otel_evals._internal.scoring.scorer import Scorer
from otel_evals.errors import ConfigError

app = typer.Typer(help="Test a judge before you rely on it.", no_args_is_help=True)

Model = Annotated[str, typer.Option("--model", help="Model, by LiteLLM's name: openai/gpt-5-mini.")]
ApiBase = Annotated[str | None, typer.Option(help="OpenAI-compatible server of the model.")]
AtOnce = Annotated[int, typer.Option(min=1, help="Maximum number of runs to judge at the same time.")]

_CHECKED = ("hallucination", "faithfulness", "answer_relevancy", "bias", "toxicity", "prompt_alignment")
"""Default scorers: they need no options."""


@app.command()
def check(
    model: Model,
    scorer: ScorerNames = None,
    api_base: ApiBase = None,
    option: Options = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of runs.")] = None,
    at_once: AtOnce = 4,
    as_json: AsJson = False,
) -> None:
    """Report the server's forms of typed answers, and irrelevant changes that move scores."""
    with exit_on(command="judge check"):
        scorers = [_scorer(name, model, api_base, option) for name in scorer or ("hallucination",)]
        forms = check_forms(getattr(scorers[0], "judge", None))
        found = check_biases(scorers, limit, at_once)
        show_check(check_report(forms, scorers, found), as_json)
    for name, pairs in found.items():
        _fail_if_none("check", name, [pair.after for pair in pairs])


@app.command()
def attack(
    model: Model,
    scorer: ScorerNames = None,
    api_base: ApiBase = None,
    option: Options = None,
    tolerance: Annotated[float, typer.Option(min=0, help="Random variation, as a share of the scale.")] = 0.2,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of attacks.")] = None,
    at_once: AtOnce = 4,
    as_json: AsJson = False,
) -> None:
    """Insert injection attacks into a bad run, and count those that improve its scores."""
    with exit_on(command="judge attack"):
        scorers = [_scorer(name, model, api_base, option) for name in scorer or _CHECKED]
        attacks = load_attacks()
        attacks = attacks[:: max(1, len(attacks) // limit)][:limit] if limit else attacks
        with bar("attacking", len(scorers) * len(attacks) * 2) as done:

            async def attempts() -> dict[str, list[Attempt]]:
                return {s.id: await attempt_all(s, attacks, at_once=at_once, done=done) for s in scorers}

            found = anyio.run(attempts)
        reports = {name: _moved(attempts, tolerance) for name, attempts in found.items()}
        _show_attacks(reports, as_json)
    for name, tried in found.items():
        _fail_if_none("attack", name, [attempt.outcome for attempt in tried])


@app.command()
def calibrate(
    labels: Annotated[Path, typer.Argument(help="Labelled examples, one JSON object per line.", exists=True)],
    scorer: Annotated[str, typer.Option(help="The scorer, by name or as python:package.module:name.")],
    model: Annotated[str | None, typer.Option(help="Model, by LiteLLM's name: openai/gpt-5-mini.")] = None,
    api_base: ApiBase = None,
    option: Options = None,
    threshold: Annotated[float, typer.Option(help="Lowest label and score that count as positive.")] = 0.5,
    show: Annotated[int, typer.Option(min=0, help="Number of disagreements to show.")] = 5,
    examples: Annotated[
        int, typer.Option(min=0, help="Number of examples to try in the judge's instructions.")
    ] = 0,
    at_once: AtOnce = 4,
    as_json: AsJson = False,
) -> None:
    """Compare a scorer with human labels, and propose a threshold and examples if they help."""
    with exit_on(command="judge calibrate"):
        built = _scorer(scorer, model, api_base, option)
        read = read_labels(labels.read_text("utf-8").splitlines())
        with bar("judging", len(read)) as done:
            judged = anyio.run(lambda: judge_all(built, read, at_once=at_once, done=done))
        report = _calibration(judged, threshold)
        report["proposals"] = proposals(built, judged, threshold, examples, at_once)
        if as_json:
            print(json_text(report, indent=2))
        else:
            _show_calibration(report, built.id, show)
    _fail_if_none("calibrate", built.id, [outcome for _, outcome in judged])


def _scorer(name: str, model: str | None, api_base: str | None, option: list[str] | None) -> Scorer:
    options: dict[str, Any] = {}
    if model is not None:
        options["model"] = {"model": model, "api_base": api_base} if api_base else model
    options.update(options_of(option))
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
        options[key] = yaml.safe_load(value)
    return options


# --- reports ---


def _moved(attempts: list[Attempt], tolerance: float) -> dict[str, Any]:
    scored = [a for a in attempts if a.gained is not None]
    moved = [a for a in scored if a.gained is not None and a.gained > tolerance]
    return {
        "attempts": len(attempts),
        "scored": len(scored),
        "failed": len(attempts) - len(scored),
        "moved": len(moved),
        "families": dict(Counter(attempt.attack.family for attempt in moved)),
        "cost": _cost([a.outcome for a in attempts]),
        "examples": [{"place": a.place, "gained": a.gained, "text": a.attack.text[:120]} for a in moved[:5]],
    }


def _calibration(judged: list[Judged], threshold: float) -> dict[str, Any]:
    scored = [(example, outcome) for example, outcome in judged if isinstance(outcome, Score)]
    pairs = [(example.label >= threshold, score.value >= threshold) for example, score in scored]
    apart = sorted(scored, key=lambda pair: -abs(pair[0].label - pair[1].value))
    differing = [(e, s) for e, s in apart if (e.label >= threshold) != (s.value >= threshold)]
    error = sum(abs(e.label - s.value) for e, s in scored) / len(scored) if scored else None
    outcomes = [outcome for _, outcome in judged]
    cost = _cost(outcomes)
    return {
        "examples": len(judged),
        "scored": len(scored),
        "failed": sum(isinstance(outcome, Exception) for outcome in outcomes),
        **agreement(pairs),
        "mean_absolute_error": error,
        "cost_per_item": cost / len(scored) if cost is not None and scored else None,
        "disagreements": [
            {
                "id": e.id,
                "label": e.label,
                "score": s.value,
                "explanation": s.explanation,
                "output": e.run.output,
            }
            for e, s in differing
        ],
    }


def _cost(outcomes: list[Any]) -> float | None:
    """Sum the cost of all scores in US dollars; None if a price is unknown."""
    return total_cost([outcome.cost for outcome in outcomes if isinstance(outcome, Score)])


def _show_attacks(reports: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json_text(reports, indent=2))
        return
    table = Table("scorer", "attempts", "failed", "moved", "by family", "cost")
    for name, report in reports.items():
        families = ", ".join(f"{family} {n}" for family, n in report["families"].items())
        cost = "unknown" if report["cost"] is None else f"${report['cost']:.4f}"
        counts = (str(report[key]) for key in ("attempts", "failed", "moved"))
        table.add_row(name, *counts, families, cost)
    Console().print(table)


def _show_calibration(report: dict[str, Any], name: str, show: int) -> None:
    def said(value: float | None) -> str:
        return "not defined" if value is None else f"{value:.2f}"

    confusion, interval = report["confusion"], report["kappa_interval"]
    print(f"{name}: {report['scored']} of {report['examples']} examples scored, {report['failed']} failed")
    between = "" if interval is None else f" (95% interval {interval[0]:.2f} to {interval[1]:.2f})"
    print(f"kappa {said(report['kappa'])}{between}")
    print(f"precision {said(report['precision'])}, recall {said(report['recall'])}")
    print(f"accuracy {said(report['accuracy'])}, mean absolute error {said(report['mean_absolute_error'])}")
    counts = ", ".join(f"{name.replace('_', ' ')}s {confusion[name]}" for name in CONFUSION)
    print(f"{counts} (positive: at or above the threshold; true: same as the label)")
    cost = report["cost_per_item"]
    print("cost per item: " + ("unknown" if cost is None else f"${cost:.5f}"))
    show_proposals(report["proposals"])
    for item in report["disagreements"][:show]:
        print(f"\n{visible(item['id'][:200])}: label {item['label']:g}, score {item['score']:g}")
        print(f"  {visible((item['output'] or '')[:200])}")
        print(f"  {visible((item['explanation'] or 'no explanation')[:2_000])}")


def _fail_if_none(command: str, scorer_id: str, outcomes: list[Any]) -> None:
    """Print the cause and exit with 1 if nothing was scored."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if failures and not any(isinstance(outcome, Score) for outcome in outcomes):
        cause = root_cause(failures[0])
        said = visible(f"{type(cause).__name__}: {cause}"[:500])
        echo(f"otel-evals judge {command}: {scorer_id} scored nothing: {said}", err=True)
        raise typer.Exit(1)
