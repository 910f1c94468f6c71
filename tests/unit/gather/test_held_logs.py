"""Log records wait for their span, within bounds, and no deeper than can be stored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals._internal.gather.held_logs import HeldLogs
from otel_evals.model import SpanEvent


def nested(depth: int, mapping: bool) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": value} if mapping else [value]
    return value


@pytest.mark.parametrize("depth", [61, 500, 980, 20_000])
@pytest.mark.parametrize("mapping", [True, False])
@pytest.mark.parametrize("where", ["body", "attributes"])
def test_a_log_record_is_cut_where_it_is_too_deep_to_be_stored(depth: int, mapping: bool, where: str) -> None:
    value, logs = nested(depth, mapping), HeldLogs(10, 1_000_000)
    log = SpanEvent(name="l", **{where: {"a": value} if where == "attributes" else value})
    assert logs.add("1", log) == 0
    (held,) = logs.take("1") or ()
    assert len(json.dumps([held.body, dict(held.attributes)])) < 1_000


def test_a_log_record_that_holds_itself_is_cut_too() -> None:
    body: list[Any] = ["x"]
    body.append(body)
    logs = HeldLogs(10, 1_000_000)
    logs.add("1", SpanEvent(name="l", body=body))
    (held,) = logs.take("1") or ()
    json.dumps(held.body)


def test_a_log_record_of_usual_depth_is_kept_as_it_is() -> None:
    logs = HeldLogs(10, 1_000_000)
    log = SpanEvent(name="l", body={"a": [{"b": 1}]}, attributes={"c": (1, 2)})
    logs.add("1", log)
    assert (logs.take("1") or [])[0] is log


def test_log_records_of_the_20_000_newest_spans_are_held() -> None:
    """Most of these spans are never claimed, so nothing is counted."""
    logs = HeldLogs(10, 10**9)
    assert sum(logs.add(str(number), SpanEvent(name="l")) for number in range(20_002)) == 0
    assert list(logs.by_span) == [str(number) for number in range(2, 20_002)]


def test_those_that_waited_longest_give_way_and_are_counted() -> None:
    logs = HeldLogs(10, 1_000_000)
    lost = sum(logs.add(str(number), SpanEvent(name="l", body="x" * 100_000)) for number in range(100))
    assert lost > 85
    assert logs.by_span.get("99")
    assert not logs.by_span.get("1")
