"""The engine's loop runs until its main coroutine ends, whatever other tasks raise."""

from __future__ import annotations

import asyncio
import logging

import pytest

from otel_evals.engine.looping import run_to_the_end


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_task_that_would_end_the_program_does_not_end_the_loop(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[str] = []

    async def fails() -> None:
        raise error

    async def main() -> None:
        for _ in range(3):
            try:
                await asyncio.ensure_future(fails())
            except error:
                ends.append("told")
        ends.append("done")

    with asyncio.Runner() as runner, caplog.at_level(logging.WARNING):
        run_to_the_end(runner.get_loop(), main())
    assert ends == ["told"] * 3 + ["done"]
    assert len(caplog.records) == 1, "the first one is logged"
