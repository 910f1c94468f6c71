"""Fields that follow from something are found once, when they are asked for; what was given counts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from typing import Any

import pytest

from otel_evals._internal.engine.score import is_unreadable
from otel_evals._internal.model.records import derives, with_given
from otel_evals.conventions import recovered
from otel_evals.model import Operation, OperationKind, Run, SpanRecord


@derives("words", "count")
@dataclass(frozen=True, kw_only=True)
class Said:
    text: str
    loud: bool = False
    words: tuple[str, ...] = ()
    count: int = 0


class Words:
    failed = False

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[str] = []

    def derive(self, field: str) -> Mapping[str, Any]:
        self.asked.append(field)
        words = tuple(self.text.split())
        return {"words": words, "count": len(words)}


def said(text: str = "a b c") -> tuple[Said, Words]:
    words = Words(text)
    return recovered(Said, words, {"text": text}), words


def test_fields_are_derived_once_and_together() -> None:
    record, words = said()
    assert words.asked == []
    assert (record.count, record.words, record.count) == (3, ("a", "b", "c"), 3)
    assert words.asked == ["count"]
    assert record.loud is False


def test_what_was_given_counts() -> None:
    record, words = said()
    other = with_given(record, count=7, loud=True)
    assert (other.count, other.loud, words.asked) == (7, True, [])
    assert other.words == ("a", "b", "c")
    assert other.count == 7
    assert (record.count, record.loud) == (3, False)
    assert replace(record, count=9).words == ("a", "b", "c")


def test_a_record_made_by_its_class_has_its_defaults() -> None:
    assert Said(text="a b") == Said(text="a b", words=(), count=0)
    with pytest.raises(FrozenInstanceError):
        Said(text="a").count = 3  # type: ignore[misc]  # what is being tested


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r)), replace]
)
def test_a_copy_has_all_values_and_no_derivation(again: Any) -> None:
    record, _ = said()
    made = again(record)
    assert made == record == Said(text="a b c", words=("a", "b", "c"), count=3)
    assert set(vars(made)) == {field.name for field in fields(Said)}


def test_runs_and_operations_keep_their_signature_and_their_defaults() -> None:
    run = Run(trace_id="a", root_span_id="b", root_kind=OperationKind.AGENT)
    assert (run.output, run.tool_calls, run.availability, is_unreadable(run)) == (None, (), {}, False)
    operation = Operation(
        span=SpanRecord(trace_id="a", span_id="b"), kind=OperationKind.AGENT, convention="d", documents=()
    )
    assert (operation.input_messages, operation.sources) == ((), {})
    assert not hasattr(recovered(Said, None, {"text": "x"}), "words")
