"""Counters over several processes: they sum, and a death moves what was pending without losing any of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from otel_evals import RuleStats, Stats
from otel_evals._internal.accounting.counters import ConversationStats
from otel_evals._internal.live.engine_process.relay import Counts
from otel_evals._internal.live.engine_process.totals import after_death, total, totals, undelivered
from otel_evals.destinations import DestinationStats

FEW = st.integers(0, 5)
BY_REASON = st.dictionaries(st.sampled_from(["a", "b"]), st.integers(1, 5))


@st.composite
def rule_stats(draw: Any) -> RuleStats:
    """Counters that balance."""
    not_sampled, ends = draw(BY_REASON), [draw(BY_REASON) for _ in range(3)]
    scored, stored, pending, resumed = draw(FEW), draw(FEW), draw(FEW), 0
    sampled = scored + stored + pending + sum(sum(each.values()) for each in ends)
    return RuleStats(
        eligible=sampled + sum(not_sampled.values()),
        sampled=sampled,
        not_sampled=not_sampled,
        scored=scored,
        not_scored=ends[0],
        failed=ends[1],
        dropped=ends[2],
        stored=stored,
        resumed=resumed,
        pending=pending,
    )


@st.composite
def stats(draw: Any) -> Stats:
    ignored, eligible = draw(BY_REASON), draw(FEW)
    return Stats(
        seen=eligible + sum(ignored.values()),
        eligible=eligible,
        ignored=ignored,
        losses=draw(BY_REASON),
        rules=draw(st.dictionaries(st.sampled_from(["x", "y"]), rule_stats())),
        conversations=ConversationStats(waiting=draw(FEW)),
    )


@st.composite
def counts(draw: Any) -> Counts:
    destination = st.builds(
        DestinationStats, exported=FEW, failed=FEW, dropped=FEW, pending=FEW, losses=BY_REASON
    )
    return Counts(
        stats=draw(stats()),
        destinations=draw(st.dictionaries(st.sampled_from(["jsonl", "memory"]), destination)),
        received=draw(FEW),
        open=draw(FEW),
        pending=draw(FEW),
    )


@given(stats(), stats())
def test_sums_balance_and_do_not_depend_on_the_order(first: Stats, second: Stats) -> None:
    both = total(first, second)
    assert both.check() == first.check() == second.check() == []
    assert both == total(second, first)
    assert both.seen == first.seen + second.seen
    assert both.rules.keys() == first.rules.keys() | second.rules.keys()
    assert total(first, Stats()) == first


@given(counts(), FEW, st.booleans())
def test_after_a_death_nothing_is_pending_and_everything_adds_up(
    last: Counts, lost: int, stored: bool
) -> None:
    dead = after_death(last, lost, "process_died", stored=stored)
    assert dead.check() == []
    for name, before in last.stats.rules.items():
        after = dead.rules[name]
        assert after.pending == 0
        if stored:
            assert after.stored == before.stored + before.pending
        else:
            assert after.dropped.get("process_died", 0) == before.pending
    assert dead.losses.get("span_process_died", 0) == lost
    assert sum(dead.conversations.lost.values()) == last.stats.conversations.waiting
    assert dead.conversations.waiting == 0


@given(counts())
def test_what_was_on_its_way_to_a_destination_is_dropped(last: Counts) -> None:
    for name, after in undelivered(last, "process_died").items():
        before = last.destinations[name]
        assert (after.pending, after.dropped) == (0, before.dropped + before.pending)
        assert sum(after.losses.values()) == sum(before.losses.values()) + before.pending
        assert (after.exported, after.failed) == (before.exported, before.failed)


def test_records_are_summed_by_name() -> None:
    one, two = DestinationStats(exported=1, losses={"a": 1}), DestinationStats(exported=2, losses={"b": 1})
    assert totals({"x": one}, {"x": two, "y": two}) == {
        "x": DestinationStats(exported=3, losses={"a": 1, "b": 1}),
        "y": two,
    }
