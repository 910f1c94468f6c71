"""How much may be in progress at once."""

from __future__ import annotations

import asyncio

import pytest

from otel_evals_gateway._internal.receiver.answers import ExportAnswer, RefusedError
from otel_evals_gateway._internal.receiver.request_limits import Limits, Load

LIMITS = Limits(body=100, decompressed=100, seconds=1.0)


def test_too_many_requests_at_once_are_asked_to_come_again() -> None:
    load = Load(2, LIMITS)
    with load.enter(), load.enter():
        with pytest.raises(RefusedError) as caught, load.enter():
            pass
        assert (caught.value.answer.status, caught.value.answer.retry_after) == (503, 1.0)
        assert load.in_progress == 2
    with load.enter():
        pass
    assert load.in_progress == 0


def test_what_all_requests_hold_together_is_bounded_but_one_always_has_room() -> None:
    load = Load(10, LIMITS)
    with load.holds(1_000), pytest.raises(RefusedError), load.holds(1):
        pass
    with load.holds(300), load.holds(100), pytest.raises(RefusedError), load.holds(1):
        pass


def test_a_service_that_ends_takes_nothing_more_and_waits_for_what_is_in_progress() -> None:
    async def run() -> None:
        load = Load(10, LIMITS)
        with load.enter():
            load.closed = True
            assert not await load.idle(0.01)
            with pytest.raises(RefusedError, match="shutting down"), load.enter():
                pass
        assert await load.idle(1.0)

    asyncio.run(run())


def test_answers_are_counted() -> None:
    load = Load(1, LIMITS)
    load.count("traces", ExportAnswer(429))
    load.count("traces", ExportAnswer(429))
    assert load.answers == {("traces", 429): 2}
