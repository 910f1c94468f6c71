"""`otel-evals score`: scores the runs in OTLP files or in a backend, with the configured rules."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import structs

from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.cli.backends import query_of, stored_traces
from otel_evals._internal.cli.judge import options_of
from otel_evals._internal.cli.terminal import (
    FILES_HELP,
    AsJson,
    Options,
    ScorerNames,
    echo,
    exit_on,
    json_text,
    report_skipped,
)
from otel_evals._internal.config.loader import build_config, load_config
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.destination import DestinationStats
from otel_evals._internal.deliver.jsonl import JsonlDestination
from otel_evals._internal.deliver.record import plain
from otel_evals._internal.model import Direction, Dropped, Evaluation, SpanRecord
from otel_evals._internal.model.convention import load_conventions
from otel_evals._internal.offline.batch import BatchScorer, EarlierScores
from otel_evals._internal.offline.progress_bar import bar
from otel_evals._internal.offline.results import as_text, check, threshold
from otel_evals._internal.offline.tally import Kin, ScorerTally, kin_of, tally
from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import read_runs
from otel_evals._internal.sampling.algebra import always
from otel_evals._internal.util.plain import counted
from otel_evals.errors import ConfigError

_AT_ONCE = 64
_BUDGET = "BudgetExceededError"

Report = tuple[tuple[ScorerTally, ...], Stats, dict[str, DestinationStats]]


def score(
    files: Annotated[list[str] | None, typer.Argument(help=FILES_HELP)] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", help="Backend, NAME[=URL]: jaeger, langfuse, mlflow, phoenix, tempo."),
    ] = None,
    since: Annotated[str | None, typer.Option(help="Earliest start: a time, or 24h, 7d ago.")] = None,
    until: Annotated[str | None, typer.Option(help="Latest start: a time; 5 minutes ago by default.")] = None,
    wanted: Annotated[str | None, typer.Option("--filter", help="Filter in the backend's language.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file; OTEL_EVALS_CONFIG by default.")] = None,
    scorer: ScorerNames = None,
    option: Options = None,
    jsonl: Annotated[Path | None, typer.Option(help="Write scored runs to this file, one per line.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Score without sampling.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Skip what the jsonl file already has.")] = False,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Runs to score at the same time.")] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(help="Exit with 1 if a mean is below; if lower is better, above 1 minus this."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score the runs in OTLP files or in a backend.

    Exits with 1 if there was no run, a scorer failed on all its runs, a budget was used up, scores could not
    be delivered, or with --fail-under a mean is below it or missing; with 2 if an argument or the
    configuration is wrong.
    """
    with exit_on(command="score"):
        chosen = _config(config, scorer, option, jsonl, everything, concurrency)
        traces, place = _traces(files or [], source, since, until, wanted)
        earlier = _earlier(chosen) if resume else None
        report, evaluations, stopped = score_traces(traces, chosen, earlier, concurrency)
    wrong = list(_problems(place, report, evaluations, fail_under, stopped))
    known = 0 if earlier is None else len(earlier.used)
    if as_json:
        echo(json_text({**_summary(report), "resumed": known, "problems": wrong}, indent=2))
    else:
        _show(report)
        if resume:
            echo(f"done before: {counted(known, 'evaluation')}")
    for problem in wrong:
        echo(f"otel-evals score: {problem}", err=True)
    if wrong:
        raise typer.Exit(1)


def score_traces(
    traces: Iterator[Sequence[SpanRecord]], config: Config, earlier: EarlierScores | None, at_once: int | None
) -> tuple[Report, list[Evaluation], str | None]:
    found: list[Evaluation] = []
    kin: dict[str, Kin] = {}
    batch = BatchScorer(config, earlier)
    try:
        with bar("scoring runs", None) as advance:
            runs = (((run.trace_id, kin_of(run)), run) for run in read_runs(traces, load_conventions()))
            for (trace_id, whose), evaluations in batch.score_all(runs, at_once or _AT_ONCE, advance):
                found += map(_without_prompts, evaluations)
                kin[trace_id] = whose
        found += map(_without_prompts, batch.end_conversations())
    finally:
        batch.close()
    return (tally(config.rules, found, kin), batch.stats(), batch.destination_stats()), found, batch.stopped


def _earlier(config: Config) -> EarlierScores:
    """Return the scores in the files of the configured jsonl destinations."""
    files = [each.path for each in config.destinations if isinstance(each, JsonlDestination)]
    if not files:
        raise ConfigError("--resume", "continues the file of a jsonl destination; fix: add --jsonl FILE")
    return EarlierScores(files)


