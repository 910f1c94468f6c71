"""What can be asked of an engine in a process of its own, and what it answers after its death."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import IdGenerator, TracerProvider
from opentelemetry.trace import set_span_in_context

from otel_evals import Explanation, NotScored, Pipeline, Rule, Run, sampling, scorer
from otel_evals._internal.config.loader import build_config
from otel_evals.errors import DestinationError
from tests.support.replacing import replace
from tests.support.traffic import agent_run

SUPPORT = str(Path(__file__).parents[1] / "support")


class Repeatable(IdGenerator):
    """The same trace ids in the same order, every time, whatever spans other threads start meanwhile."""

    def __init__(self) -> None:
        self._traces, self._spans = random.Random(7), random.Random(8)

    def generate_span_id(self) -> int:
        return self._spans.getrandbits(64)

    def generate_trace_id(self) -> int:
        return self._traces.getrandbits(128)


@scorer(version="1")
def moody(run: Run) -> float | NotScored:
    """Does what the question asks for."""
    match run.input:
        case "raise":
            raise KeyError("no such order")
        case "decline":
            return NotScored(reason="no_claims")
    return 1.0


class Refusing:
    """A destination that is down."""

    name = "refusing"

    async def export(self, batch: Any) -> None:
        raise DestinationError("503", retryable=True)

    async def shutdown(self) -> None:
        """Nothing is held."""


class Application:
    """A provider and a pipeline of either kind; use as a context manager."""

    def __init__(self, isolation: str, *rules: Any, **options: Any) -> None:
        destinations = options.pop("destinations", [])
        config = build_config(rules, destinations, isolation=isolation, **{"grace": 0.02, **options})
        self.provider = TracerProvider(id_generator=Repeatable())
        self.pipeline: Any = Pipeline(config, tracer_provider=self.provider)
        self.provider.add_span_processor(self.pipeline.spans)
        self.tracer = self.provider.get_tracer("tests.app")

    def run(self, **options: Any) -> int:
        return agent_run(self.tracer, **options)

    def flush(self) -> bool:
        return bool(self.pipeline.force_flush(20_000))

    def __enter__(self) -> Application:
        return self

    def __exit__(self, *_: object) -> None:
        self.provider.shutdown()


def until(condition: Any, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def mixed(app: Application) -> list[int]:
    """Traces that come to every end there is."""
    traces = [
        app.run(question=question, agent=agent)
        for question in ("fine", "raise", "decline")
        for agent in ("support", "vip")
        for _ in range(4)
    ]
    for attributes in ({"gen_ai.operation.name": "plan_the_day"}, {}):
        with app.tracer.start_as_current_span("work", attributes=attributes) as span:
            traces.append(span.get_span_context().trace_id)
    root = app.tracer.start_span("invoke_agent open", attributes={"gen_ai.operation.name": "invoke_agent"})
    chat, below = {"gen_ai.operation.name": "chat"}, set_span_in_context(root)
    app.tracer.start_span("chat", below, attributes=chat).end()
    traces.append(app.run(during=lambda inner: agent_run(app.tracer, agent="inner")))
    return [*traces, root.get_span_context().trace_id, 1]


def told(isolation: str, folder: Path) -> tuple[list[Explanation], dict[str, Any]]:
    """What is said of the same traffic, without the times; the answers and the counters."""
    rules = (
        Rule(moody, when=lambda run: run.agent_name != "vip"),
        Rule(scorer(id="half", version="1", inline=True)(lambda run: 0.5), sample=sampling.ratio(0.5)),
    )
    with Application(isolation, *rules, destinations=[{"jsonl": {"path": folder / isolation}}]) as app:
        traces = mixed(app)
        assert app.flush()
        answers = [app.pipeline.explain(trace) for trace in traces]
        stats = app.pipeline.stats()
    assert stats.check() == []
    timeless = [replace(a, decisions=tuple(replace(d, duration=0.0) for d in a.decisions)) for a in answers]
    return timeless, {
        "rules": stats.rules,
        "ignored": stats.ignored,
        "seen": stats.seen,
        "lost": stats.losses,
    }


def test_an_engine_in_a_process_explains_as_one_on_a_thread(tmp_path: Path) -> None:
    """The same traces, the same answers, word for word, and the same counters."""
    here, there = told("thread", tmp_path), told("process", tmp_path)
    assert there[1] == here[1]
    assert [str(answer) for answer in there[0]] == [str(answer) for answer in here[0]]
    assert there[0] == here[0]
    verdicts = Counter(answer.status for answer in there[0])
    assert set(verdicts) >= {
        "scored",
        "failed",
        "not_scored",
        "not_sampled",
        "ignored",
        "waiting_for_root",
        "unknown",
    }


def test_a_trace_that_lost_needs_no_process() -> None:
    """Its answer is worked out from the trace id, and nothing was started for it."""
    with Application("process", Rule(moody, sample=sampling.ratio(1e-9))) as app:
        answer = app.pipeline.explain(app.run())
        assert answer.status == "ruled_out"
        assert app.pipeline.engine.pid is None


def test_the_first_question_waits_for_the_process_to_start() -> None:
    """It is about a run that was captured before there was a process."""
    with Application("process", moody) as app:
        assert app.pipeline.explain(1).notes[-1] == "Nothing was captured yet."
        trace = app.run()
        until(lambda: app.pipeline.explain(trace).status == "scored")
        assert app.pipeline.explain(trace).spans == 3
        assert app.pipeline.health().ok


def test_a_blocked_engine_is_told_while_it_is_blocked(tmp_path: Path) -> None:
    """A scorer holds the engine's own thread: health says so, explain still answers, both in time."""
    gate = tmp_path / "closed"
    gate.touch()

    @scorer(id="blocks", inline=True, version="1")
    def blocks(run: Run) -> float:
        while gate.exists():
            time.sleep(0.01)
        return 1.0

    with Application("process", blocks, grace=0.0) as app:
        trace = app.run()
        until(lambda: app.pipeline.health(stalled_after=0.3).status == "stalled")
        asked = time.monotonic()
        sick = app.pipeline.health(stalled_after=0.3)
        assert time.monotonic() - asked < 1
        assert (sick.ok, sick.thread_alive) == (False, True)
        assert "has been blocked for" in (sick.problem or "")
        assert app.pipeline.explain(trace).status in ("pending", "waiting_for_root")
        gate.unlink()
        assert app.flush()
        well = app.pipeline.health()
        assert (well.status, well.problem, well.waiting, well.pending) == ("idle", None, 0, 0)
        assert well.last_end is not None
        assert app.pipeline.explain(trace).status == "scored"


