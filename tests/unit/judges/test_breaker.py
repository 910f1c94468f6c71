"""The circuit breaker: asking it changes nothing; calls that start, fail and succeed do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.judges.call_limits import CircuitBreaker


def opened(at: float = 0.0, failures: int = 2) -> CircuitBreaker:
    breaker = CircuitBreaker(failures, cooldown=10.0)
    for _ in range(failures):
        breaker.call_failed(at)
    return breaker


def test_it_opens_after_failures_in_a_row_only() -> None:
    breaker = CircuitBreaker(2, cooldown=10.0)
    breaker.call_failed(0.0)
    breaker.call_succeeded()
    breaker.call_failed(1.0)
    assert (breaker.is_open, breaker.wait(1.0)) == (False, 0.0)
    breaker.call_failed(2.0)
    assert (breaker.is_open, breaker.wait(4.0)) == (True, 8.0)


def test_after_a_cooldown_one_trial_is_made_and_the_others_wait() -> None:
    breaker = opened()
    assert breaker.wait(10.0) == 0.0
    breaker.call_started(10.0)
    assert breaker.wait(10.0) == 10.0
    breaker.call_succeeded()
    assert breaker.wait(10.0) == 0.0


def test_a_failed_trial_opens_it_for_another_cooldown() -> None:
    breaker = opened()
    breaker.call_started(10.0)
    breaker.call_failed(13.0)
    assert breaker.wait(13.0) == 10.0


@given(st.lists(st.floats(0, 100), max_size=20))
def test_asking_changes_nothing(times: list[float]) -> None:
    breaker = opened()
    for time in times:
        breaker.wait(time)
    assert (breaker.is_open, breaker.wait(0.0), breaker.wait(10.0)) == (True, 10.0, 0.0)
