"""Reads the files of the jsonl destination as records with checked types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from otel_evals._internal.cli.terminal import echo
from otel_evals._internal.deliver.jsonl import read_jsonl
from otel_evals._internal.util.installed import entry_points, load
from otel_evals._internal.util.plain import counted

RESULTS = "otel_evals_recorded_scores"
"""Entry-point group of readers of results: functions of a file and a trace id."""
_SQLITE = b"SQLite format 3\x00"


class RecordedSampling(msgspec.Struct):
    rule: str
    probability: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] | None = None


class RecordedEvaluation(msgspec.Struct):
    evaluation_id: str
    scorer: str
    status: Literal["scored", "not_scored", "failed", "dropped"]
    sampling: RecordedSampling
    span_id: str = ""
    rule: str | None = None
    reason: str | None = None
    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    attempts: int = 0
    duration: float | None = None
    conversation_id: str | None = None
    effect: str | None = None
    evidence_cut: bool = False
    revision: int = 1


class RecordedTurn(msgspec.Struct):
    trace_id: str


class ScoredRecord(msgspec.Struct):
    """The parts of a scored run that commands show."""

    trace_id: str = ""
    span_id: str = ""
    turns: tuple[RecordedTurn, ...] = ()
    evaluations: tuple[RecordedEvaluation, ...] = ()
    agent: str | None = None
    input: str | None = None
    output: str | None = None


def scored_records(
    files: Iterable[str | Path], *, command: str, trace_id: str = ""
) -> Iterator[ScoredRecord]:
    """Yield the records in files; print for each file how many lines have another form.

    From results, only the records of this trace, and one for each rule.
    """
    for file in files:
        problems, first = 0, ""
        for line in _lines(file, trace_id):
            try:
                yield msgspec.convert(line, ScoredRecord)
            except ValueError as error:  # also for texts that cannot be encoded
                problems, first = problems + 1, first or str(error)
        if problems:
            echo(f"otel-evals {command}: {file}: {counted(problems, 'line')} left out: {first}", err=True)


def _lines(file: str | Path, trace_id: str) -> Iterator[Any]:
    is_results = "://" in str(file)  # a server's address
    if not is_results:
        with open(file, "rb") as opened:
            is_results = opened.read(len(_SQLITE)) == _SQLITE
    if not is_results:
        yield from read_jsonl(file)
        return
    for point in entry_points(group=RESULTS):
        yield from load(point, str(file))(str(file), trace_id)
