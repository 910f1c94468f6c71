"""`otel-evals score`: scores the runs in OTLP files with the configured rules."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from otel_evals import sampling, stages
from otel_evals.accounting.counters import Stats
from otel_evals.cli.judge import options_of
from otel_evals.config import Config, build_config, load_config
from otel_evals.dialect import load_dialects
from otel_evals.errors import ConfigError, OtelEvalsError
from otel_evals.evals.batch import BatchScorer
from otel_evals.evals.progress import bar
from otel_evals.evals.table import as_rich, as_text
from otel_evals.evals.tally import Kin, ScorerTally, kin_of, tally
from otel_evals.export import DestinationStats
from otel_evals.export.jsonl import JsonlDestination
from otel_evals.export.record import plain
from otel_evals.intake.otlp.files import read_traces
from otel_evals.judge.fence import visible
from otel_evals.model import Direction, Evaluation, Run, Score, ScorerFailure

__all__ = ["read_runs", "score", "score_files", "worst_runs"]

Report = tuple[tuple[ScorerTally, ...], Stats, dict[str, DestinationStats]]


def score(
    files: Annotated[
        list[str], typer.Argument(help="OTLP as JSON, JSON lines or protobuf, gzip or not; - is stdin.")
    ],
    config: Annotated[
        Path | None, typer.Option(help="YAML file of rules and destinations; OTEL_EVALS_CONFIG by default.")
    ] = None,
    scorer: Annotated[
        list[str] | None, typer.Option(help="Score with this scorer, by name, instead of a file's rules.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Option of the scorers as name=value, the value in YAML.")
    ] = None,
    jsonl: Annotated[
        Path | None, typer.Option(help="Write every scored run to this file, one JSON object per line.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Score every run that a rule applies to, without sampling.")
    ] = False,
    fail_under: Annotated[
        float | None,
        typer.Option(help="Exit with 1 if a mean is below; above 1 minus this, where lower is better."),
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of each scorer's worst runs to show.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Score the runs in OTLP files, with the rules of live scoring.

    Exits with 1 if there was no run, a scorer failed on all its runs, scores could not be delivered, or a
    mean is below --fail-under; with 2 if an argument or the configuration is wrong.
    """
    try:
        chosen = _config(config, scorer, option, jsonl, everything)
        report, evaluations = _scored(files, chosen)
    except OtelEvalsError as error:
        typer.echo(f"otel-evals score: {error}", err=True)
        raise typer.Exit(2) from None
    problems = list(_problems(files, report, evaluations, fail_under))
    if as_json:
        typer.echo(json.dumps({**_as_json(report), "problems": problems}, ensure_ascii=False, indent=2))
    else:
        _show(report)
        for line in worst_runs(report[0], evaluations, worst):
            typer.echo(line)
    for problem in problems:
        typer.echo(f"otel-evals score: {problem}", err=True)
    if problems:
        raise typer.Exit(1)


def score_files(files: list[str], config: Config) -> Report:
    """Score the runs of these files; returns a tally for each scorer, the counters, and those of deliveries.

    Raises:
        ConfigError: a file is missing or is not OTLP.
    """
    return _scored(files, config)[0]


def _scored(files: list[str], config: Config) -> tuple[Report, list[Evaluation]]:
    found: list[Evaluation] = []
    kin: dict[str, Kin] = {}
    batch = BatchScorer(config)
    try:
        with bar("scoring runs", None) as advance:
            runs = (((run.trace_id, kin_of(run)), run) for run in read_runs(files))
            for (trace_id, whose), evaluations in batch.score_all(runs, done=advance):
                found += evaluations
                kin[trace_id] = whose
        found += batch.end_conversations()
    finally:
        batch.close()
    return (tally(config.rules, found, kin), batch.stats(), batch.destination_stats()), found


