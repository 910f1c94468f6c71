"""Members of a group pass runs on by conversation: one of them scores it whole, whoever read its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from otel_evals import Rule, Run, Score, sampling, scorer
from otel_evals.scorers import answered
from tests.pipeline.test_gateway import body, recorded
from tests.support.gateways import GatewayThread
from tests.support.waits import eventually
from tests.unit.gateway.test_source import TOPIC, brokers, produce, section

__all__ = ["brokers"]
kafka = pytest.importorskip("confluent_kafka")
CONVERSATIONS = "otel_evals_conversations"


@scorer(id="turns", version="1", inline=True)
def turns(run: Run) -> Score:
    return Score(value=len(run.turns) / 10, explanation=" ".join(t.input or "" for t in run.turns))


def turn(conversation: str, text: str) -> tuple[str, bytes]:
    """A message with a run, keyed by its trace id."""
    spans = recorded(
        question=text, during=lambda span: span.set_attribute("gen_ai.conversation.id", conversation)
    )
    return f"{spans[0].context.trace_id:032x}", body(spans)


def member(brokers: str, idle: float = 0.5, properties: dict[str, str] | None = None, **rule: Any) -> Any:
    for topic in (TOPIC, CONVERSATIONS):  # creates it; consumers look for new topics every few minutes
        kafka.Producer({"bootstrap.servers": brokers}).list_topics(topic, 20)
    gateway = section(brokers)
    gateway["kafka"]["topics"] = {"conversations": CONVERSATIONS}
    gateway["kafka"]["properties"] |= properties or {}
    return GatewayThread(
        Rule(answered()), Rule(turns, scope="conversation", idle=idle, **rule), gateway=gateway
    )


def judged(*members: Any) -> list[tuple[str, int, str]]:
    """Conversation, revision and texts of the turns of each evaluation, in order."""
    return sorted(
        (e.conversation_id, e.revision, e.outcome.explanation)
        for each in members
        for e in each.scored.evaluations
        if e.scorer_id == "turns"
    )


def all_committed(brokers: str, topics: Iterable[str] = (TOPIC, CONVERSATIONS)) -> bool:
    consumer = kafka.Consumer({"bootstrap.servers": brokers, "group.id": "otel-evals"})
    places = [kafka.TopicPartition(topic, n) for topic in topics for n in range(4)]
    ends = [consumer.get_watermark_offsets(place, timeout=20)[1] for place in places]
    offsets = [max(0, place.offset) for place in consumer.committed(places, timeout=20)]
    consumer.close()
    return offsets == ends


@pytest.mark.slow
def test_runs_that_several_members_read_are_judged_as_one_conversation(brokers: str) -> None:
    ids = [f"c{number}" for number in range(12)]
    with member(brokers, idle=3.0) as first, member(brokers, idle=3.0) as second:
        produce(brokers, [turn("warm-up", "x")])
        members = first, second
        eventually(lambda: all(m.service._kafka.stats()["assigned"] == 4 for m in members))
        for text in ("one", "two", "three"):
            produce(brokers, [turn(each, text) for each in ids])
        eventually(lambda: {c for c, _, texts in judged(*members) if texts == "one two three"} >= set(ids))
        eventually(lambda: all_committed(brokers))
        runs = [Counter(e.scorer_id for e in m.scored.evaluations) for m in members]
    assert all(each["answered"] and each["turns"] for each in runs), "both have read, and judged"
    assert sum(each["answered"] for each in runs) == 37
    assert not first.service.scoring.engine.losses()


@pytest.mark.slow
def test_the_next_member_goes_on_with_the_conversations_of_one_that_ended(brokers: str) -> None:
    """A judged one is judged again only if it continues, and then whole; a waiting one by the next member."""
    with member(brokers) as first:
        produce(brokers, [turn("judged", "one"), turn("continues", "one")])
        eventually(lambda: len(judged(first)) == 2)
        eventually(lambda: all_committed(brokers))
    with member(brokers, idle=600.0) as waiting:
        produce(brokers, [turn("waits", "one")])
        eventually(lambda: waiting.service.scoring.engine.conversations.waiting == 1)
        eventually(lambda: all_committed(brokers, [TOPIC]))
    assert judged(waiting) == []
    assert not waiting.service.scoring.engine.losses()
    with member(brokers, idle=1.5) as last:
        produce(brokers, [turn("continues", "two")])
        eventually(lambda: len(judged(last)) == 2)
        eventually(lambda: all_committed(brokers))
    assert judged(last) == [("continues", 2, "one two"), ("waits", 1, "one")]


@pytest.mark.slow
def test_conversations_that_no_rule_can_sample_are_counted_once_and_passed_on_as_ids(brokers: str) -> None:
    with member(brokers, sample=sampling.ratio(0.3)) as gateway:
        produce(brokers, [turn(f"c{n}", text) for text in ("one", "two") for n in range(20)])
        counts = lambda: gateway.service.scoring.engine.stats().rules["turns@conversation"]  # noqa: E731
        newest = lambda: {c: texts for c, _, texts in judged(gateway)}  # noqa: E731
        # One may be idle between its turns, and is decided on again.
        eventually(lambda: counts().eligible >= 20 and set(newest().values()) == {"one two"})
        eventually(lambda: all_committed(brokers))
        sampled = len(newest())
        assert 0 < sampled < 20
        decided = counts()
        assert decided.not_sampled == {"sampled_out": decided.eligible - len(judged(gateway))}
    sizes = Counter(len(m.value()) < 300 for m in consumed(brokers, 40))
    assert sizes[True] == 2 * (20 - sampled)


def consumed(brokers: str, count: int) -> list[Any]:
    consumer = kafka.Consumer(
        {"bootstrap.servers": brokers, "group.id": "reader", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([CONVERSATIONS])
    found: list[Any] = []
    eventually(lambda: (found.extend(consumer.consume(50, 0.2)), len(found) >= count)[1])
    consumer.close()
    return found


def test_a_run_that_is_too_large_for_a_message_is_counted_and_holds_nothing_back(brokers: str) -> None:
    with member(brokers, properties={"message.max.bytes": "8000"}) as gateway:
        produce(brokers, [turn("c", "x" * 9000), turn("c", "short")])
        eventually(lambda: judged(gateway))
        assert judged(gateway) == [("c", 1, "short")]
        eventually(lambda: all_committed(brokers))
        losses = gateway.service.scoring.engine.losses()
    assert losses == {"runs (too_large_to_pass_on)": 1}


@pytest.mark.slow
def test_runs_received_over_http_join_and_what_is_no_run_goes_to_the_dead_letters(brokers: str) -> None:
    with member(brokers) as gateway:
        produce(brokers, [turn("c", "one")])
        produce(brokers, [("x", b"poison"), ("y", b'{"ids":{}}')], CONVERSATIONS)
        eventually(lambda: judged(gateway) == [("c", 1, "one")])
        eventually(lambda: gateway.service._kafka.stats()["dead_letters"] == 2)
        assert gateway.post("/v1/traces", turn("c", "by HTTP")[1])[0] == 200
        eventually(lambda: judged(gateway) == [("c", 1, "one"), ("c", 2, "one by HTTP")])
        eventually(lambda: all_committed(brokers))
