"""How much may be in progress at once."""

from __future__ import annotations

import asyncio

import pytest

from otel_evals_gateway import GatewayOptions
from otel_evals_gateway._internal.receiver.answers import RefusedError
from otel_evals_gateway._internal.receiver.receiver import RequestLimits


def limits_of(requests: int) -> RequestLimits:
    return RequestLimits(GatewayOptions(max_decompressed=100, max_requests=requests))


def test_too_many_requests_at_once_are_asked_to_come_again() -> None:
    limits = limits_of(2)
    with limits.enter(), limits.enter():
        with pytest.raises(RefusedError) as caught, limits.enter():
            pass
        assert (caught.value.answer.status, caught.value.answer.retry_after) == (503, 1.0)
        assert limits.in_progress == 2
    with limits.enter():
        pass
    assert limits.in_progress == 0


def test_the_memory_of_all_requests_together_is_bounded() -> None:
    limits = limits_of(10)
    with limits.enter() as one, limits.enter() as other:
        one.resize(300)
        other.resize(100)
        with pytest.raises(RefusedError) as caught, limits.enter() as third:
            third.resize(1)
        assert caught.value.answer.status == 503
    assert limits.bytes == 0


def test_a_request_that_can_never_fit_is_not_asked_to_come_again() -> None:
    limits = limits_of(10)
    with limits.enter() as reservation:
        with pytest.raises(RefusedError) as caught:
            reservation.resize(401)
        assert (caught.value.answer.status, caught.value.answer.retry_after) == (413, None)
        reservation.resize(400)
        reservation.resize(5)
        with limits.enter() as other:
            other.resize(395)
    assert limits.bytes == 0


def test_a_service_that_ends_takes_nothing_more_and_waits_for_what_is_in_progress() -> None:
    async def run() -> None:
        limits = limits_of(10)
        with limits.enter():
            limits.closed = True
            assert not await limits.idle(0.01)
            with pytest.raises(RefusedError, match="shutting down"), limits.enter():
                pass
        assert await limits.idle(1.0)

    asyncio.run(run())
