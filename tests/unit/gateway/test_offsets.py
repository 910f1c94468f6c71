"""An offset is committed when everything before it is done with, never earlier."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_evals_gateway._internal.kafka.offsets import Commit, Offsets, tail

PARTITION = ("otlp_spans", 0)


def test_what_is_open_holds_back_what_came_after_it() -> None:
    offsets = Offsets()
    for offset, traces in enumerate([{"a"}, {"b"}, set(), {"a"}]):
        offsets.take(PARTITION, offset, traces)
    assert offsets.done(offsets.newest(), {"b"}) == {PARTITION: Commit(1, frozenset("a"), upto=4, back=1)}
    assert offsets.done(offsets.newest(), {"b"}) == {}
    assert offsets.done(offsets.newest(), set()) == {PARTITION: Commit(4, back=4)}
    assert len(offsets) == 0


def test_what_came_after_the_open_traces_were_looked_up_is_not_judged_by_them() -> None:
    offsets = Offsets()
    offsets.take(PARTITION, 0, {"a"})
    seen = offsets.newest()
    offsets.take(PARTITION, 1, {"b"})
    assert offsets.done(seen, set()) == {PARTITION: Commit(1, back=1)}


def test_a_commit_names_an_offset_about_a_minute_before_it() -> None:
    offsets, backs = Offsets(), []
    for second in range(0, 200, 10):
        for offset in (second, second + 5):
            offsets.note_time(PARTITION, offset, 1_000.0 + second)
            offsets.take(PARTITION, offset, ())
        commit = offsets.done(offsets.newest(), set())[PARTITION]
        assert Commit.read(commit.offset, commit.metadata) == commit
        backs.append(commit.back)
    assert backs == [*[0] * 7, *range(10, 140, 10)]
    offsets.forget([PARTITION])
    offsets.take(PARTITION, 300, ())
    assert offsets.done(offsets.newest(), set())[PARTITION].back == 301


def test_a_commit_names_the_conversations_that_are_finished_behind_one_that_waits() -> None:
    offsets = Offsets(conversations={"conversations": 3_600.0})
    place = ("conversations", 0)
    for offset, each in enumerate(["aa", "bb", "cc", "bb"]):
        offsets.note_time(place, offset, 1_000.0 + 2_000 * offset)
        offsets.take(place, offset, {each * 16})
    newest = offsets.newest()
    offsets.take(place, 4, {"cc" * 16})
    commit = offsets.done(newest, {"aa" * 16})[place]
    assert commit == Commit(0, frozenset({"bb" * 6}), upto=4)
    after = Offsets(conversations={"conversations": 3_600.0})
    after.read_on(place, Commit.read(commit.offset, commit.metadata))
    judged = [(n, each) for n in range(6) for each in ("aa", "bb", "cc") if after.judged(place, n, each * 16)]
    assert judged == [(n, "bb") for n in range(4)]
    commit = offsets.done(offsets.newest(), {"bb" * 16})[place]
    assert commit == Commit(1, frozenset({"cc" * 6}), upto=5), "one that continues is not named any more"
    assert offsets.done(offsets.newest(), set())[place] == Commit(5, back=1)


def test_a_message_on_its_way_to_the_dead_letters_is_awaited() -> None:
    offsets = Offsets()
    taken = offsets.take(PARTITION, 7, (), pending=True)
    assert offsets.done(offsets.newest(), set()) == {}
    taken.pending = False
    assert offsets.done(offsets.newest(), set()) == {PARTITION: Commit(8, back=8)}


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
        committed = offsets.done(offsets.newest(), open_traces).get(PARTITION, Commit(committed)).offset
        rest = messages[committed:]
        assert not rest or not rest[0].isdisjoint(open_traces)
    assert committed == len(messages)


TRACES = [f"{number:032x}" for number in range(5)]


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.integers(0, 1), st.sets(st.sampled_from(TRACES), max_size=2)), max_size=24),
    st.lists(st.tuples(st.integers(1, 8), st.sets(st.sampled_from(TRACES), max_size=3)), max_size=8),
)
def test_after_a_crash_a_trace_comes_again_whole_or_is_known_to_be_done_with(
    messages: list[tuple[int, set[str]]], life: list[tuple[int, set[str]]]
) -> None:
    """Two partitions, as of spans and of logs; a crash after each look, then the next member reads on."""
    kept: dict[tuple[str, int], Commit] = {("otlp", 0): Commit(0), ("otlp", 1): Commit(0)}
    for taken, open_traces in [*life, (24, set())]:
        offsets = Offsets()
        for partition, commit in kept.items():
            offsets.read_on(partition, Commit.read(commit.offset, commit.metadata))
        waiting = [(p, at, t) for at, (p, t) in enumerate(messages) if at >= kept["otlp", p].offset]
        for partition_number, at, traces in waiting[:taken]:
            offsets.take(("otlp", partition_number), at, traces)
        unread = set().union(*(traces for _, _, traces in waiting[taken:]))
        skipped = {trace for trace in TRACES if tail(trace) in offsets.known}
        kept |= offsets.done(offsets.newest(), (open_traces | unread) - skipped)
        for trace in TRACES:
            places = [(("otlp", p), at) for at, (p, traces) in enumerate(messages) if trace in traces]
            again = [place for place, at in places if at >= kept[place].offset]
            if len(again) < len(places):
                for place in again:
                    assert tail(trace) in Commit.read(0, kept[place].metadata).done, (trace, kept)


def test_nothing_is_committed_while_a_commit_cannot_name_all_finished_traces() -> None:
    """The next member would judge the rest of a trace that is not named as a whole."""
    offsets, logs = Offsets(), ("otlp_logs", 0)
    many, open_ = [f"{number:032x}" for number in range(501)], "f" * 32
    for place in (PARTITION, logs):
        offsets.take(place, 0, many)
    offsets.take(PARTITION, 1, {open_})
    for number, trace in enumerate(many, 2):
        offsets.take(PARTITION, number, {trace})
    assert offsets.done(offsets.newest(), {open_}) == {}
    assert offsets.held_back
    assert offsets.done(offsets.newest(), set()) == {
        PARTITION: Commit(503, back=503),
        logs: Commit(1, back=1),
    }
    assert not offsets.held_back


def test_what_is_known_to_be_done_with_stays_known_until_it_was_read_past() -> None:
    """The next member crashes as well, before it has come to the last message of the trace."""
    done, open_, later = TRACES[:3]
    messages = [{done}, {done, open_}, {later}, {done}, {later}]
    first = Offsets()
    for offset, traces in enumerate(messages[:4]):
        first.take(PARTITION, offset, traces)
    kept = first.done(first.newest(), {open_, later})[PARTITION]
    assert (kept.offset, kept.done, kept.upto) == (1, {tail(done)}, 4)
    second = Offsets()
    second.read_on(PARTITION, Commit.read(kept.offset, kept.metadata))
    second.take(PARTITION, 1, messages[1])
    kept = second.done(second.newest(), {later})[PARTITION]
    assert (kept.offset, kept.done, kept.upto) == (2, {tail(done)}, 4)
    third = Offsets()
    third.read_on(PARTITION, Commit.read(kept.offset, kept.metadata))
    for offset in (2, 3, 4):
        third.take(PARTITION, offset, messages[offset])
    assert third.done(third.newest(), set()) == {PARTITION: Commit(5, back=5)}


def test_metadata_of_others_and_of_too_many_traces_is_survived() -> None:
    offsets = Offsets()
    others = (
        "",
        "somebody's",
        "otel-evals 1 ",
        "otel-evals 1 0 5 $$$",
        "otel-evals 1 0 x AAAA",
        "otel-evals 2 0 5 AAAA",
    )
    for metadata in others:
        offsets.read_on(PARTITION, Commit.read(1, metadata))
        assert offsets.known == frozenset()
    metadata = Commit(
        1, frozenset(f"{number:012x}" for number in range(2_000)), upto=2**63, back=2**63
    ).metadata
    assert len(metadata) <= 4_096
    offsets.read_on(PARTITION, Commit.read(1, metadata))
    assert len(offsets.known) == 500
    offsets.forget([PARTITION])
    assert offsets.known == frozenset()
