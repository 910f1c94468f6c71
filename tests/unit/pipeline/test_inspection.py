"""What can be asked of an engine: its losses in words, the ids it knows traces by, and whether it goes on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals import Rule, RuleStats, Run, Stats, scorer
from otel_evals._internal.accounting.counters import ConversationStats, StoreStats
from otel_evals._internal.pipeline.engine import trace_id_of
from otel_evals._internal.pipeline.steps import losses_of
from otel_evals.destinations import DestinationStats
from tests.support.traffic import Live


def test_everything_lost_is_named_by_what_and_why_and_nothing_else() -> None:
    stats = Stats(
        ignored={"trace_not_sampled": 9, "nothing_to_judge": 9, "unreadable": 1},
        losses={"span_late": 2},
        rules={
            "judge": RuleStats(
                not_sampled={"sampled_out": 9}, failed={"KeyError": 9}, dropped={"queue_full": 3}
            )
        },
        conversations=ConversationStats(waiting=9, lost={"process_died": 4}),
        store=StoreStats(written=9, evicted={"age": 5}),
    )
    destinations = {"jsonl": DestinationStats(exported=9, losses={"refused": 6})}
    assert sorted(losses_of(stats, destinations).values()) == [1, 2, 3, 4, 5, 6]
    assert {name: count for name, count in losses_of(stats, destinations).items() if count in (2, 3, 6)} == {
        "spans or log records (span_late)": 2,
        "evaluations by judge (queue_full)": 3,
        "scored runs for jsonl (refused)": 6,
    }
    assert losses_of(Stats(), {}) == {}


@given(st.integers(1, 2**128 - 1))
def test_a_trace_id_is_read_as_a_number_and_as_hex_digits(number: int) -> None:
    digits = f"{number:032x}"
    assert trace_id_of(number) == trace_id_of(digits) == trace_id_of(f" 0x{digits.upper()} ") == digits


@pytest.mark.parametrize("wrong", ["", "trace", "0", 0, -1, 2**128, "1" * 33])
def test_what_is_no_trace_id_is_refused(wrong: int | str) -> None:
    with pytest.raises(ValueError, match="trace id"):
        trace_id_of(wrong)


@scorer(id="one", version="1")
def one(run: Run) -> float:
    return 1.0


def test_an_engine_is_idle_before_and_after_its_work_and_knows_what_it_did() -> None:
    with Live(Rule(one)) as live:
        before = live.pipeline.health()
        assert (before.status, before.thread_alive, before.last_end, before.ok) == ("idle", False, None, True)
        trace_id = live.run()
        assert live.flush()
        after = live.pipeline.health()
        assert (after.status, after.thread_alive, after.pending, after.losses) == ("idle", True, 0, {})
        assert after.last_end is not None
        assert after.last_end >= 0
        told = live.pipeline.explain(trace_id)
        assert [(each.rule, each.status, each.value) for each in told.decisions] == [("one", "scored", 1.0)]
        unknown = live.pipeline.explain(trace_id ^ 1)
        assert unknown.decisions == ()
        assert unknown.notes
