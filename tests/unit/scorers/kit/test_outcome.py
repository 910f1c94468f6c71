"""Whatever a scorer returns or raises becomes an outcome of plain, bounded values; nothing is raised."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import astuple
from pydantic import BaseModel

from otel_evals._internal.scorers.kit.outcome import failure_of, root_cause
from otel_evals._internal.scorers.kit.scorer import StepFailure, to_outcome
from otel_evals._internal.util.plain import plain_text, plain_value
from otel_evals.errors import JudgeUnavailableError
from otel_evals.model import ContextSeen, NotScored, Score, ScorerFailure, StepRecord, Usage
from otel_evals.scorers import Scorer, panel, step_scorer
from otel_evals.testing import run_of

RUN = run_of({"input": "why?", "output": "so"})
RAISED = [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration(), MemoryError()]


class OtherError(Exception):
    """A stranger's exception, with attributes that are named as ours are."""

    def __init__(self, said: Any = "", **attributes: Any) -> None:
        super().__init__(said)
        self.__dict__.update(attributes)


class Colour(Enum):
    RED = "red"


class Model(BaseModel):
    inner: Any = None


@dataclass
class Record:
    inner: Any = None


def cyclic() -> Any:
    loop: list[Any] = []
    loop.append({"again": loop})
    return loop


THINGS: dict[str, Callable[[], Any]] = {
    **{type(error).__name__: lambda error=error: error for error in RAISED},  # type: ignore[misc]
    "none": lambda: None,
    "int": lambda: 3,
    "bool": lambda: True,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "huge": lambda: 10**400,
    "list": list,
    "texts": lambda: ["a"],
    "dict": lambda: {"a": 1},
    "bytes": lambda: b"\xff",
    "surrogate": lambda: "\ud800",
    "long": lambda: "x" * 100_000,
    "enum": lambda: Colour.RED,
    "model": lambda: Model(inner=Record(Colour.RED)),
    "cycle": cyclic,
    "object": object,
    "mixed steps": lambda: (StepRecord(name="a"), 3),
    "odd step": lambda: (
        StepRecord(name=None, result=cyclic(), usage=None, attempts="x"),  # type: ignore[arg-type]
        StepRecord(name="a", usage=Usage(input_tokens=None)),  # type: ignore[arg-type]
    ),
    "step": lambda: StepRecord(name="a"),
    "generator": lambda: (value for value in [1]),
}
"""Made anew inside each test: neither pytest nor hypothesis could hold some of them."""

names = st.sampled_from(sorted(THINGS))
recipes = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["thing", "score", "fair score", "refusal", "failure", "error"]),
        "fields": st.lists(names, min_size=5, max_size=5),
    }
)


def made(recipe: dict[str, Any]) -> Any:
    a, b, c, d, e = (THINGS[name]() for name in recipe["fields"])
    match recipe["kind"]:
        case "score":
            return Score(value=a, label=b, explanation=c, steps=d, agreement=e)
        case "fair score":
            return Score(value=0.5, label=b, explanation=c, steps=d, agreement=e)
        case "refusal":
            return NotScored(reason=a, explanation=b, steps=c)
        case "failure":
            return ScorerFailure(error_type=a, message=b, attempts=c, steps=d)
        case "error":
            return OtherError(said=a, steps=b, error_type=c, extra=(d, e))
    return a


def flat(value: Any) -> Any:
    """A record, and the records in it, as tuples of their values."""
    if isinstance(value, Struct):
        return tuple(map(flat, astuple(value)))
    return tuple(map(flat, value)) if isinstance(value, tuple) else value


def is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(type(k) is str and is_plain(v) for k, v in value.items())
    return value is None or type(value) in (str, int, bool, float)


@settings(max_examples=500, deadline=None)
@given(recipes)
def test_every_object_becomes_an_outcome_of_plain_bounded_values(recipe: dict[str, Any]) -> None:
    outcome = to_outcome(made(recipe))
    assert type(outcome) in (Score, NotScored, ScorerFailure)
    assert is_plain(flat(outcome))
    assert len(json.dumps(flat(outcome), allow_nan=False)) < 3_000_000
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert to_outcome(outcome) == outcome, "an outcome stays what it is"


