"""`otel-evals explain`: explains from the output of the jsonl destination why a trace was scored or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from string import hexdigits
from typing import Annotated

import typer

from otel_evals._internal import model
from otel_evals._internal.accounting.explanation import (
    ExplainedDecision,
    Explanation,
    explain_unknown,
    numbers,
    trace_status,
)
from otel_evals._internal.cli.scored_records import RecordedEvaluation, ScoredRecord, scored_records
from otel_evals._internal.cli.terminal import AsJson, echo, exit_on, json_text
from otel_evals._internal.config.loader import load_config
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.engine.inspection import trace_id_of
from otel_evals._internal.sampling.algebra import Earlier
from otel_evals._internal.sampling.consistent import is_sampled, randomness, share, threshold
from otel_evals._internal.sampling.decide import chance_of
from otel_evals._internal.util.counted import counted
from otel_evals.errors import ConfigError


def explain(
    trace_id: Annotated[str, typer.Argument(help="The trace's id, or its first digits.")],
    scores: Annotated[list[Path] | None, typer.Option(help="Files of the jsonl destination.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file, to recompute sampling.")] = None,
    trace_state: Annotated[str, typer.Option(help="The trace's tracestate, if it had one.")] = "",
    as_json: AsJson = False,
) -> None:
    """Explain the sampling decisions and scores of a trace; exits with 1 if the files do not contain it."""
    with exit_on(ValueError, command="explain"):
        if not scores and config is None:
            raise ValueError("give --scores, --config, or both")
        for path in scores or ():
            if not path.is_file():
                raise ConfigError("--scores", f"{path} does not exist; it is written with the first score")
        rules = None if config is None else load_config(config)
        begin = _beginnings(trace_id)
        read = scored_records(scores or (), command="explain")
        records = [record for record in read if any(each.startswith(begin) for each in _traces_of(record))]
        answer = _explanation(_full_id(trace_id, records), records, scores or [], rules, trace_state)
    echo(json_text(asdict(answer)) if as_json else str(answer))
    if scores and answer.status == "unknown":
        raise typer.Exit(1)


def _beginnings(given: str) -> tuple[str, ...]:
    """Return what the id may begin with: the whole id, or first digits, of which some tools omit zeros."""
    digits = given.strip().lower().removeprefix("0x")
    if not 0 < len(digits) < 32 or not set(digits) <= set(hexdigits):
        return (trace_id_of(given),)
    return digits.zfill(32), digits


def _full_id(given: str, records: Sequence[ScoredRecord]) -> str:
    """Complete the first digits of an id in the records."""
    whole, *parts = _beginnings(given)
    if not parts:
        return whole
    (digits,) = parts
    known = {trace_id for record in records for trace_id in _traces_of(record)}
    found = known & {whole} or {each for each in known if each.startswith(digits)}
    if len(found) == 1:
        return found.pop()
    other = f"{len(found) or 'no'} ids in --scores begin with it"
    raise ValueError(f"{given!r} has {len(digits)} of 32 hex digits, and {other}")


def _explanation(
    trace_id: str,
    read: Sequence[ScoredRecord],
    files: Sequence[Path],
    config: Config | None,
    trace_state: str,
) -> Explanation:
    """Explain a trace from recorded evaluations, and recompute other decisions if there is a config."""
    records = [record for record in read if trace_id in _traces_of(record)]
    recorded = _newest(e for record in records for e in record.evaluations)
    decisions = [_recorded(evaluation) for evaluation in recorded]
    runs = [record for record in records if not record.turns]
    places = ", ".join(map(str, files))
    notes = [f"Found in {places}: {counted(len(recorded), 'evaluation')}."] if files else []
    if config is None:
        notes.append("Rules that did not sample it are not in files of scores; for these, add --config.")
    else:
        for record in runs:
            decisions += _recompute(record, config, recorded, trace_state, notes)
        if not records:
            notes += _ceilings(trace_id, config)
            return explain_unknown(trace_id, config.ceiling, trace_state, notes)
    return Explanation(
        trace_id=trace_id,
        status=trace_status(decisions, {}, 0),
        randomness=share(randomness(int(trace_id, 16), trace_state)),
        runs=len({record.span_id for record in runs}),
        decisions=tuple(decisions),
        notes=tuple(notes),
    )


def _traces_of(record: ScoredRecord) -> list[str]:
    """Return the trace ids of a run or a conversation."""
    return [record.trace_id, *(turn.trace_id for turn in record.turns)]


def _newest(evaluations: Iterator[RecordedEvaluation]) -> list[RecordedEvaluation]:
    """Return the newest revision of each evaluation: a file may contain several."""
    newest: dict[str, RecordedEvaluation] = {}
    for each in evaluations:
        known = newest.get(each.evaluation_id)
        if known is None or each.revision >= known.revision:
            newest[each.evaluation_id] = each
    return [*newest.values()]


def _recorded(evaluation: RecordedEvaluation) -> ExplainedDecision:
    probability = evaluation.sampling.probability
    return ExplainedDecision(
        rule=evaluation.rule or evaluation.scorer,
        span_id=evaluation.span_id,
        sampler=evaluation.sampling.rule,
        status=evaluation.status,
        reason=evaluation.reason,
        probability=probability,
        threshold=None if probability is None else share(threshold(probability)),
        value=evaluation.value,
        explanation=evaluation.explanation,
        attempts=evaluation.attempts,
        duration=evaluation.duration or 0.0,
        conversation_id=evaluation.conversation_id,
        effect=evaluation.effect,
        evidence_cut=evaluation.evidence_cut,
    )


def _recompute(
    record: ScoredRecord,
    config: Config,
    recorded: Sequence[RecordedEvaluation],
    trace_state: str,
    notes: list[str],
) -> Iterator[ExplainedDecision]:
    """Recompute the decisions of rules without a recorded evaluation of this run."""
    run = replace(_run(record), trace_state=trace_state)
    own = [e for e in recorded if e.span_id == run.root_span_id and not e.conversation_id]
    earlier = {}
    for e in own:
        sampled = model.Sampled(e.sampling.probability, e.sampling.rule)
        earlier[e.scorer] = Earlier(chance_of(sampled, run), _outcome(e))
    for rule in config.rules:
        if rule.scope != "run" or rule.scorer_id in earlier:
            continue
        if not rule.sampling.repeatable:
            notes.append(f"{rule.name}: no evaluation on record; {rule.sampling.words} cannot be recomputed.")
        else:
            yield _decide(rule, run, earlier)


def _decide(rule: Rule, run: model.Run, earlier: Mapping[str, Earlier]) -> ExplainedDecision:
    decision = ExplainedDecision(
        rule=rule.name,
        span_id=run.root_span_id,
        sampler=rule.sampling.words,
        status="not_sampled",
        reason="not_applicable",
    )
    if rule.when is not None and not rule.when(run):
        return decision
    chance = rule.sample.chance(run, earlier)
    if is_sampled(chance.probability, int(run.trace_id, 16), run.trace_state):
        return replace(decision, status="missing", reason=None, **numbers(chance, run.trace_state))
    return replace(decision, reason=chance.why or "sampled_out", **numbers(chance, run.trace_state))


def _run(record: ScoredRecord) -> model.Run:
    """Rebuild a run from its record, which has only some of the fields."""
    return model.Run(
        trace_id=record.trace_id,
        root_span_id=record.span_id,
        root_kind=model.OperationKind.AGENT,
        agent_name=record.agent,
        agent_version=record.agent_version,
        conversation_id=record.conversation_id,
        user_id=record.user_id,
        provider=record.provider,
        models=record.models,
        start_time=record.start_time or 0,
        end_time=record.end_time,
        tool_calls=tuple(model.ToolCall(name=call.name, status=call.status) for call in record.tool_calls),
        output=record.output,
        error=record.error,
        error_type=record.error_type,
    )


def _outcome(evaluation: RecordedEvaluation) -> model.Outcome:
    reason = evaluation.reason or ""
    match evaluation.status:
        case "scored" if evaluation.value is not None:
            return model.Score(value=evaluation.value)
        case "not_scored":
            return model.NotScored(reason=reason)
        case "failed":
            return model.ScorerFailure(error_type=reason, message="")
    return model.Dropped(reason=reason)


def _ceilings(trace_id: str, config: Config) -> Iterator[str]:
    """Say for each rule whether it could have sampled the trace; that is known without the run."""
    for rule in config.rules:
        if not rule.sampling.follows:
            could = is_sampled(rule.sampling.ceiling, int(trace_id, 16))
            if_when = ", if its `when` matched the run" if could and rule.when is not None else ""
            words = f"{rule.sampling.words} {'could' if could else 'could not'} have sampled it"
            yield f"{rule.name}: {words}{if_when}."
