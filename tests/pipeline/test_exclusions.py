"""A rule whose `when` excludes every run says so once, with the values that it saw."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from otel_evals import Rule
from otel_evals.scorers import answered
from tests.support.traffic import Live


def warnings_of(
    caplog: pytest.LogCaptureFixture, runs: int, when: Any, sample: str = "always()", **options: Any
) -> list[str]:
    """The lines about `when` after some runs, and a shutdown."""
    rule = Rule(answered(), when=when, sample=sample)
    with caplog.at_level(logging.WARNING, "otel_evals"), Live(rule, **options) as live:
        for _ in range(runs):
            live.run()
        assert live.flush()
    return [record.getMessage() for record in caplog.records if "`when`" in record.getMessage()]


def test_it_is_said_once_with_the_values_seen(caplog: pytest.LogCaptureFixture) -> None:
    when = {"agent_name": ["sales", "billing"], "tenant.id": "acme"}
    (line,) = warnings_of(caplog, 30, when)
    assert line.startswith("answered: its `when` (agent_name is")
    assert "agent_name is 'sales' or 'billing' and tenant.id is 'acme') excluded all 20 runs" in line
    assert "; seen: agent_name 'support', tenant.id None;" in line
    assert line.endswith("fix: correct `when`, or leave it out")


def test_fewer_runs_are_reported_at_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = warnings_of(caplog, 2, lambda run: False)
    assert re.search(r"its `when` \(lambda at test_exclusions.py:\d+\) excluded all 2 runs", line)
    assert "seen: agent_name 'support';" in line


def test_an_expression_shows_the_fields_that_it_names(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = warnings_of(caplog, 2, {"cel": 'run.agent_name == "sales"'})
    assert "seen: agent_name 'support';" in line


def test_values_are_content(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = warnings_of(caplog, 2, {"agent_name": "sales"}, capture_content=False)
    assert "seen" not in line


def test_a_rule_that_applies_to_some_runs_is_right(caplog: pytest.LogCaptureFixture) -> None:
    excluded = iter([False, *[True] * 40])
    assert warnings_of(caplog, 30, lambda run: not next(excluded)) == []


def test_runs_that_the_trace_id_ruled_out_say_nothing_about_when(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = warnings_of(caplog, 60, {"agent_name": "sales"}, "ratio(0.5)")
    assert "excluded all" in line
