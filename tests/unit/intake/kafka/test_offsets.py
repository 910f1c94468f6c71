"""An offset is committed when everything before it is done with, never earlier."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_evals.intake.kafka.offsets import Offsets

PARTITION = ("otlp_spans", 0)


def test_what_is_open_holds_back_what_came_after_it() -> None:
    offsets = Offsets()
    for offset, traces in enumerate([{"a"}, {"b"}, set(), {"a"}]):
        offsets.take(PARTITION, offset, traces)
    assert offsets.done(offsets.newest(), {"b"}) == {PARTITION: 1}
    assert offsets.done(offsets.newest(), {"b"}) == {}
    assert offsets.done(offsets.newest(), set()) == {PARTITION: 4}
    assert len(offsets) == 0


def test_what_came_after_the_open_traces_were_looked_up_is_not_judged_by_them() -> None:
    offsets = Offsets()
    offsets.take(PARTITION, 0, {"a"})
    seen = offsets.newest()
    offsets.take(PARTITION, 1, {"b"})
    assert offsets.done(seen, set()) == {PARTITION: 1}


def test_a_message_on_its_way_to_the_dead_letters_is_awaited() -> None:
    offsets = Offsets()
    taken = offsets.take(PARTITION, 7, (), pending=True)
    assert offsets.done(offsets.newest(), set()) == {}
    taken.pending = False
    assert offsets.done(offsets.newest(), set()) == {PARTITION: 8}


def test_partitions_of_others_are_forgotten_and_age_is_that_of_the_oldest() -> None:
    now = 0.0
    offsets = Offsets(lambda: now)
    offsets.take(PARTITION, 0, {"a"})
    now = 5.0
    offsets.take(("otlp_spans", 1), 0, {"a"})
    assert offsets.oldest_age == 5.0
    offsets.forget([PARTITION])
    assert (offsets.oldest_age, offsets.newest().keys()) == (0.0, {("otlp_spans", 1)})
    offsets.forget([("otlp_spans", 1)])
    assert offsets.oldest_age == 0.0


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sets(st.sampled_from("abcde"), max_size=2), max_size=20),
    st.lists(st.sets(st.sampled_from("abcde")), max_size=5),
)
def test_no_commit_passes_an_open_trace(messages: list[set[str]], looks: list[set[str]]) -> None:
    offsets = Offsets()
    for offset, traces in enumerate(messages):
        offsets.take(PARTITION, offset, traces)
    committed = 0
    for open_traces in [*looks, set()]:
        committed = offsets.done(offsets.newest(), open_traces).get(PARTITION, committed)
        rest = messages[committed:]
        assert not rest or not rest[0].isdisjoint(open_traces)
    assert committed == len(messages)
