"""The pytest plugin: the fixture `scored` scores the runs of a test's code.

    def test_support(scored):
        agent.run_sync("Where is order A-1001?")
        scored(grounded_in_tools()).at_least(0.9)

Spans are captured from the global tracer provider; override the fixture `otel_evals_tracer_provider` to
give one of your own. Loaded into every pytest session where the package is installed, so nothing but pytest
is imported before the fixture is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from otel_evals._internal.offline.assertions import ScoredFixture


@pytest.fixture
def otel_evals_tracer_provider() -> Any:
    """The provider whose spans `scored` captures; None for the global one, created if there is none."""
    return None


@pytest.fixture
def otel_evals_logger_provider() -> Any:
    """The provider whose log records `scored` captures; None for the global one."""
    return None


@pytest.fixture
def scored(
    request: pytest.FixtureRequest, otel_evals_tracer_provider: Any, otel_evals_logger_provider: Any
) -> Iterator[ScoredFixture]:
    """Score the runs of this test's code: `scored(scorer).at_least(0.9)`.

    Scores are kept as properties of the test for JUnit reports.
    """
    from otel_evals._internal.offline.assertions import ScoredFixture
    from otel_evals._internal.offline.span_recorder import recorder_for

    def note(scorer_id: str, value: float) -> None:
        request.node.user_properties.append((f"score:{scorer_id}", value))

    with recorder_for(otel_evals_tracer_provider, otel_evals_logger_provider).record_all() as recording:
        yield ScoredFixture(recording, note)
