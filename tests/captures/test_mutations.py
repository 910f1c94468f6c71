"""Real traces, damaged: the same run, or less of it, and never a different answer."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from itertools import chain, product
from typing import Any

import pytest

from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import find_runs
from otel_evals.conventions import load_conventions
from otel_evals.model import Availability, Run, SpanRecord
from tests.support.captures import FOLDERS, entries, paths_of
from tests.support.replacing import replace

pytestmark = pytest.mark.skipif(not FOLDERS, reason="OTEL_EVALS_CAPTURES names no folder of captures")
KNOWN_CONVENTIONS = load_conventions()
CAPTURES = list(entries())
ROUNDS = int(os.environ.get("OTEL_EVALS_MUTATIONS", "1"))


def traces_of(entry: Any) -> Iterator[list[SpanRecord]]:
    return read_traces(paths_of(*entry))


def call_names(runs: list[Run]) -> Counter[str]:
    return Counter(call.name for run in runs for call in run.tool_calls)


each_capture = pytest.mark.parametrize(
    "entry", CAPTURES, ids=[entry["file"].split(".otlp")[0] for _, entry in CAPTURES]
)


@each_capture
def test_shuffled_and_doubled_spans_give_the_same_runs(entry: Any) -> None:
    for trace in traces_of(entry):
        expected = find_runs(trace, KNOWN_CONVENTIONS)
        for seed in range(ROUNDS):
            mixed = [*trace, *random.Random(seed).sample(trace, len(trace) // 2)]
            random.Random(seed).shuffle(mixed)
            assert find_runs(mixed, KNOWN_CONVENTIONS) == expected


@each_capture
def test_a_dropped_span_takes_away_and_never_changes(entry: Any) -> None:
    """A run whose root is gone may fall apart, but tells no call and no answer that the whole one did not."""
    pick = random.Random(entry[1]["file"])
    for trace in traces_of(entry):
        whole = find_runs(trace, KNOWN_CONVENTIONS)
        answers = {said.strip() for said in all_answers(whole)}
        for gone in pick.sample(range(len(trace)), min(2 * ROUNDS, len(trace))):
            left = [span for number, span in enumerate(trace) if number != gone]
            runs = find_runs(left, KNOWN_CONVENTIONS)
            assert set(call_names(runs)) <= set(call_names(whole)), trace[gone].name
            assert len(runs) > len(whole) or call_names(runs) <= call_names(whole), trace[gone].name
            assert {run.output.strip() for run in runs if run.output} <= answers, trace[gone].name


def all_answers(runs: list[Run]) -> Iterator[str]:
    """What any operation of these runs answered."""
    for run in runs:
        yield run.output or ""
        for operation in run.operations:
            yield from (message.text for message in operation.output_messages)


@each_capture
def test_texts_that_a_limit_cut_off_are_said_to_be_cut_off_or_are_whole(entry: Any) -> None:
    for trace, limit in product(traces_of(entry), [40, 1_000]):
        whole = find_runs(trace, KNOWN_CONVENTIONS)
        for run in find_runs([_cut(span, limit) for span in trace], KNOWN_CONVENTIONS):
            for name in ("input", "output"):
                value = getattr(run, name)
                if value is None or run.availability[name] is Availability.TRUNCATED:
                    continue
                assert value in {getattr(r, name) for r in whole} or len(value) == limit, (name, value)


@each_capture
def test_a_list_that_was_cut_off_never_tells_an_older_turn_s_question(entry: Any) -> None:
    """What is left of a list may be history; only a question that itself was cut off may have been last."""
    for trace in traces_of(entry):
        asked = [run.input for run in find_runs(trace, KNOWN_CONVENTIONS) if run.input]
        cut = ([_cut(span, limit) for span in trace] for limit in (150, 400, 900, 2_000))
        for run in chain.from_iterable(find_runs(spans, KNOWN_CONVENTIONS) for spans in cut):
            told = run.input
            last = run.input_messages[-1].parts[-1] if run.input_messages else None
            cut_off = last is not None and last.truncated
            assert told is None or cut_off or any(_begins(question, told) for question in asked), told


def _begins(question: str, told: str) -> bool:
    """Whether a text is the other's beginning, or holds it in the JSON that it was cut out of."""
    return question.startswith(told.rstrip()) or told in question or question in told


def _cut(span: SpanRecord, limit: int) -> SpanRecord:
    attributes = {k: v[:limit] if isinstance(v, str) else v for k, v in span.attributes.items()}
    return replace(span, attributes=attributes)
