"""Conversations as runs, how they are gathered and bounded, and how their rules are configured."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from math import inf
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals import Config, Limits, Rule, Run, load_config, sampling
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.engine.conversations import Conversations
from otel_evals._internal.offline.batch import BatchScorer
from otel_evals._internal.read.conversation import as_conversation
from otel_evals._internal.sampling.algebra import inclusion_probability
from otel_evals.errors import ConfigError
from otel_evals.model import Availability, Document, Operation, OperationKind, SpanEvent, SpanRecord, Usage
from otel_evals.sampling import Chance
from otel_evals.scorers import scorer
from otel_evals.testing import run_evals
from tests.support.replacing import replace
from tests.support.runs import a_run, message, tool


@scorer(inline=True, version="1")
def polite(run: Run) -> bool:
    return True


@scorer(inline=True, version="1")
def brief(run: Run) -> bool:
    return True


def turn(number: int, conversation: str = "c", service: str = "shop", **fields: object) -> Run:
    """The run of one turn, a second long, ten seconds after the one before."""
    trace_id, root = f"{number + 1:032x}", f"{number + 1:016x}"
    span = SpanRecord(
        trace_id=trace_id, span_id=root, start_time=number * 10**10, attributes={"k": "v" * 100}
    )
    values = {
        "trace_id": trace_id,
        "trace_ids": (trace_id,),
        "root_span_id": root,
        "operations": (Operation(span=span, kind=OperationKind.AGENT, convention="d"),),
        "conversation_id": conversation,
        "resource": {"service.name": service},
        "start_time": number * 10**10,
        "end_time": number * 10**10 + 10**9,
    }
    return replace(a_run(f"answer {number}", f"question {number}"), **{**values, **fields})


def said(run: Run) -> list[str]:
    return [f"{m.role}: {m.text}" for m in run.history]


# --- a conversation as a run ---


def test_a_conversation_ends_with_its_last_run_and_holds_all_of_them() -> None:
    turns = [
        turn(0, tool_calls=(tool("a", 1),), usage=Usage(input_tokens=1), models=("m",), user_id="u"),
        turn(1, tool_calls=(tool("b", 2),), usage=Usage(input_tokens=2), documents=(Document(content="d"),)),
        turn(
            2,
            error="boom",
            usage=Usage(input_tokens=4),
            models=("n", "m"),
            documents=(Document(content="d"),),
        ),
    ]
    whole = as_conversation(reversed(turns))
    assert whole.turns == tuple(turns)
    assert (whole.input, whole.output, whole.error) == ("question 2", "answer 2", "boom")
    assert said(whole) == [
        "user: question 0",
        "assistant: answer 0",
        "user: question 1",
        "assistant: answer 1",
    ]
    assert (whole.trace_id, whole.root_span_id) == (turns[2].trace_id, turns[2].root_span_id)
    assert whole.trace_ids == tuple(t.trace_id for t in turns)
    assert [call.name for call in whole.tool_calls] == ["a", "b"]
    assert [operation.span_id for operation in whole.operations] == [t.root_span_id for t in turns]
    assert (whole.usage.input_tokens, whole.models, whole.user_id) == (7, ("m", "n"), "u")
    assert whole.documents == (Document(content="d"),)
    assert whole.duration == pytest.approx(21.0)
    assert whole.root is turns[2].operations[0]


def test_history_that_only_the_spans_tell_is_kept() -> None:
    """What was said before the first run, and turns that this process never saw."""
    before = (message("user", "hello"), message("assistant", "hi"))
    assert said(as_conversation([turn(0, history=before), turn(1)]))[:2] == ["user: hello", "assistant: hi"]
    assert said(as_conversation([turn(0, history=before)])) == ["user: hello", "assistant: hi"]
    unseen = tuple(message("user", f"unseen {n}") for n in range(3))
    assert said(as_conversation([turn(0), turn(1, history=unseen)])) == [
        f"user: unseen {n}" for n in range(3)
    ]
    window = (message("user", "question 0"),)
    assert len(said(as_conversation([turn(0), turn(1, history=window)]))) == 2


def test_tool_results_are_as_whole_as_in_the_worst_turn_that_has_any() -> None:
    def of(*states: Availability | None) -> Availability | None:
        turns = [
            turn(n, tool_calls=(tool("a", 1),) if state else (), availability={"tool_results": state or none})
            for n, state in enumerate(states)
        ]
        return as_conversation(turns).availability.get("tool_results")

    none = Availability.NOT_RECORDED
    assert of(Availability.PRESENT, None) is Availability.PRESENT
    assert of(Availability.TRUNCATED, Availability.PRESENT) is Availability.TRUNCATED
    assert of(Availability.PRESENT, Availability.CAPTURED_OFF, none) is Availability.CAPTURED_OFF
    assert of(None) is none


@given(st.permutations(range(6)))
def test_the_order_in_which_runs_come_changes_nothing(order: list[int]) -> None:
    turns = [turn(n) for n in range(6)]
    assert as_conversation(turns[n] for n in order) == as_conversation(turns)


# --- whether it is picked, and what its evaluations are called ---


def test_a_head_samplers_share_in_a_conversation_is_unknown() -> None:
    half = turn(1, trace_state="ot=th:8")
    assert inclusion_probability(Chance(0.5), half) == pytest.approx(0.25)
    assert inclusion_probability(Chance(0.5), as_conversation([turn(0), turn(1)])) == pytest.approx(0.5)
    assert inclusion_probability(Chance(0.5), as_conversation([turn(0), half])) is None


# --- gathering ---


class Gathered:
    """Conversations, and what they gave up."""

    def __init__(self, most: int = 100, most_bytes: int = 10**9, keep: float = 100.0, **idle: float) -> None:
        self.lost: list[tuple[str, str, str]] = []
        rules = tuple(
            Rule(scorer(id=name, version="1")(lambda run: 1.0), scope="conversation", idle=seconds)
            for name, seconds in (idle or {"a": 10.0}).items()
        )
        self.names = {rule.group: rule.scorer_id for rule in rules}
        limits = {"conversation_keep": keep, "max_conversations": most, "max_bytes": most_bytes}
        self.waiting: Counter[str] = Counter()
        ledger = Ledger([rule.name for rule in rules])
        self.all = Conversations(Config(rules=rules, limits=Limits(**limits)), ledger, self._waits)  # type: ignore[arg-type]

    def _waits(self, run: Run, begins: bool) -> None:
        self.waiting[run.trace_id] += 1 if begins else -1

    def add(self, run: Run, now: float, *, ruled_out: bool = False) -> None:
        self.all.rules_out = lambda run: ruled_out  # type: ignore[method-assign]
        for due in self.all.take(run, now):
            self.lost.append((due.run.conversation_id or "", self.names[due.group], due.lost or ""))

    def due(self, now: float, limit: int = 100) -> list[tuple[str, int, str, int]]:
        """Conversation, number of runs, which rules, revision."""
        found = []
        for due in self.all.due(now, limit * len(self.names)):
            of, group = due.conversation, due.group
            id = due.run.conversation_id or ""
            found.append((id, len(of.runs), self.names[group], of.revisions[group]))
        return found


def test_all_conversations_can_be_forgotten() -> None:
    gathered = Gathered()
    for number, name in enumerate("ab"):
        gathered.add(turn(number, name), 0.0)
    assert gathered.all.waiting == 2
    gathered.all.forget()
    assert (len(gathered.all._all), gathered.all._bytes) == (0, 0)
    assert not any(gathered.waiting.values())


def test_a_run_waits_until_all_rules_were_asked_about_it() -> None:
    gathered = Gathered(short=1.0, long=5.0)
    gathered.add(turn(0), 0.0)
    gathered.due(1.0)
    assert gathered.waiting[turn(0).trace_id] == 1
    gathered.due(5.0)
    gathered.add(turn(1), 6.0)
    assert [gathered.waiting[turn(n).trace_id] for n in (0, 1)] == [0, 1]
    gathered.due(inf)
    assert [gathered.waiting[turn(n).trace_id] for n in (0, 1)] == [0, 0]


def test_each_unit_of_rules_has_its_own_patience() -> None:
    gathered = Gathered(short=1.0, long=5.0)
    gathered.add(turn(0), 0.0)
    assert gathered.due(1.0) == [("c", 1, "short", 1)]
    gathered.add(turn(1), 2.0)
    assert gathered.due(6.0) == [("c", 2, "short", 2)]
    assert gathered.due(7.0) == [("c", 2, "long", 1)]


def test_no_more_are_due_than_can_be_taken() -> None:
    gathered = Gathered()
    for number in range(5):
        gathered.add(turn(number, f"c{number}"), float(number))
    assert [each[0] for each in gathered.due(50.0, limit=2)] == ["c0", "c1"]
    assert gathered.due(50.0, limit=0) == []
    assert [each[0] for each in gathered.due(50.0)] == ["c2", "c3", "c4"]


def test_a_forgotten_conversation_goes_on_with_the_next_revision() -> None:
    gathered = Gathered(keep=20.0)
    gathered.add(turn(0), 0.0)
    assert gathered.due(10.0) == [("c", 1, "a", 1)]
    assert gathered.due(20.0) == []
    assert len(gathered.all._all) == 0
    gathered.add(turn(1), 30.0)
    assert gathered.due(40.0) == [("c", 1, "a", 2)]


def test_bytes_are_bounded_and_come_back() -> None:
    gathered = Gathered(most_bytes=8_000)
    for number in range(4):
        gathered.add(turn(number, f"c{number}"), float(number))
    assert gathered.lost == [
        ("c0", "a", "too_many_conversation_bytes"),
        ("c1", "a", "too_many_conversation_bytes"),
    ]
    gathered.add(turn(9, "huge", input_messages=(), operations=turn(9).operations * 9), 9.0)
    assert [lost[0] for lost in gathered.lost[2:]] == ["c2", "c3", "huge"]
    assert (len(gathered.all._all), gathered.all._bytes) == (0, 0)


def test_of_a_conversation_that_is_ruled_out_next_to_nothing_is_kept() -> None:
    gathered = Gathered(most_bytes=2_000)
    for number in range(50):
        gathered.add(turn(number), float(number), ruled_out=True)
    (conversation,) = gathered.all._all.values()
    assert gathered.lost == []
    assert [run.operations for run in conversation.runs.values()] == [()]
    assert conversation.size == gathered.all._bytes == 501
    assert gathered.due(99.0) == [("c", 1, "a", 1)]


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(3_000, 60_000))
def test_every_conversation_is_due_or_lost_each_time_it_goes_on(
    seed: int, most: int, most_bytes: int
) -> None:
    """Random runs, gaps and bounds: whoever went on is handed over or lost exactly once, and bounds hold."""
    draw = random.Random(seed)
    gathered = Gathered(most, most_bytes, keep=30.0, x=5.0, y=12.0)
    open_for: dict[str, set[str]] = {}
    ends: Counter[str] = Counter()
    now = 0.0
    for number in range(60):
        now += draw.choice((0.0, 1.0, 6.0, 40.0))
        name = f"c{draw.randrange(8)}"
        gathered.add(turn(number, name), now)
        open_for[name] = {"x", "y"}
        handed = [(who, unit) for who, _, unit, _ in gathered.due(now, draw.choice((1, 100)))]
        for who, unit in [*handed, *((who, unit) for who, unit, _ in gathered.lost)]:
            assert unit in open_for[who]
            open_for[who].remove(unit)
            ends[unit] += 1
        gathered.lost.clear()
        assert len(gathered.all._all) <= most
        assert gathered.all._bytes <= most_bytes
    for who, _, unit, _ in gathered.due(float("inf")):
        open_for[who].remove(unit)
    assert not any(open_for.values())
    assert gathered.all.waiting == 0


# --- configuration ---


def test_rules_of_a_conversation_are_configured_in_code_and_in_yaml(tmp_path: Path) -> None:
    path = tmp_path / "evals.yaml"
    path.write_text(
        "rules:\n  - {scorer: answered, scope: conversation, idle: 60}\nlimits: {max_conversations: 7}\n"
    )
    config = load_config(path)
    assert (config.rules[0].scope, config.rules[0].idle, config.limits.max_conversations) == (
        "conversation",
        60.0,
        7,
    )
    assert Rule(polite, scope="conversation").idle == 300.0
    assert [rule.name for rule in config.rules] == ["answered@conversation"]


def test_idle_goes_with_conversations_only() -> None:
    with pytest.raises(ConfigError, match=r"idle: only applies to scope='conversation', not 'run'"):
        Rule(polite, idle=60)
    with pytest.raises(ConfigError, match="idle"):
        Rule(polite, scope="conversation", idle=0)


def test_cascades_need_the_same_idle() -> None:
    after = Rule(brief, scope="conversation", sample=sampling.below("polite", 0.5), idle=60)
    Config(rules=(after, Rule(polite, scope="conversation", idle=60)))
    with pytest.raises(ConfigError, match="no rule of scope 'conversation, idle 60 s' scores"):
        Config(rules=(after, Rule(polite, scope="conversation")))


def test_a_data_set_has_no_conversations() -> None:
    with pytest.raises(ConfigError, match=r"scorers\[0\].scope: items are single runs"):
        run_evals([{"input": "x"}], lambda _: "y", [Rule(polite, scope="conversation")])


def test_what_cannot_be_taken_in_costs_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """Log bodies of somebody's own making, and a state that nobody knows: counted, and logged."""

    class Hostile:
        def __str__(self) -> str:
            raise RuntimeError("no")

    span = replace(turn(0).operations[0].span, logs=(SpanEvent(name="x", body=Hostile()),))
    hostile = turn(0, operations=(Operation(span=span, kind=OperationKind.AGENT, convention="d"),))
    unknown = turn(1, "d", tool_calls=(tool("a", 1),), availability={"tool_results": "perhaps"})
    with closing(BatchScorer(Config(rules=(Rule(polite, scope="conversation"), Rule(brief))))) as bench:
        for run in (hostile, unknown, turn(2, "e")):
            assert [e.status for e in bench.score(run).result()] == ["scored"]
        assert [e.conversation_id for e in bench.end_conversations()] == ["c", "e"]
        stats = bench.stats()
    assert stats.check() == []
    assert stats.rules["polite@conversation"].not_sampled == {"unreadable": 1}
    assert caplog.text.count("a conversation could not be judged") == 1


def test_any_trace_may_belong_to_a_conversation_that_is_picked() -> None:
    ratio = sampling.ratio(0.1)
    assert Config(rules=(Rule(polite, sample=ratio),)).ceiling == pytest.approx(0.1)
    assert Config(rules=(Rule(polite, sample=ratio, scope="conversation"),)).ceiling == 1.0
    assert Config(rules=(Rule(polite, sample=sampling.never(), scope="conversation"),)).ceiling == 0.0
    assert not Config(rules=(Rule(polite, scope="conversation"),)).holds