@pytest.mark.slow
def test_destinations_that_refuse_are_named() -> None:
    with Application("process", moody, destinations=[Refusing()], shutdown_timeout=1.0) as app:
        trace = app.run()
        until(lambda: app.pipeline.health().failing_destinations == ("refusing",))
        assert not app.pipeline.health().ok
        assert app.pipeline.explain(trace).status == "scored"
        app.pipeline.shutdown()
        assert app.pipeline.health().losses == {"scored runs for refusing (shutdown)": 1}
        assert app.pipeline.health().status == "idle"
        assert app.pipeline.explain(trace).notes[-1].startswith("Scoring was shut down")


@pytest.mark.slow
def test_after_a_death_explain_says_what_went_with_it() -> None:
    """Of an earlier trace nothing is known any more; of a later one all is."""
    with Application("process", moody) as app:
        earlier = app.run()
        assert app.flush()
        assert app.pipeline.explain(earlier).status == "scored"
        pid = app.pipeline.engine.pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: app.pipeline.engine.deaths == 1)
        later = app.run()
        assert app.flush()
        assert app.pipeline.explain(later).status == "scored"
        lost = app.pipeline.explain(earlier)
        assert lost.status == "unknown"
        assert lost.notes[-1].startswith("The engine's process has died 1 time(s)")
        assert app.pipeline.stats().rules["moody"].scored == 2


FRONT_DOOR = """
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import Rule, scorer
from traffic import agent_run

@scorer(version="1")
def answered(run) -> bool:
    return bool(run.output)

provider = TracerProvider()
otel_evals.configure(rules=[answered], tracer_provider=provider, isolation="process")
trace = agent_run(provider.get_tracer("app"))
assert otel_evals.force_flush()
assert otel_evals.explain(trace).status == "scored", otel_evals.explain(trace)
assert otel_evals.explain(f"{trace:032x}").deliveries == ()
assert otel_evals.health().ok and otel_evals.health().thread_alive
assert otel_evals.stats().rules["answered"].scored == 1
assert otel_evals.stats().check() == []
otel_evals.shutdown()
print("all told")
"""


def test_the_front_door_asks_the_other_process() -> None:
    """`otel_evals.explain`, `health` and `stats`."""
    environment = {**os.environ, "PYTHONPATH": SUPPORT}
    done = subprocess.run(
        [sys.executable, "-c", FRONT_DOOR], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "all told\n", done.stderr
    assert done.stderr == ""
