"""The fixture `scored`: in real pytest sessions of its own."""

from __future__ import annotations

import re
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from otel_evals import NotScored, Run, scorer
from otel_evals._internal.scorers import checks
from otel_evals.scorers import grounded_in_tools
from tests.support import PYTHONPATH
from tests.support.traffic import agent_run

pytest_plugins = "pytester"

SETUP = """
import pytest
from opentelemetry.sdk.trace import TracerProvider
from tests.support.traffic import agent_run
from otel_evals import NotScored, scorer
from otel_evals.scorers import checks, grounded_in_tools

provider = TracerProvider()
tracer = provider.get_tracer("app")

@pytest.fixture
def otel_evals_tracer_provider():
    return provider
"""


@pytest.fixture
def session(pytester: pytest.Pytester) -> Any:
    """Runs a test file in a process of its own; returns what pytest printed and counted."""

    def run(tests: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(SETUP + tests)
        pytester.makepyprojecttoml(f"[tool.pytest.ini_options]\npythonpath = ['{PYTHONPATH}']")
        return pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", *arguments)

    return run


@pytest.mark.slow
def test_assertions_on_what_the_test_did(session: Any) -> None:
    done = session("""
def test_good(scored):
    agent_run(tracer)
    scored(grounded_in_tools()).at_least(0.9).at_most(1.0)
    scored(checks.called_tool("lookup_order")).labelled("true")
    assert [run.output for run in scored.runs] == ["It arrives on 2026-11-25."]

def test_bad(scored):
    agent_run(tracer, answer="It arrives on 2027-01-01.")
    scored(grounded_in_tools()).at_least(0.9)

def test_only_its_own_runs_count(scored):
    agent_run(tracer)
    scored(grounded_in_tools()).at_least(0.9)
""")
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*grounded_in_tools should be at least 0.9", "*it is 0*2027-01-01*"])


@pytest.mark.slow
def test_the_global_provider_is_made_where_there_is_none(session: Any) -> None:
    done = session(
        """
@pytest.fixture
def otel_evals_tracer_provider():
    return None

def test_global(scored):
    from opentelemetry import trace
    agent_run(trace.get_tracer("app"))
    scored(grounded_in_tools()).at_least(0.9)
"""
    )
    done.assert_outcomes(passed=1)


@pytest.mark.slow
def test_scores_are_in_the_junit_report(session: Any, pytester: pytest.Pytester) -> None:
    session(
        """
def test_good(scored):
    agent_run(tracer)
    scored(grounded_in_tools())
""",
        "--junitxml=report.xml",
    )
    assert (
        '<property name="score:grounded_in_tools" value="1.0"' in (pytester.path / "report.xml").read_text()
    )


@pytest.mark.slow
def test_the_plugin_costs_sessions_that_do_not_use_it_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
import sys

def test_light():
    assert "otel_evals._internal.offline.pytest_plugin" in sys.modules
    own = {"otel_evals._internal.offline.run_evals", "otel_evals._internal.config"}
    assert not {*own, "opentelemetry.sdk", "pydantic"} & set(sys.modules)
""")
    others = [f"-pno:{name}" for name in ("anyio", "hypothesispytest", "logfire", "inline_snapshot")]
    pytester.runpytest_subprocess(*others).assert_outcomes(passed=1)


# --- the fixture of this very session ---


@pytest.fixture
def otel_evals_tracer_provider() -> TracerProvider:
    return TracerProvider()


@pytest.fixture
def tracer(otel_evals_tracer_provider: TracerProvider) -> Any:
    return otel_evals_tracer_provider.get_tracer("app")


def test_a_score_that_is_good_enough(scored: Any, tracer: Any) -> None:
    agent_run(tracer)
    assert scored(grounded_in_tools()).at_least(0.9).at_most(1.0).values == (1.0,)
    scored(checks.called_tool("lookup_order")).labelled("true")


def test_a_score_that_is_not_says_why(scored: Any, tracer: Any) -> None:
    agent_run(tracer, answer="It arrives on 2027-01-01.")
    with pytest.raises(AssertionError, match=r"should be at least 0.9\n  it is 0.*2027-01-01"):
        scored(grounded_in_tools()).at_least(0.9)


def test_every_run_counts_unless_some_are_named(scored: Any, tracer: Any) -> None:
    agent_run(tracer, answer="It arrives on 2027-01-01.")
    agent_run(tracer)
    with pytest.raises(AssertionError, match="1 of 2 runs"):
        scored(grounded_in_tools()).at_least(0.9)
    scored(grounded_in_tools(), runs=scored.runs[1]).at_least(0.9)


def test_a_test_without_runs_fails(scored: Any) -> None:
    with pytest.raises(AssertionError, match="left no agent spans"):
        scored(grounded_in_tools())


def test_what_is_no_score_fails_every_assertion_on_scores(scored: Any, tracer: Any) -> None:
    agent_run(tracer, answer="Hello.", result={"status": "ok"})

    @scorer
    def broken(run: Run) -> bool:
        raise RuntimeError("out of order")

    @scorer
    def elsewhere(run: Run) -> NotScored:
        return NotScored(reason="wrong_language", explanation="only for French")

    with pytest.raises(AssertionError, match="it failed: RuntimeError: out of order"):
        scored(broken).at_least(0)
    with pytest.raises(AssertionError, match=r"it is not scored: wrong_language \(only for French\)"):
        scored(elsewhere).at_most(1)
    with pytest.raises(AssertionError, match="wrong_language"):
        scored(elsewhere).not_scored("no_output")
    scored(elsewhere).not_scored("wrong_language")


def test_ground_truth_is_for_scorers_that_compare(scored: Any, tracer: Any) -> None:
    @scorer
    def right(run: Run) -> bool:
        return bool(run.output == run.ground_truth)

    agent_run(tracer, answer="4")
    scored(right, ground_truth="4").at_least(1)


@pytest.mark.slow
def test_the_page_on_tests_shows_a_test_that_passes(pytester: pytest.Pytester, request: Any) -> None:
    page = (request.config.rootpath / "docs" / "evals.md").read_text("utf-8")
    (block,) = [b for b in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S) if "def test_" in b]
    pytester.makepyfile(block)
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=1)
