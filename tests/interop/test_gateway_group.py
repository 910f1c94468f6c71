"""Three Kafka workers of which one is killed: every run is judged, and rare strata completely."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from otel_evals.sampling import is_sampled
from tests.pipeline.test_gateway import body, recorded
from tests.support import PYTHONPATH
from tests.support.components import Kafka
from tests.support.gateways import GatewayProcess
from tests.support.kill_matrix import EAGER, STATIC
from tests.support.waits import SECONDS, eventually

kafka = pytest.importorskip("confluent_kafka")
kafka_admin = pytest.importorskip("confluent_kafka.admin")
pytestmark = [pytest.mark.interop, pytest.mark.timeout(280)]
TRACES = "spans"
LASTING = 16.0
"""Seconds of traffic."""
LIMIT = 13


def workers(folder: Path, broker: str, properties: dict[str, str]) -> Iterator[GatewayProcess]:
    """Return three workers, not started."""
    rules = [
        {"scorer": "answered", "sample": f"stratified('agent_name', {LIMIT}, 'hour')"},
        {"scorer": "tool_error_rate"},
    ]
    for number in range(3):
        own = folder / f"worker-{number}"
        own.mkdir()
        section = {
            "quiet": 1.0,
            "idle": 4.0,
            "kafka": {
                "brokers": [broker],
                "group": "group",
                "topics": {"traces": TRACES},
                "properties": {name: each.format(number=number) for name, each in properties.items()},
            },
        }
        environment = {"PYTHONPATH": PYTHONPATH, "OTEL_EVALS_TRUST_KEY": "tests"}
        yield GatewayProcess(own, rules, section, environment, metrics=False)


def questions(rng: random.Random) -> Iterator[tuple[float, str, str]]:
    """Yield when each question comes, and its agent."""
    for number in range(120):
        agent = "rare" if number % 10 == 0 else "busy"
        times = sorted(rng.uniform(0, LASTING) for _ in range(rng.randint(1, 4 if agent == "busy" else 2)))
        for turn, at in enumerate(times):
            yield at, f"c{number}.{turn}", agent


def committed(broker: str) -> bool:
    """Whether the group has committed the whole topic."""
    consumer = kafka.Consumer({"bootstrap.servers": broker, "group.id": "group"})
    try:
        places = [kafka.TopicPartition(TRACES, n) for n in range(6)]
        ends = [consumer.get_watermark_offsets(place, timeout=20)[1] for place in places]
        return [max(0, place.offset) for place in consumer.committed(places, timeout=20)] == ends
    finally:
        consumer.close()


@pytest.mark.parametrize("properties", [EAGER, STATIC], ids=["eager", "static"])
def test_runs_and_strata_hold_over_workers_that_are_killed(
    properties: dict[str, str], tmp_path: Path
) -> None:
    """One is killed and starts again, one ends and comes back: every run is judged at last."""
    asked = sorted(questions(random.Random(11)))
    with Kafka(tmp_path / "kafka") as broker, ExitStack() as ending:
        admin = kafka_admin.AdminClient({"bootstrap.servers": broker.broker})
        for made in admin.create_topics([kafka_admin.NewTopic(TRACES, 6, 1)]).values():
            made.result(30)
        members = list(workers(tmp_path, broker.broker, properties))
        ending.callback(lambda: [m.kill() for m in members if m.process and m.process.poll() is None])
        with ThreadPoolExecutor() as pool:
            list(pool.map(GatewayProcess.start, members))
        eventually(lambda: all(m.page("/stats")[1]["kafka"]["assigned"] == 2 for m in members))
        runs = write(
            broker.broker, asked, {5.0: members[0].kill, 8.0: members[0].start, 11.0: members[1].stop}
        )
        members[1].start()
        eventually(lambda: found(members, "tool_error_rate").keys() == runs.keys(), seconds=120)
        eventually(lambda: committed(broker.broker))
        losses = [member.page("/stats")[1]["losses"] for member in members]
        assert [member.stop() for member in members] == [0, 0, 0]
    assert not any(set(each) - {"spans or log records (span_repeated)"} for each in losses), losses
    strata: dict[str, dict[str, float]] = defaultdict(dict)
    for trace_id, evaluations in found(members, "answered").items():
        for each in evaluations:
            assert is_sampled(each["sampling"]["probability"], int(trace_id, 16))
            strata[runs[trace_id]][trace_id] = each["sampling"]["probability"]
    rare = [trace_id for trace_id, agent in runs.items() if agent == "rare"]
    assert strata["rare"] == dict.fromkeys(rare, 1.0)
    # Each of the three workers has the limit for itself, and two start again.
    assert LIMIT < len(strata["busy"]) < 8 * LIMIT < len(runs) / 2


def write(broker: str, asked: list[tuple[float, str, str]], events: dict[float, Any]) -> dict[str, str]:
    """Write each question's run at its time, and let events happen; return the agents by trace id."""
    producer, agents, began = kafka.Producer({"bootstrap.servers": broker}), {}, time.monotonic()
    with ThreadPoolExecutor() as pool:
        due, happened = sorted(events), []
        for at, question, agent in asked:
            while due and due[0] <= at:
                happened.append(pool.submit(events[due.pop(0)]))
            time.sleep(max(0.0, began + at - time.monotonic()))
            spans = recorded(question=question, agent=agent)
            trace_id = f"{spans[0].context.trace_id:032x}"
            agents[trace_id] = agent
            producer.produce(TRACES, body(spans), trace_id)
            producer.poll(0)
        assert producer.flush(SECONDS) == 0
        assert [each.result() or 0 for each in happened] == [0] * len(events)
    return agents


def found(members: list[GatewayProcess], scorer: str) -> dict[str, list[dict[str, Any]]]:
    """Evaluations of a scorer, by trace id."""
    by_trace: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for member in members:
        for record in member.records():
            for each in record["evaluations"]:
                if each["scorer"] == scorer:
                    by_trace[record["trace_id"]].append(each)
    return by_trace
