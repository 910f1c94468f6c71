"""`otel-evals explain`: explains from the output of the jsonl destination why a trace was scored or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from otel_evals._internal.accounting.explanation import (
    ExplainedDecision,
    Explanation,
    trace_id_of,
    trace_status,
)
from otel_evals._internal.cli.scored_records import RecordedEvaluation, ScoredRecord, scored_records
from otel_evals._internal.cli.terminal import AsJson, echo, exit_on, json_text
from otel_evals._internal.sampling.algebra import facts_of_sampler
from otel_evals._internal.sampling.consistent import is_sampled, randomness, share, threshold
from otel_evals._internal.sampling.parser import parse
from otel_evals._internal.util.plain import counted
from otel_evals.errors import ConfigError

_SAME = "span_id status reason value explanation attempts conversation_id effect evidence_cut"
"""Fields that a record and an explained decision share."""


def explain(
    trace_id: Annotated[str, typer.Argument(help="The trace's id.")],
    scores: Annotated[list[str], typer.Option(help="Files of the jsonl destination, or results.")],
    as_json: AsJson = False,
) -> None:
    """Explain the sampling decisions and scores of a trace; exits with 1 if the files do not contain it."""
    with exit_on(ValueError, command="explain"):
        answer = explain_trace(trace_id, scores)
    echo(json_text(asdict(answer)) if as_json else str(answer))
    if answer.status in ("unknown", "ruled_out"):
        raise typer.Exit(1)


def explain_trace(given: str, places: Sequence[str]) -> Explanation:
    """Explain a trace from files of the jsonl destination, or from results.

    Other decisions are computed with the samplers that the records of other traces name.

    Args:
        given: the trace's id.
        places: the files.

    Raises:
        ConfigError: a file does not exist.
        ValueError: the id is malformed.
    """
    for place in places:
        if "://" not in place and not Path(place).is_file():
            raise ConfigError("--scores", f"{place} is no file; one is written with the first score")
    trace_id = trace_id_of(given)
    mine, samplers = list[ScoredRecord](), dict[str, str]()
    for record in scored_records(places, command="explain", trace_id=trace_id):
        samplers |= {each.rule or each.scorer: each.sampling.rule for each in record.evaluations}
        # Records of other traces are read for their samplers only, and not kept.
        if trace_id in (record.trace_id, *(turn.trace_id for turn in record.turns)):
            mine.append(record)
    # The newest revision of each evaluation: a file may contain several.
    revisions = sorted((e for record in mine for e in record.evaluations), key=lambda e: e.revision)
    recorded = [*{each.evaluation_id: each for each in revisions}.values()]
    decisions = [_recorded(evaluation) for evaluation in recorded]
    for rule in (each.rule for each in decisions):
        samplers.pop(rule, None)
    draws = list(_draws(int(trace_id, 16), samplers))
    status = trace_status(decisions, {}, 0)
    # No rule could have sampled it: its absence from the files is explained.
    if status == "unknown" and draws and not any(drawn for drawn, _ in draws):
        status = "ruled_out"
    found = f"Found in {', '.join(places)}: {counted(len(recorded), 'evaluation')}."
    return Explanation(
        trace_id=trace_id,
        status=status,
        randomness=share(randomness(int(trace_id, 16))),
        runs=len({record.span_id for record in mine if not record.turns}),
        decisions=tuple(decisions),
        notes=(*(words for _, words in draws), found),
    )


def _draws(trace_id: int, samplers: Mapping[str, str]) -> Iterator[tuple[bool, str]]:
    """Yield for each rule without an evaluation whether the trace was drawn, and say so."""
    for rule, sampler in sorted(samplers.items()):
        try:
            ceiling = facts_of_sampler(parse(sampler)).ceiling
        except ConfigError:  # written by another version, or by a sampler in code
            continue
        drawn = is_sampled(ceiling, trace_id)
        why = "drawn, but the rule did not apply to its run, or its score is not written yet"
        end = why if drawn else f"not drawn: 1 in {1 / ceiling:.4g}" if ceiling else "not drawn: none are"
        yield drawn, f"{rule}: its trace was {end} ({sampler})."


def _recorded(evaluation: RecordedEvaluation) -> ExplainedDecision:
    probability = evaluation.sampling.probability
    return ExplainedDecision(
        rule=evaluation.rule or evaluation.scorer,
        sampler=evaluation.sampling.rule,
        probability=probability,
        threshold=None if probability is None else share(threshold(probability)),
        duration=evaluation.duration or 0.0,
        **{name: getattr(evaluation, name) for name in _SAME.split()},
    )