def test_a_fair_outcome_is_kept_as_it_is() -> None:
    step = StepRecord(
        name="analyze",
        result={"verdicts": ["yes", 0.5, None]},
        prompt="so?",
        model="m",
        usage=Usage(input_tokens=7, output_tokens=3),
        cost=0.25,
        attempts=2,
        start_time=5,
        duration=1.5,
        context=ContextSeen(digest="d", pieces=1, truncated=True, text=("t",)),
        error="no",
    )
    for outcome in (
        Score(value=0.5, label="some", explanation="so", steps=(step,), agreement=0.75),
        NotScored(reason="no_tool_calls", explanation="none", steps=(step,)),
        ScorerFailure(error_type="timeout", message="late", attempts=3, steps=(step,)),
    ):
        assert to_outcome(outcome) == outcome


@pytest.mark.parametrize(
    ("thing", "error_type"),
    [
        (Score(value=math.nan), "TypeError"),
        (Score(value=1.0, agreement=math.nan), "TypeError"),
        (Score(value="1"), "TypeError"),  # type: ignore[arg-type]
        (NotScored(reason=["a"]), "TypeError"),  # type: ignore[arg-type]
        (NotScored(reason=""), "TypeError"),
        (None, "TypeError"),
        (0.5, "TypeError"),
        (KeyError("k"), "KeyError"),
        (SystemExit(2), "SystemExit"),
    ],
)
def test_what_means_nothing_is_a_failure_that_says_what_came(thing: Any, error_type: str) -> None:
    outcome = to_outcome(thing)
    assert isinstance(outcome, ScorerFailure)
    assert outcome.error_type == error_type
    assert outcome.message


def test_a_field_of_a_wrong_type_is_named() -> None:
    outcome = to_outcome(Score(value=1.0, label=["x"]))  # type: ignore[arg-type]
    assert isinstance(outcome, ScorerFailure)
    assert "label" in outcome.message


def test_labels_are_shortened() -> None:
    outcome = to_outcome(Score(value=1.0, label="l" * 5_000_000))
    assert isinstance(outcome, Score)
    assert outcome.label == "l" * 256


def test_a_failure_of_a_step_is_named_after_its_cause() -> None:
    cause = JudgeUnavailableError("busy")
    error = StepFailure("analyze: busy", steps=(StepRecord(name="analyze"),))
    error.__cause__ = cause
    assert root_cause(error) is cause
    assert failure_of(error) == ScorerFailure(
        error_type="JudgeUnavailableError", message="busy", steps=(StepRecord(name="analyze"),)
    )


@pytest.mark.parametrize("name", sorted(THINGS))
def test_plain_values_are_json(name: str) -> None:
    for thing in (THINGS[name](), [THINGS[name]()], {"a": THINGS[name]()}, Record(THINGS[name]())):
        assert len(json.dumps(plain_value(thing), allow_nan=False)) < 3_000_000
        assert len(plain_text(thing, 100)) <= 100


def test_plain_values_are_bounded_in_depth_and_number() -> None:
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]
    assert json.dumps(plain_value(deep)).count("[") == 20
    wide = [[[0] * 1_000] * 1_000] * 1_000
    assert len(json.dumps(plain_value(wide))) < 3_000_000


# --- exceptions that are none of Exception ---


def raised(place: int) -> BaseException:
    return [*RAISED, OtherError(said=3, steps=3)][place]


@pytest.mark.parametrize("inline", [True, False])
@pytest.mark.parametrize("name", ["preprocess", "analyze", "generate_score"])
@pytest.mark.parametrize("place", range(len(RAISED) + 1))
def test_a_step_that_exits_fails_and_keeps_the_steps_before(place: int, name: str, inline: bool) -> None:
    error = raised(place)

    def fail(params: Any) -> Any:
        raise error

    base = step_scorer("x", inline=inline).preprocess(lambda p: 1).generate_score(lambda p: 1.0)
    with pytest.raises(StepFailure) as caught:
        anyio.run(replace(base, steps={**base.steps, name: fail}).score, RUN)
    assert caught.value.steps[-1].name == name
    assert type(to_outcome(caught.value)) is ScorerFailure


def test_cancelling_from_outside_still_cancels() -> None:
    async def forever(params: Any) -> Any:
        await anyio.sleep_forever()

    slow = step_scorer("x").generate_score(forever)

    async def main(asked: Scorer) -> bool:
        with anyio.move_on_after(0.05) as scope:
            await asked.score(RUN)
        return scope.cancelled_caught

    assert anyio.run(main, slow)
    assert anyio.run(main, panel([slow, slow], id="p"))