def _problems(
    files: list[str], report: Report, evaluations: list[Evaluation], fail_under: float | None
) -> Iterator[str]:
    """Why the command fails."""
    tallies, stats, deliveries = report
    if not stats.seen:
        names = ", ".join(files)
        yield f"{names}: no run found: there is no span of an agent or a model"
    for each in tallies:
        if each.failed and not each.scored:
            count = sum(each.failed.values())
            cause = _first_failure(each.scorer_id, evaluations)
            yield f"{each.scorer_id} failed on all its {count} runs: {cause}"
        if fail_under is not None and each.mean is not None:
            good = each.mean if each.direction is Direction.HIGHER else 1 - each.mean
            if good < fail_under:
                yield f"{each.scorer_id}: the mean {each.mean:.3f} does not pass --fail-under {fail_under:g}"
    for name, delivered in deliveries.items():
        if delivered.failed or delivered.dropped:
            yield f"{name}: {delivered.failed + delivered.dropped} scored runs were not delivered"


def _first_failure(scorer_id: str, evaluations: list[Evaluation]) -> str:
    failures = (
        e.outcome for e in evaluations if e.scorer_id == scorer_id and isinstance(e.outcome, ScorerFailure)
    )
    first = next(failures, None)
    return "" if first is None else visible(f"{first.error_type}: {first.message}"[:500])


def worst_runs(
    tallies: Sequence[ScorerTally], evaluations: Sequence[Evaluation], count: int
) -> Iterator[str]:
    """The worst runs of each scorer that are not perfect, with their reasons, as lines of text."""
    for each in tallies:
        mine = [
            (e, e.outcome)
            for e in evaluations
            if e.scorer_id == each.scorer_id and isinstance(e.outcome, Score)
        ]
        lower = each.direction is Direction.LOWER
        best = each.lowest if lower else each.highest
        ordered = sorted(mine, key=lambda pair: pair[1].value, reverse=lower)[:count]
        for evaluation, found in [pair for pair in ordered if pair[1].value != best]:
            reason = visible((found.explanation or found.label or "no reason given")[:200])
            yield f"{each.scorer_id} {found.value:g}  trace {evaluation.trace_id}  {reason}"


def read_runs(files: list[str]) -> Iterator[Run]:
    """The runs of these files, each yielded as soon as its trace is read.

    Raises:
        ConfigError: a file is missing or is not OTLP.
    """
    return stages.read_runs(read_traces(files, skipped=_report_skipped), load_dialects())


def _config(
    path: Path | None,
    scorers: list[str] | None,
    options: list[str] | None,
    jsonl: Path | None,
    everything: bool,
) -> Config:
    named = path or os.environ.get("OTEL_EVALS_CONFIG")
    if scorers:
        given = options_of(options)
        config = build_config([{"scorer": name, "options": given} for name in scorers])
    elif named:
        config = load_config(named)
    else:
        raise ConfigError("--config", "is needed: a YAML file with `rules`; or --scorer with a scorer's name")
    if everything:
        config = replace(config, rules=tuple(replace(r, sample=sampling.always()) for r in config.rules))
    if jsonl is not None:
        config = replace(config, destinations=(*config.destinations, JsonlDestination(jsonl)))
    return config


def _report_skipped(path: str, line: int) -> None:
    typer.echo(f"otel-evals score: {path}:{line}: not OTLP, skipped", err=True)


def _show(report: Report) -> None:
    from rich.console import Console

    tallies, stats, deliveries = report
    console = Console(highlight=False)
    if console.is_terminal:
        console.print(as_rich(tallies))
    else:
        typer.echo(as_text(tallies))
    ignored = "".join(f", {count} {reason}" for reason, count in stats.ignored.items())
    typer.echo(f"{stats.seen} runs{ignored}")
    for name, rule in stats.rules.items():
        if rule.not_sampled:
            reasons = ", ".join(f"{count} {reason}" for reason, count in rule.not_sampled.items())
            typer.echo(f"{name}: {reasons} of {rule.eligible}")
    for name, delivered in deliveries.items():
        lost = delivered.failed + delivered.dropped
        typer.echo(f"{name}: {delivered.exported} delivered" + (f", {lost} lost" if lost else ""))


def _as_json(report: Report) -> dict[str, Any]:
    tallies, stats, deliveries = report
    return {
        "scorers": [plain(each) for each in tallies],
        "runs": stats.seen,
        "ignored": plain(stats.ignored),
        "rules": plain(stats.rules),
        "destinations": plain(deliveries),
    }
