"""Content that cannot be read is told as that, and fails nobody who asks for it."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from otel_evals import scorer
from otel_evals._internal.engine.score import is_unreadable
from otel_evals._internal.read.runs import find_runs
from otel_evals.conventions import Conventions, recovered
from otel_evals.model import Operation, OperationKind, Run, SpanRecord
from tests.support.trace_builder import TraceBuilder
from tests.support.wired import wired


class Broken:
    """A convention that finds out too late that it cannot read."""

    name = "broken"
    scopes = ("broken.",)
    markers = ()
    failed = False

    def read(self, span: SpanRecord) -> Operation:
        given = {"span": span, "kind": OperationKind.AGENT, "convention": self.name, "name": "helper"}
        return recovered(Operation, self, given)

    def derive(self, field: str) -> Mapping[str, Any]:
        raise SystemExit(field)


def broken_run() -> Run:
    spans = TraceBuilder("broken.agents").add("agent", {"a": 1}).spans
    (run,) = find_runs(spans, Conventions([Broken()]))
    return run


def test_what_cannot_be_read_is_empty_and_told(caplog: pytest.LogCaptureFixture) -> None:
    run = broken_run()
    assert run.agent_name == "helper"
    assert not is_unreadable(run)
    with caplog.at_level(logging.DEBUG):
        assert (run.output, run.tool_calls, run.input) == (None, (), None)
    assert is_unreadable(run)
    assert "could not be read" in caplog.text
    assert run.availability["output"] == "not_recorded"
    assert not is_unreadable(pickle.loads(pickle.dumps(run)))  # it is told where it was read


def test_such_a_run_is_not_scored() -> None:
    asyncio.run(_score_a_broken_run())


async def _score_a_broken_run() -> None:
    def length(run: Run) -> float:
        return float(len(run.output))  # type: ignore[arg-type]  # as careless scorers are

    async with wired(scorer(length, version="1")) as w:
        w.engine.score(broken_run())
        assert await w.engine.scorer.settled(5)
        rules = w.ledger.stats().rules
    assert rules["length"].not_scored == {"unreadable": 1}
    assert not rules["length"].failed
