"""`when` as an expression in CEL."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals import Rule, Run, load_config
from otel_evals._internal.config.cel import CelCondition
from otel_evals._internal.config.loader import build_config
from otel_evals.errors import ConfigError
from otel_evals.model import ToolCall
from otel_evals.scorers import answered
from tests.support.trace_builder import TraceBuilder
from tests.support.traffic import Live, agent_run

ROOT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support", "tenant.id": "acme"}


def run(attributes: dict[str, Any] | None = None, **more: Any) -> Run:
    return TraceBuilder("tests").add("invoke_agent", {**ROOT, **(attributes or {})}, **more).run


@pytest.mark.parametrize(
    ("expression", "met"),
    [
        ('run.error || run.duration > 5.0 || run.attributes["tenant.id"] == "acme"', True),
        ("run.error", False),
        ("run.error_message == null", True),
        ('run.agent_name == "support" && !run.error', True),
        ('run.agent_name.startsWith("sup") && run.agent_name.matches("^s.*t$")', True),
        ('"user.id" in run.attributes', False),
        ('has(run.attributes.nothing) || run.agent_name in ["sales", "support"]', True),
        ("run.tool_calls.exists(c, c.name == 'lookup')", False),
        ("size(run.tool_calls) == 0 // none", True),
        ("run.start_time < 1e3 && run.duration < 1u", True),
        ('run.agent_name == "run" || run.agent_name == "a.b(c"', False),
        (
            """run.agent_name == 'it\\'s' ||
            run.agent_name == r"support" """,
            True,
        ),
    ],
)
def test_an_expression_says_which_runs_it_applies_to(expression: str, met: bool) -> None:
    assert CelCondition(expression)(run()) is met


def test_attributes_of_the_root_go_before_others() -> None:
    built = TraceBuilder("tests").add("invoke_agent", {**ROOT, "x": "root"})
    built.add(
        "chat", {"gen_ai.operation.name": "chat", "x": "chat", "y": "chat"}, resource={"y": "r", "z": "r"}
    )
    when = CelCondition('run.attributes["x"] == "root" && run.attributes["y"] == "chat"')
    assert when(built.run)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("run.error ||", r"column 13: mismatched input '<EOF>', in 'run.error ||'"),
        ("run.error\n || (", r"line 2, column 6: .* in ' \|\| \('"),
        ("rum.error", r"column 1: there is no variable 'rum'; the run is `run`"),
        ("true || run.eror", r"column 13: a run has no field 'eror'; did you mean 'error'\?"),
        ("run == null", "column 1: name a field of the run"),
        ("bar(run.error)", "there is no function 'bar'"),
        ("run.output.contain('x')", "there is no function 'contain'; did you mean 'contains'"),
        (
            "run.tool_calls.all(c, run.tool_calls.exists(d, d.name == c.name))",
            "'exists' is nested in another macro",
        ),
        ("   ", "must be an expression"),
        ("run.error || " * 200 + "true", "characters; 2000 are allowed"),
        ("(" * 900 + "true" + ")" * 900, "column 97: .*"),
    ],
)
def test_mistakes_are_told_with_their_place_when_the_configuration_is_built(
    expression: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        Rule(answered(), when={"cel": expression})  # type: ignore[arg-type]
    assert raised.value.field == "when.cel"


def test_a_mistake_in_a_file_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "evals.yaml"
    path.write_text("rules:\n  - scorer: answered\n    when:\n      cel: run.error ||\n")
    with pytest.raises(ConfigError, match=r"evals.yaml:4:7: rules\[0\].when.cel: column 13"):
        load_config(path)


def test_it_stands_alone() -> None:
    with pytest.raises(ConfigError, match="must be the only key"):
        build_config([{"scorer": "answered", "when": {"cel": "true", "agent_name": "a"}}])


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_a_mistake(text: str) -> None:
    with suppress(ConfigError):
        CelCondition(text)


@pytest.mark.parametrize(
    "expression", ["run.output", "run.duration > 'x'", "run.attributes.missing == 1", "1"]
)
def test_what_fails_for_a_run_is_counted_and_the_run_is_not_scored(expression: str) -> None:
    with Live(Rule(answered(), when={"cel": expression})) as live:  # type: ignore[arg-type]
        agent_run(live.tracer)
        live.pipeline.force_flush(10)
        stats = live.pipeline.stats().rules["answered"]
    assert stats.not_sampled == {"predicate_failed": 1}


def test_it_works_in_process_and_can_be_printed() -> None:
    when = CelCondition('run.agent_name == "sales"')
    assert str(when) == 'run.agent_name == "sales"'
    with Live(Rule(answered(), when=when)) as live:
        agent_run(live.tracer, agent="sales")
        agent_run(live.tracer, agent="support")
        live.pipeline.force_flush(10)
        stats = live.pipeline.stats().rules["answered"]
    assert (stats.sampled, stats.not_sampled) == (1, {"not_applicable": 1})


def test_a_large_run_takes_a_bounded_time() -> None:
    """Two thousand tool calls, as many as a trace may have spans, under several macros."""
    calls = tuple(ToolCall(name=f"tool_{n}", arguments={"x": "y" * 200}) for n in range(2_000))
    large = TraceBuilder("tests").add("invoke_agent", ROOT).run
    object.__setattr__(large, "tool_calls", calls)
    when = CelCondition(" || ".join(["run.tool_calls.exists(c, c.name == 'none')"] * 8))
    began = time.process_time()
    assert when(large) is False
    assert time.process_time() - began < 5
