"""`otel-evals score`: scores the runs in OTLP files with the configured rules."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from otel_evals import sampling, stages
from otel_evals.accounting.counters import Stats
from otel_evals.config import Config, load_config
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
from otel_evals.model import Evaluation, Run

__all__ = ["read_runs", "score", "score_files"]

Report = tuple[tuple[ScorerTally, ...], Stats, dict[str, DestinationStats]]


def score(
    files: Annotated[
        list[str], typer.Argument(help="OTLP as JSON, JSON lines or protobuf, gzip or not; - is stdin.")
    ],
    config: Annotated[
        Path | None, typer.Option(help="YAML file of rules and destinations; OTEL_EVALS_CONFIG by default.")
    ] = None,
    jsonl: Annotated[
        Path | None, typer.Option(help="Write every scored run to this file, one JSON object per line.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Score every run that a rule applies to, without sampling.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Score the runs in OTLP files, with the rules of live scoring."""
    try:
        report = score_files(files, _config(config, jsonl, everything))
    except OtelEvalsError as error:
        typer.echo(f"otel-evals score: {error}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps(_as_json(report), ensure_ascii=False, indent=2))
    else:
        _show(report)
    if _undelivered(report):
        raise typer.Exit(1)


def score_files(files: list[str], config: Config) -> Report:
    """Score the runs of these files; returns a tally for each scorer, the counters, and those of deliveries.

    Raises:
        ConfigError: a file is missing or is not OTLP.
    """
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
    return tally(config.rules, found, kin), batch.stats(), batch.destination_stats()


def read_runs(files: list[str]) -> Iterator[Run]:
    """The runs of these files, each yielded as soon as its trace is read.

    Raises:
        ConfigError: a file is missing or is not OTLP.
    """
    return stages.read_runs(read_traces(files, skipped=_report_skipped), load_dialects())


def _config(path: Path | None, jsonl: Path | None, everything: bool) -> Config:
    named = path or os.environ.get("OTEL_EVALS_CONFIG")
    if not named:
        raise ConfigError("--config", "is needed: the YAML file with `rules`, or OTEL_EVALS_CONFIG")
    config = load_config(named)
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


def _undelivered(report: Report) -> bool:
    return any(each.failed or each.dropped for each in report[2].values())
