"""Recursion: what a scorer causes, here or in another service, is never scored itself."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.propagate import get_global_textmap, set_global_textmap
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from otel_evals import Rule, Run
from otel_evals._internal.recursion import is_marked
from otel_evals.judges import JudgeRequest, LiteLLMJudge
from otel_evals.scorers import scorer
from tests.support import PYTHONPATH
from tests.support.servers import free_ports
from tests.support.stub_openai import StubOpenAI
from tests.support.traffic import Live, agent_run
from tests.support.waits import SECONDS


@pytest.fixture(scope="module")
def other_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of another service of ours, in a process of its own: each request is an agent run."""
    folder, port = tmp_path_factory.mktemp("judge"), free_ports(1)[0]
    command = f"uvicorn tests.support.service_judge:app --host 127.0.0.1 --port {port} --log-level warning"
    environment = {
        **os.environ,
        "PYTHONPATH": PYTHONPATH,
        "SERVICE_FOLDER": str(folder),
        "SERVICE_SECONDS": "0",
    }
    process = subprocess.Popen([sys.executable, "-m", *command.split()], env=environment, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{address}/seen", timeout=5).close()
            break
        except urllib.error.URLError:
            time.sleep(0.1)
    yield address
    process.terminate()
    process.wait(SECONDS)


def seen(service: str) -> int:
    """How many runs the other service has taken in."""
    with urllib.request.urlopen(f"{service}/seen", timeout=10) as answer:
        return int(answer.read())


def call(service: str) -> None:
    with httpx.Client(trust_env=False, timeout=10) as client:
        client.get(service).raise_for_status()


PROPAGATORS = {
    "trace context and baggage": [TraceContextTextMapPropagator(), W3CBaggagePropagator()],
    "trace context only": [TraceContextTextMapPropagator()],
    "baggage only": [W3CBaggagePropagator()],
}


@pytest.fixture(params=PROPAGATORS.values(), ids=PROPAGATORS)
def propagated(request: pytest.FixtureRequest) -> Iterator[None]:
    """What this process tells other services."""
    before = get_global_textmap()
    set_global_textmap(CompositePropagator(request.param))
    yield
    set_global_textmap(before)


@pytest.mark.usefixtures("propagated")
@pytest.mark.parametrize("evaluation_spans", [True, False], ids=["with spans", "without"])
def test_a_judge_in_another_service_of_ours_is_not_scored_there(
    other_service: str, evaluation_spans: bool
) -> None:
    """Over real HTTP with an instrumented client and server; the agent's own call there is scored there."""

    @scorer
    def asks(run: Run) -> float:
        call(other_service)
        return 1.0

    @scorer
    async def asks_async(run: Run) -> float:
        async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
            (await client.get(other_service)).raise_for_status()
        return 1.0

    before = seen(other_service)
    with Live(Rule(asks), Rule(asks_async), evaluation_spans=evaluation_spans) as live:
        HTTPXClientInstrumentor().instrument(tracer_provider=live.provider)
        try:
            live.run(during=lambda _: call(other_service))
            assert live.flush()
        finally:
            HTTPXClientInstrumentor().uninstrument()
        stats = live.pipeline.stats()
        assert [rule.scored for rule in stats.rules.values()] == [1, 1], stats
    call(other_service)
    assert seen(other_service) == before + 2


@pytest.mark.slow
def test_an_untraced_judge_of_one_s_own_is_told_not_to_score() -> None:
    """No instrumentation here, or a scoring process in which nothing is traced: the judge says it itself."""

    async def ask(judge: LiteLLMJudge) -> None:
        await judge.ask(JudgeRequest(instructions="", prompt="?"))

    with StubOpenAI("fine") as stub:
        asyncio.run(ask(LiteLLMJudge("openai/any", api_base=stub.url)))
        own = {"extra_headers": {"x-team": "a"}}
        asyncio.run(ask(LiteLLMJudge("openai/any", api_base=stub.url, options=own)))
    for headers in stub.headers:
        carrier = {name.lower(): value for name, value in headers.items()}
        assert is_marked(W3CBaggagePropagator().extract(carrier))
    assert {name.lower(): value for name, value in stub.headers[1].items()}["x-team"] == "a"


def in_own_pool(work: Callable[[], object]) -> None:
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(context.run, work).result()


async def in_a_task(work: Callable[[], object]) -> None:
    async def task() -> None:
        work()

    await asyncio.create_task(task())


async def in_the_loops_executor(work: Callable[[], object]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)


async def in_a_callback(work: Callable[[], object]) -> None:
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: done.set_result(work()))
    await done


def in_a_loop_of_its_own(work: Callable[[], object]) -> None:
    asyncio.run(in_a_task(work))


def below_its_own_span_only(work: Callable[[], object]) -> None:
    """A thread that was given the span to continue, and nothing else of the context."""
    span = trace.get_current_span()

    def target() -> None:
        with trace.use_span(span):
            work()

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    "elsewhere",
    [
        in_own_pool,
        in_a_task,
        in_the_loops_executor,
        in_a_callback,
        in_a_loop_of_its_own,
        below_its_own_span_only,
    ],
    ids=lambda function: function.__name__,
)
def test_the_mark_survives_wherever_a_scorer_goes(elsewhere: Callable[[Callable[[], object]], Any]) -> None:
    """Agents that scorers run in threads, tasks, executors and callbacks are not scored."""

    def judge(run: Run) -> None:
        agent_run(live.tracer, agent="judge")

    async def asks(run: Run) -> float:
        await elsewhere(lambda: judge(run))
        return 1.0

    def asks_in_thread(run: Run) -> float:
        elsewhere(lambda: judge(run))
        return 1.0

    function: Any = asks if asyncio.iscoroutinefunction(elsewhere) else asks_in_thread
    with Live(Rule(scorer(id="asks", version="1")(function))) as live:
        live.run()
        assert live.flush()
        assert live.flush()
        live.provider.force_flush()
        assert live.pipeline.stats().seen == 1
        assert live.span("invoke_agent judge").attributes["otel_evals.internal"] is True
