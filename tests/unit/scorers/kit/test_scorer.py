"""`@scorer` and what a scoring function may return."""

from __future__ import annotations

import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from otel_evals._internal.scorers.kit.fingerprint import fingerprint
from otel_evals.errors import ConfigError
from otel_evals.model import Availability, Direction, NotScored, Run, Score, Usage
from otel_evals.scorers import missing, scorer, to_score
from tests.support.runs import a_run


@scorer
def mentions_friday(run: Run) -> bool:
    """Says Friday."""
    return "Friday" in (run.output or "")


def test_a_function_becomes_a_scorer_named_after_it() -> None:
    assert (mentions_friday.id, mentions_friday.description) == ("mentions_friday", "Says Friday.")
    assert mentions_friday.direction is Direction.HIGHER
    assert mentions_friday(a_run()) is True


@pytest.mark.parametrize(("output", "value", "label"), [("on Friday", 1.0, "true"), ("soon", 0.0, "false")])
def test_a_bool_becomes_a_value_with_a_label(output: str, value: float, label: str) -> None:
    score = anyio.run(mentions_friday.score, a_run(output))
    assert score == Score(value=value, label=label)
    said = scorer(id="said", scale=5.0)(lambda run: Score(value="Friday" in run.output, explanation="why"))
    assert anyio.run(said.score, a_run(output)) == Score(value=5 * value, label=label, explanation="why")
    named = scorer(id="named")(lambda run: Score(value="Friday" in run.output, label="day"))
    assert anyio.run(named.score, a_run(output)) == Score(value=value, label="day")


def test_sync_functions_run_in_a_worker_thread_unless_inline() -> None:
    seen: list[int] = []

    def where(run: Run) -> float:
        seen.append(threading.get_ident())
        return 1.0

    anyio.run(scorer(where).score, a_run())
    anyio.run(scorer(inline=True)(where).score, a_run())
    assert seen[0] != threading.get_ident() == seen[1]


def test_async_functions_are_awaited() -> None:
    @scorer(id="later", direction=Direction.LOWER, scale=5)
    async def slow(run: Run) -> float:
        await anyio.lowlevel.checkpoint()
        return 4.5

    assert (slow.id, slow.direction) == ("later", Direction.LOWER)
    assert anyio.run(slow.score, a_run()) == Score(value=4.5)


def test_not_scored_passes_through() -> None:
    assert to_score(NotScored(reason="no_tool_calls")) == NotScored(reason="no_tool_calls")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.01, 1.01, Score(value=2.0)])
def test_scores_out_of_range_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="a score must"):
        to_score(value)


@pytest.mark.parametrize("value", [None, "0.5", [1.0], {"score": 1}, 1j])
def test_other_types_are_refused_by_name(value: object) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        to_score(value)


def test_without_a_scale_any_finite_number_is_a_score() -> None:
    assert to_score(-12.5, scale=None) == Score(value=-12.5)


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf"), "1"])
def test_a_scale_must_be_positive(scale: float) -> None:
    with pytest.raises(ConfigError, match=r"x\.scale"):
        scorer(id="x", scale=scale)(lambda run: 1.0)


def test_the_version_changes_with_code_and_configuration_only() -> None:
    def make(limit: int) -> str:
        return scorer(id="x")(lambda run: len(run.output or "") < limit).version

    assert make(5) == make(5) != make(6)
    assert scorer(id="x", version="7")(lambda run: 1.0).version == "7"


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (a_run(None), "output_not_recorded"),
        (a_run(""), "output_empty"),
        (a_run(None, availability={"output": Availability.CAPTURED_OFF}), "output_captured_off"),
        (a_run(user=None), "input_not_recorded"),
        (a_run(), None),
    ],
)
def test_missing_says_what_is_not_there(run: Run, reason: str | None) -> None:
    answer = missing(run, "input", "output")
    assert (answer and answer.reason) == reason


def test_where_our_own_types_are_defined_does_not_change_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, theirs = our_version(), fingerprint(Elsewhere())
    for kind in (Usage, Elsewhere):
        monkeypatch.setattr(kind, "__module__", f"{kind.__module__}.moved")
    assert our_version() == plain
    assert fingerprint(Elsewhere()) != theirs


class Elsewhere:
    """A type of an application."""


def our_version() -> str:
    return fingerprint("id", Usage(input_tokens=1))


class _Boxed:
    """An array without dimensions, as NumPy's and PyTorch's are."""

    shape = ()

    def __init__(self, value: Any) -> None:
        self._value = value

    def item(self) -> Any:
        return self._value


@pytest.mark.parametrize(
    ("returned", "value", "label"),
    [
        (1.0000001, 1.0, None),
        (-0.0000001, 0.0, None),
        (0.9999999, 1.0, None),
        (0.99999, 0.99999, None),
        (Decimal("0.25"), 0.25, None),
        (Fraction(1, 4), 0.25, None),
        (_Boxed(True), 1.0, "true"),
        (_Boxed(0.25), 0.25, None),
        (Score(value=_Boxed(False)), 0.0, "false"),  # type: ignore[arg-type]
        (Score(value=1.0000001, label="all"), 1.0, "all"),
    ],
)
def test_a_number_of_any_library_is_a_score_and_rounding_does_not_leave_the_scale(
    returned: Any, value: float, label: str | None
) -> None:
    score = to_score(returned)
    assert isinstance(score, Score)
    assert (score.value, score.label) == (value, label)
    assert type(score.value) is float
