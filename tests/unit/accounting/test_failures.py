"""Each kind of error is told once in ten minutes; health knows the rules that fail."""

from __future__ import annotations

import pytest

from otel_evals import Run, scorer
from otel_evals._internal.accounting.problem_log import FailureLog
from otel_evals.model import Score, ScorerFailure
from tests.support.traffic import Live

GOOD = Score(value=1.0)


def failure(kind: str = "KeyError", message: str = "'order'") -> ScorerFailure:
    return ScorerFailure(error_type=kind, message=message)


def test_a_kind_of_error_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog()
    for _ in range(40):
        log.note("polite", failure(), KeyError("order"))
    assert [r.getMessage() for r in caplog.records] == [
        "polite fails: KeyError: 'order'; further failures of this kind are counted, not logged"
    ]
    assert caplog.records[0].exc_info is not None


def test_kinds_and_rules_are_told_apart_and_bounded(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog()
    log.note("a", failure())
    log.note("b", failure())
    log.note("a", failure("ValueError", "no"))
    assert len(caplog.records) == 3
    for number in range(1_000):
        log.note("a", failure(f"Odd{number}"))
    assert len([r for r in caplog.records if " fails: " in r.getMessage()]) <= 21


@pytest.mark.parametrize(("pause", "lines"), [(599.0, 1), (600.0, 2)])
def test_an_error_is_told_again_after_ten_minutes_without_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, pause: float, lines: int
) -> None:
    log, now = FailureLog(), 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    log.note("a", failure())
    now += pause
    log.note("a", failure())
    assert len(caplog.records) == lines


def test_without_content_only_the_kind_is_told(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog(content=False)
    log.note("a", failure(message="secret words"), KeyError("secret words"))
    assert "secret" not in caplog.text
    assert "a fails: KeyError;" in caplog.text


@pytest.mark.parametrize(
    ("outcomes", "fails"),
    [
        ([failure()] * 9, False),
        ([failure()] * 10, True),
        ([GOOD] * 40 + [failure()] * 10, True),
        ([failure(), GOOD] * 9, False),
        ([failure(), GOOD] * 10, True),
        ([failure(), GOOD, GOOD] * 20, False),
        ([failure()] * 10 + [GOOD] * 41, False),
    ],
)
def test_a_rule_fails_by_its_last_outcomes(outcomes: list[object], fails: bool) -> None:
    log = FailureLog()
    for outcome in outcomes:
        log.note("a", outcome)  # type: ignore[arg-type]
    assert bool(log.failing()) is fails


@scorer(id="broken", version="1", inline=True)
def broken(run: Run) -> bool:
    raise KeyError("order")


def test_forty_of_forty_failures_are_a_warning_and_degraded_health(caplog: pytest.LogCaptureFixture) -> None:
    with Live(broken) as live:
        for _ in range(40):
            live.run()
        assert live.pipeline.force_flush(100_000)
        health = live.pipeline.health()
    told = [r for r in caplog.records if "broken fails: KeyError: 'order'" in r.getMessage()]
    assert len(told) == 1
    assert told[0].exc_info is not None
    assert health.status == "degraded"
    assert not health.ok
    assert health.failing_rules == {"broken": "its last 10 evaluations failed: KeyError: 'order'"}
    assert health.problem is not None
    assert "broken: its last 10" in health.problem