def _without_prompts(evaluation: Evaluation) -> Evaluation:
    """Drop prompts and contexts: the summary does not need them, and they would fill the memory."""
    outcome = evaluation.outcome
    if isinstance(outcome, Dropped) or not outcome.steps:
        return evaluation
    steps = tuple(structs.replace(step, prompt=None, result=None, context=None) for step in outcome.steps)
    return structs.replace(evaluation, outcome=structs.replace(outcome, steps=steps))


def _traces(
    files: list[str], source: str | None, since: str | None, until: str | None, wanted: str | None
) -> tuple[Iterator[Sequence[SpanRecord]], str]:
    """Return the traces to score, and their name in messages."""
    if bool(files) == bool(source):
        raise ConfigError("FILES", "give either files with traces, or a backend: --from NAME")
    if source:
        return stored_traces(source, query_of(since, until, wanted)), source.partition("=")[0]
    for field, given in (("--since", since), ("--until", until), ("--filter", wanted)):
        if given is not None:
            raise ConfigError(field, "requires --from")
    return read_traces(files, skipped=report_skipped), ", ".join(files)


def _config(
    path: Path | None,
    scorers: list[str] | None,
    options: list[str] | None,
    jsonl: Path | None,
    everything: bool,
    concurrency: int | None,
) -> Config:
    named = path or os.environ.get("OTEL_EVALS_CONFIG")
    if scorers:
        given = options_of(options)
        config = build_config([{"scorer": name, "options": given} for name in scorers])
    elif named:
        config = load_config(named)
    else:
        raise ConfigError(
            "--config", "is required: a YAML file with `rules`; or --scorer with a scorer's name"
        )
    changed: dict[str, Any] = {"sample": always()} if everything else {}
    if concurrency is not None:
        changed["concurrency"] = concurrency
    config = replace(config, rules=tuple(replace(rule, **changed) for rule in config.rules))
    if jsonl is not None:
        config = replace(config, destinations=(*config.destinations, JsonlDestination(jsonl)))
    return config


# --- the summary: the table, and problems ---


def _problems(
    place: str,
    report: Report,
    evaluations: list[Evaluation],
    fail_under: float | None,
    stopped: str | None,
) -> Iterator[str]:
    tallies, stats, deliveries = report
    if stopped:
        yield f"stopped early: {stopped}; run the same command again to continue"
    if not stats.seen:
        yield f"{place}: no run found: there is no span of an agent or a model"
    for each in tallies:
        count = each.failed.get(_BUDGET, 0)
        if count and not stopped:
            yield (
                f"{each.scorer_id}: the budget is used up; not scored: {counted(count, 'run')} ({_BUDGET});"
                " fix: run the same command again with --resume"
            )
        if each.failed and not each.scored:
            own = (e for e in evaluations if each.scorer_id in (e.scorer_id, e.rule))
            first = next(e for e in own if e.reason in each.failed)
            cause = f"{first.reason}: {getattr(first.outcome, 'message', '')}"[:500]
            yield (
                f"{each.scorer_id} scored nothing, and failed on"
                f" {counted(sum(each.failed.values()), 'run')}: {cause}"
            )
        if fail_under is not None:
            # One bound serves scorers of both directions.
            bound = fail_under if each.direction is Direction.HIGHER else round(1 - fail_under, 9)
            required = threshold(each.scorer_id, bound, {each.scorer_id: each.direction})
            if problem := check(required, each, 0).problem:
                yield f"{each.scorer_id}: {problem}; --fail-under is {fail_under:g}"
    for name, delivered in deliveries.items():
        if delivered.failed or delivered.dropped:
            yield f"{name}: not delivered: {counted(delivered.failed + delivered.dropped, 'scored run')}"


def _show(report: Report) -> None:
    """Print the table, and counts of ignored and lost runs."""
    tallies, stats, deliveries = report
    echo(as_text(tallies))
    ignored = "".join(f", {count} {reason}" for reason, count in stats.ignored.items())
    echo(f"{counted(stats.seen, 'run')}{ignored}")
    for name, rule in stats.rules.items():
        if rule.not_sampled:
            reasons = ", ".join(f"{count} {reason}" for reason, count in rule.not_sampled.items())
            echo(f"{name}: {reasons} of {rule.eligible}")
    for name, delivered in deliveries.items():
        lost = delivered.failed + delivered.dropped
        echo(f"{name}: {delivered.exported} delivered" + (f", {lost} lost" if lost else ""))


def _summary(report: Report) -> Any:
    tallies, stats, deliveries = report
    return plain(
        {
            "scorers": tallies,
            "runs": stats.seen,
            "ignored": stats.ignored,
            "rules": stats.rules,
            "destinations": deliveries,
        }
    )
