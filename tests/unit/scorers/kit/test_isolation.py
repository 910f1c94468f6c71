"""What can be sent to another process: built-in scorers, judges with their gates, scorers of one's own."""

from __future__ import annotations

import inspect
import pickle
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

import pytest

from otel_evals import ConfigError, load_config
from otel_evals._internal.scorers.kit.isolation import NotPortableError, pack
from otel_evals.context import tool_results
from otel_evals.judges import Budget, CachedJudge, JudgeLimits, LiteLLMJudge
from otel_evals.scorers import Scorer

SCORERS = entry_points(group="otel_evals_scorer")


def sent(thing: Any) -> Any:
    return pickle.loads(pack(thing))


def built_in(point: Any) -> Scorer | None:
    """The scorer, or None where it needs options of its own."""
    make = point.load()
    known = {"model": "openai/gpt-5-mini", "get_context": tool_results()}
    options = {name: known[name] for name in inspect.signature(make).parameters if name in known}
    try:
        return make if isinstance(make, Scorer) else cast("Scorer", make(**options))
    except (TypeError, ConfigError):
        return None


def test_the_built_in_scorers_can_be_sent_and_keep_their_versions() -> None:
    """All that can be built without options of their own: judges, pipelines, functions in closures."""
    built = [made for point in SCORERS if (made := built_in(point)) is not None]
    assert len(built) > 20
    for each in built:
        arrived = sent(each)
        assert (arrived.id, arrived.version, arrived.direction) == (each.id, each.version, each.direction)


def test_a_judge_is_sent_with_its_limits_its_budget_and_its_memory(tmp_path: Path) -> None:
    """What is kept in a file is shared with the other process; what is kept in memory starts afresh there."""
    budget = Budget(usd=1, store=tmp_path / "budget.db")
    limiters = (JudgeLimits(requests="10/s"), budget)
    judge = LiteLLMJudge("openai/x", max_tokens=10, input_price=1.0, output_price=1.0, limiters=limiters)
    arrived = sent(CachedJudge(judge, store=tmp_path / "cache.db"))
    assert arrived.model == "openai/x"
    assert sent(budget).spent() == budget.spent() == (0.0, 0, False)


def test_a_scorer_of_a_module_needs_no_cloudpickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    (tmp_path / "named_scorers.py").write_text(
        "from otel_evals import scorer\n@scorer\ndef polite(run) -> bool:\n    return True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evals.yaml").write_text(
        "rules:\n  - scorer: python:named_scorers:polite\n    isolation: process\n"
    )
    (rule,) = load_config(tmp_path / "evals.yaml").rules
    assert sent(rule.scorer) is sys.modules["named_scorers"].polite


def test_what_has_no_form_outside_this_process_is_refused() -> None:
    with pytest.raises(NotPortableError, match="on first use"):
        pack(number for number in range(3))
