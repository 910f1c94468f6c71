"""All code-only scorers at once: by name with options as YAML gives them, and on runs of any content."""

from __future__ import annotations

import asyncio
import math
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.config.plugins import build_scorer
from otel_evals.errors import ConfigError
from otel_evals.model import NotScored, Score, ToolCall
from otel_evals.scorers import Scorer
from tests.support.code_scorers import CODE_OPTIONS
from tests.support.runs import a_run, tool


@cache
def built() -> tuple[Scorer, ...]:
    return tuple(build_scorer(name, options, "rules[0]") for name, options in CODE_OPTIONS.items())


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Imports what the scorers need, so that no single test pays for it."""
    built()


@pytest.mark.parametrize("name", CODE_OPTIONS)
def test_a_scorer_is_built_by_its_name_and_describes_itself(name: str) -> None:
    (scorer,) = (s for s, n in zip(built(), CODE_OPTIONS, strict=True) if n == name)
    assert scorer.id == CODE_OPTIONS[name].get("id", name)
    assert len(scorer.version) == 12
    outcome = asyncio.run(scorer.score(a_run(tools=[tool("search", {"price": 5}, arguments={"q": "x"})])))
    assert isinstance(outcome, Score | NotScored)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("grounded_in_tools", {"strict": True}),
        ("includes", {}),
        ("within_budget", {"max_tokens": "many"}),
        ("repeated_calls", {"loop_from": "x"}),
    ],
)
def test_options_a_scorer_does_not_take_are_refused(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        build_scorer(name, options, "rules[0]")


words = st.text(max_size=60)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(
    ToolCall,
    name=st.sampled_from(["search", "book", "delete", ""]),
    arguments=json_values,
    result=json_values,
    error=st.none() | words,
    status=st.sampled_from(["ok", "error", "unknown"]),
)


@settings(max_examples=40, deadline=None)
@given(st.none() | words, st.none() | words, st.lists(calls, max_size=4))
def test_whatever_a_run_holds_the_outcome_is_a_valid_score_or_a_reason(
    answer: str | None, said: str | None, tools: list[ToolCall]
) -> None:
    async def judge() -> None:
        for scorer in built():
            outcome = await scorer.score(a_run(answer, said, tools=tools))
            if isinstance(outcome, NotScored):
                assert outcome.reason.replace("_", "").isalpha()
            else:
                assert math.isfinite(outcome.value)
                assert 0.0 <= outcome.value <= 1.0

    asyncio.run(judge())
