"""Recursion: what a scorer causes, here or in another service, is never scored itself."""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from opentelemetry.propagate import get_global_textmap, set_global_textmap
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from otel_evals import Rule, Run
from otel_evals._internal.trust.marks import ECHOES, is_marked
from otel_evals.judges import JudgeRequest, LiteLLMJudge, OpenAICompatibleJudge
from otel_evals.scorers import classifier, scorer
from tests.support import PYTHONPATH
from tests.support.gateways import GatewayThread
from tests.support.servers import free_ports
from tests.support.stub_openai import Raw, StubOpenAI
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


# --- a proxy of one's own that records the judge's calls ---

EVERYTHING = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])


class RecordingProxy(StubOpenAI):
    """A model's server that records each of its requests as a model call, as LLM proxies do."""

    def __init__(self, *, reads: Sequence[str], content: bool, late: float = 0.0) -> None:
        super().__init__(self.act)
        self.tracer: Any = None
        self._reads, self._content, self._late = reads, content, late

    def act(self, body: dict[str, Any]) -> Raw:
        number = len(self.requests)
        carrier = {name: value for name, value in self.headers[-1].items() if name in self._reads}
        reply = json.dumps({"label": "good", "reason": f"number {number}"})
        attributes: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": body["model"],
            "gen_ai.usage.input_tokens": 100 + number,
            "gen_ai.usage.output_tokens": 10 + number % 3,
        }
        if self._content:
            said = [
                {"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]}
                for m in body["messages"]
            ]
            answer = [{"role": "assistant", "parts": [{"type": "text", "content": reply}]}]
            attributes |= {
                "gen_ai.input.messages": json.dumps(said),
                "gen_ai.output.messages": json.dumps(answer),
            }
        context = EVERYTHING.extract(carrier, Context())
        self.tracer.start_span("chat stub", context, SpanKind.SERVER, attributes).end()
        time.sleep(self._late)
        usage = {"prompt_tokens": 100 + number, "completion_tokens": 10 + number % 3}
        return Raw(reply, whole={"usage": usage})


JUDGES: dict[str, Callable[..., Any]] = {
    "litellm": partial(LiteLLMJudge, "openai/stub"),
    "openai-compatible": partial(OpenAICompatibleJudge, "stub"),
}
KEEPS = {
    "baggage": (["baggage"], False),
    "tracestate": (["traceparent", "tracestate"], False),
    "the question": ([], True),
}
"""Headers that a proxy passes on, and whether it records content."""


def judged_by(proxy: StubOpenAI, make: Callable[..., Any]) -> Any:
    judge = make(api_base=proxy.url)
    return classifier(judge, question="How is the answer?", classes={"good": 1.0, "bad": 0.0})


def settled(proxy: StubOpenAI) -> int:
    """The number of requests once no more come."""
    seen = -1
    while seen != len(proxy.requests):
        seen = len(proxy.requests)
        time.sleep(0.5)
    return seen


@pytest.mark.parametrize("make", JUDGES.values(), ids=JUDGES)
@pytest.mark.parametrize(("reads", "content"), KEEPS.values(), ids=KEEPS)
def test_calls_that_a_proxy_records_are_not_judged(
    make: Callable[..., Any], reads: Sequence[str], content: bool
) -> None:
    with (
        RecordingProxy(reads=reads, content=content) as proxy,
        Live(Rule(judged_by(proxy, make), timeout=60)) as live,
    ):
        proxy.tracer = live.tracer
        live.run()
        assert live.flush()
        assert settled(proxy) == 1
        assert live.flush()
    (rule,) = live.pipeline.stats().rules.values()
    assert rule.scored == 1
    assert rule.not_sampled == ({"judge_question": 1} if content else {})


@pytest.mark.parametrize(("reads", "content"), list(KEEPS.values())[1:], ids=list(KEEPS)[1:])
def test_a_gateway_that_taps_the_proxy_does_not_judge_its_calls(reads: Sequence[str], content: bool) -> None:
    """The proxy exports its spans to the gateway whose judge asks it; baggage is on no span."""
    with RecordingProxy(reads=reads, content=content) as proxy:
        rule = Rule(judged_by(proxy, JUDGES["openai-compatible"]), timeout=60)
        with GatewayThread(rule) as gateway:
            provider = TracerProvider()
            exporter = OTLPSpanExporter(f"{gateway.endpoint}/v1/traces")
            provider.add_span_processor(SimpleSpanProcessor(exporter))
            proxy.tracer = provider.get_tracer("litellm")
            agent_run(provider.get_tracer("app"))
            assert len(gateway.evaluations(1)) == 1
            assert settled(proxy) == 1
            provider.shutdown()
        assert len(gateway.scored.evaluations) == 1


@pytest.fixture
def judges_go_on() -> Iterator[None]:
    """Let judges be asked again afterwards, as the next configuration would."""
    yield
    ECHOES.reset()


@pytest.mark.usefixtures("judges_go_on")
@pytest.mark.parametrize("late", [0.0, 0.05], ids=["at once", "after its run was seen"])
def test_a_loop_that_nothing_marks_is_noticed_and_stopped(
    caplog: pytest.LogCaptureFixture, late: float
) -> None:
    """Neither headers nor contents come through: the token counts of the judge's own calls come back."""
    with (
        RecordingProxy(reads=[], content=False, late=late) as proxy,
        Live(Rule(asks_of(proxy), attempts=1)) as live,
    ):
        proxy.tracer = live.tracer
        live.run()
        assert 30 <= settled(proxy) <= 100
        assert live.flush()
        live.run()
        assert live.flush()
        assert settled(proxy) <= 100
    warnings = [r.getMessage() for r in caplog.records if "judges are stopped" in r.getMessage()]
    assert len([w for w in warnings if w.startswith("judges")]) == 1
    (rule,) = live.pipeline.stats().rules.values()
    assert rule.failed


def asks_of(proxy: StubOpenAI) -> Any:
    """A scorer that needs no content."""
    judge = OpenAICompatibleJudge("stub", api_base=proxy.url)

    @scorer(id="asks", version="1")
    async def asks(run: Run) -> float:
        await judge.ask(JudgeRequest(instructions="", prompt="?"))
        return 1.0

    return asks


def test_traffic_that_looks_like_a_judge_s_calls_does_not_stop_it() -> None:
    """Equal counts, such as a stub's constant ones, and calls of many other counts."""
    with StubOpenAI("fine", usage=(50, 5)) as stub, Live(Rule(asks_of(stub))) as live:
        for number in range(100):
            attributes = {
                "gen_ai.operation.name": "chat",
                "gen_ai.usage.input_tokens": 50 if number % 2 else 50 + number,
                "gen_ai.usage.output_tokens": 5,
            }
            live.tracer.start_span("chat m", Context(), SpanKind.CLIENT, attributes).end()
        assert live.flush()
    (rule,) = live.pipeline.stats().rules.values()
    assert rule.scored == 100


def test_a_judge_of_one_s_own_is_told_not_to_score_and_a_provider_is_not() -> None:
    """No instrumentation here, or a scoring process in which nothing is traced: the judge says it itself."""
    with StubOpenAI("fine") as stub:
        for make in JUDGES.values():
            judge = make(api_base=stub.url, options={"extra_headers": {"x-team": "a"}})
            asyncio.run(judge.ask(JudgeRequest(instructions="", prompt="?")))
    for headers in stub.headers:
        context = EVERYTHING.extract(headers)
        assert is_marked(W3CBaggagePropagator().extract(headers, Context()))
        assert is_marked(Context(), trace.get_current_span(context).get_span_context())
        assert headers["x-team"] == "a"


def in_own_pool(work: Callable[[], object]) -> None:
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(context.run, work).result()


async def in_the_loops_executor(work: Callable[[], object]) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work)


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
    [in_own_pool, in_the_loops_executor, below_its_own_span_only],
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
