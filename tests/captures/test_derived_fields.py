"""Fields of runs that are derived when they are asked for are the same whatever is asked for first."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import pytest

from otel_evals._internal.engine.score import is_unreadable
from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import find_runs
from otel_evals.conventions import load_conventions
from otel_evals.model import Operation, Run, SpanRecord
from tests.support.captures import FOLDERS, entries, paths_of

pytestmark = pytest.mark.skipif(not FOLDERS, reason="OTEL_EVALS_CAPTURES names no folder of captures")
KNOWN_CONVENTIONS = load_conventions()
OF_RUNS = [field.name for field in fields(Run) if field.name != "operations"]
OF_OPERATIONS = [field.name for field in fields(Operation)]


def traces(most: int) -> list[list[SpanRecord]]:
    """At most so many traces of each capture."""
    found = []
    for folder, entry in entries():
        found += [list(trace) for trace in list(read_traces(paths_of(folder, entry)))[:most]]
    return found


def check(trace: list[SpanRecord], stride: int) -> None:
    """Ask fresh runs for one field each, and compare with runs all of whose fields were derived in order."""
    whole = find_runs(trace, KNOWN_CONVENTIONS)
    for run in whole:
        everything(run)
    for name in OF_RUNS[::stride]:
        fresh = find_runs(trace, KNOWN_CONVENTIONS)
        assert [getattr(run, name) for run in fresh] == [getattr(run, name) for run in whole], name
    for name in OF_OPERATIONS[::stride]:
        fresh = find_runs(trace, KNOWN_CONVENTIONS)
        assert [[getattr(o, name) for o in run.operations] for run in fresh] == [
            [getattr(o, name) for o in run.operations] for run in whole
        ], name
    fresh = find_runs(trace, KNOWN_CONVENTIONS)
    assert (
        pickle.loads(pickle.dumps(tuple(fresh))) == tuple(whole) == tuple(pickle.loads(pickle.dumps(fresh)))
    )
    assert not any(is_unreadable(run) for run in whole)


def everything(run: Run) -> dict[str, Any]:
    """All fields, the operations' first."""
    for operation in run.operations:
        for name in OF_OPERATIONS:
            getattr(operation, name)
    return {name: getattr(run, name) for name in OF_RUNS}


def test_it_does_not_matter_what_is_asked_for_first() -> None:
    for number, trace in enumerate(traces(most=1)):
        check(trace[: len(trace)], stride=5 + number % 3)


@pytest.mark.slow
def test_it_does_not_matter_for_any_field_of_any_capture() -> None:
    for trace in traces(most=1_000):
        check(trace, stride=1)
