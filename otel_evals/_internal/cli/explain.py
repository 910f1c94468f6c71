"""`otel-evals explain`: explains from the output of the jsonl destination why a trace was scored or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from string import hexdigits
from typing import Annotated

import typer

from otel_evals._internal.accounting.explanation import (
    ExplainedDecision,
    Explanation,
    trace_status,
)
from otel_evals._internal.cli.scored_records import RecordedEvaluation, ScoredRecord, scored_records
from otel_evals._internal.cli.terminal import AsJson, echo, exit_on, json_text
from otel_evals._internal.config.loader import load_config
from otel_evals._internal.engine.inspection import trace_id_of
from otel_evals._internal.sampling.algebra import facts_of_sampler
from otel_evals._internal.sampling.consistent import is_sampled, randomness, share, threshold
from otel_evals._internal.sampling.parser import parse
from otel_evals._internal.util.plain import counted
from otel_evals.errors import ConfigError


def explain(
    trace_id: Annotated[str, typer.Argument(help="The trace's id, or its first digits.")],
    scores: Annotated[list[Path], typer.Option(help="Files of the jsonl destination, or results.")],
    config: Annotated[Path | None, typer.Option(help="YAML file, for rules without a score.")] = None,
    trace_state: Annotated[str, typer.Option(help="The trace's tracestate, if it had one.")] = "",
    as_json: AsJson = False,
) -> None:
    """Explain the sampling decisions and scores of a trace; exits with 1 if the files do not contain it."""
    with exit_on(ValueError, command="explain"):
        rules = () if config is None else load_config(config).rules
        known = {rule.name: rule.sampling.words for rule in rules}
        answer = explain_trace(trace_id, [str(path) for path in scores], trace_state, known)
    echo(json_text(asdict(answer)) if as_json else str(answer))
    if answer.status in ("unknown", "ruled_out"):
        raise typer.Exit(1)


def explain_trace(
    given: str, places: Sequence[str], trace_state: str = "", known: Mapping[str, str] = {}
) -> Explanation:
    """Explain a trace from files of the jsonl destination, or from results.

    Other decisions are computed with the samplers that the records of other traces name.

    Args:
        given: the trace's id, or its first digits.
        places: the files.
        trace_state: the trace's tracestate.
        known: further samplers, by rule.

    Raises:
        ConfigError: a file does not exist.
        ValueError: the id is malformed or ambiguous.
    """
    for place in places:
        if not Path(place).is_file():
            raise ConfigError("--scores", f"{place} does not exist; it is written with the first score")
    begin = _beginnings(given)
    records, samplers = list[ScoredRecord](), dict(known)
    for record in scored_records(places, command="explain", beginnings=begin):
        samplers |= {each.rule or each.scorer: each.sampling.rule for each in record.evaluations}
        # Records of other traces are read for their samplers only, and not kept.
        if any(each.startswith(begin) for each in _traces_of(record)):
            records.append(record)
    trace_id = _full_id(given, records)
    mine = [record for record in records if trace_id in _traces_of(record)]
    recorded = _newest(e for record in mine for e in record.evaluations)
    decisions = [_recorded(evaluation) for evaluation in recorded]
    for rule in (each.rule for each in decisions):
        samplers.pop(rule, None)
    draws = list(_draws(trace_id, samplers, trace_state))
    status = trace_status(decisions, {}, 0)
    # No rule could have sampled it: its absence from the files is explained.
    if status == "unknown" and draws and not any(drawn for drawn, _ in draws):
        status = "ruled_out"
    found = f"Found in {', '.join(places)}: {counted(len(recorded), 'evaluation')}."
    return Explanation(
        trace_id=trace_id,
        status=status,
        randomness=share(randomness(int(trace_id, 16), trace_state)),
        runs=len({record.span_id for record in mine if not record.turns}),
        decisions=tuple(decisions),
        notes=(*(words for _, words in draws), found),
    )


def _draws(trace_id: str, samplers: Mapping[str, str], trace_state: str) -> Iterator[tuple[bool, str]]:
    """Yield for each rule without an evaluation whether the trace was drawn, and say so."""
    number = randomness(int(trace_id, 16), trace_state)
    for rule, sampler in sorted(samplers.items()):
        try:
            ceiling = facts_of_sampler(parse(sampler)).ceiling
        except ConfigError:  # written by another version, or by a sampler in code
            continue
        drawn = is_sampled(ceiling, int(trace_id, 16), trace_state)
        chance = f"1 in {1 / ceiling:.4g}" if ceiling else "none are"
        why = "drawn, but the rule did not apply to its run, or its score is not written yet"
        end = why if drawn else f"not drawn: {chance}"
        needed = (
            f", randomness {share(number):.3f}, {share(threshold(ceiling)):.3f} needed" if ceiling else ""
        )
        yield drawn, f"{rule}: its trace was {end} ({sampler}{needed})."


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
