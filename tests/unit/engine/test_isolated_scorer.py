"""A scorer in a process of its own, without an engine; `tests/pipeline/test_isolation.py` has one."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import psutil
import pytest

from otel_evals import NotScored, Rule, Run, Score, scorer
from otel_evals._internal.engine.isolated_scorer import IsolatedScorer, RemoteError, most_processes
from otel_evals._internal.processes.child import ProcessDiedError
from otel_evals._internal.scoring.scorer import StepFailure, facts_of
from otel_evals.errors import JudgeUnavailableError
from tests.support.runs import a_run


@scorer(id="obeys", version="7")
def obeys(run: Run) -> Any:
    """Does what the question says."""
    match run.input:
        case "raise":
            raise KeyError("no such order")
        case "unavailable":
            raise JudgeUnavailableError("429", retry_after=2.0)
        case "decline":
            return NotScored(reason="no_tool_calls")
        case "die":
            os._exit(3)
        case "hang":
            signal.pause()
    return Score(value=0.5, explanation=str(os.getpid()))


def ask(isolated: IsolatedScorer, question: str) -> Any:
    return isolated.score(a_run(user=question))


def test_one_process_scores_one_run_after_another_whatever_they_come_to() -> None:
    async def body() -> None:
        isolated = IsolatedScorer(obeys, facts_of(obeys), timeout=30)
        try:
            assert (isolated.id, isolated.version, isolated.direction) == ("obeys", "7", obeys.direction)
            assert isolated.pids == [], "none is started before there is something to score"
            first = await ask(isolated, "score")
            assert isolated.pids == [int(first.explanation)] != [os.getpid()]
            with pytest.raises(RemoteError, match="no such order") as raised:
                await ask(isolated, "raise")
            assert raised.value.error_type == "KeyError"
            with pytest.raises(StepFailure) as failed:
                await ask(isolated, "unavailable")
            assert isinstance(failed.value.__cause__, JudgeUnavailableError)
            assert failed.value.__cause__.retry_after == 2.0
            assert await ask(isolated, "decline") == NotScored(reason="no_tool_calls")
            assert await ask(isolated, "score") == first
        finally:
            isolated.close()
        assert isolated.pids == []
        assert not psutil.pid_exists(int(first.explanation))

    asyncio.run(body())


@pytest.mark.slow
def test_a_process_that_dies_or_hangs_is_replaced() -> None:
    async def body() -> None:
        isolated = IsolatedScorer(obeys, facts_of(obeys), timeout=30)
        try:
            with pytest.raises(ProcessDiedError, match=r"died \(exit code 3\)"):
                await ask(isolated, "die")
            second = int((await ask(isolated, "score")).explanation)
            isolated._timeout = 0.2  # a process that starts under load may take longer than this
            with pytest.raises(RemoteError, match=r"no score within 0.2 s"):
                await ask(isolated, "hang")
            assert isolated.pids == []
        finally:
            isolated.close()
        assert not psutil.pid_exists(second)

    asyncio.run(body())


def test_as_many_processes_as_leave_the_application_a_processor() -> None:
    assert 1 <= most_processes() <= 4
    assert Rule(obeys, isolation="process").isolation == "process"
