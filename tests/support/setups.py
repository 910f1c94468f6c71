"""Applications in the set-ups of docs/compatibility.md, each with a few runs of one agent.

`python -m tests.support.setups NAME ORDER` sets up a library and otel-evals (`after` or `before` it, or
`without`), then asks the agent CALLS times. Spans go where OTEL_EXPORTER_OTLP_ENDPOINT says, warnings of
otel-evals into the file WARNINGS. With LINE, the line that the table says is added.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

QUESTION, ANSWER = "Where is my order?", "It arrives on Monday."
OPTIONS: dict[str, Any] = {"rules": ["answered"], "grace": 0.05, "no_traffic_after": 900}
LINE = os.environ.get("LINE", "")
HERE = "tests.support.setups"


def exporting(provider: Any = None) -> Any:
    """Let a provider export by OTLP; by default a new one, which becomes the global one."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

    if provider is None:
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    # Without otel-evals at once: some servers end before a batch leaves.
    processor = SimpleSpanProcessor if os.environ["ORDER"] == "without" else BatchSpanProcessor
    provider.add_span_processor(processor(OTLPSpanExporter()))
    return provider


def support_agent(**instrumented: Any) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.test import TestModel

    Agent.instrument_all(InstrumentationSettings(**instrumented))
    return Agent(TestModel(custom_output_text=ANSWER), name="support")


def ask_pydantic_ai(**instrumented: Any) -> None:
    assert support_agent(**instrumented).run_sync(QUESTION).output == ANSWER


class Strands:
    def set_up(self) -> None:
        from strands.telemetry import StrandsTelemetry

        StrandsTelemetry().setup_otlp_exporter()

    def ask(self) -> None:
        from strands import Agent
        from strands.models import Model

        class Fixed(Model):
            def update_config(self, **config: Any) -> None: ...
            def get_config(self) -> Any:
                return {"model_id": "stub"}

            def structured_output(self, *args: Any, **options: Any) -> Any: ...

            async def stream(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
                yield {"messageStart": {"role": "assistant"}}
                yield {"contentBlockDelta": {"delta": {"text": ANSWER}}}
                yield {"contentBlockStop": {}}
                yield {"messageStop": {"stopReason": "end_turn"}}

        Agent(Fixed(), name="support", callback_handler=None)(QUESTION)


class Adk:
    def set_up(self) -> None:
        exporting()

    def ask(self) -> None:
        from google.adk.agents import LlmAgent
        from google.adk.models import BaseLlm, LlmResponse
        from google.adk.runners import InMemoryRunner
        from google.genai import types

        class Fixed(BaseLlm):
            async def generate_content_async(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
                content = types.Content(role="model", parts=[types.Part(text=ANSWER)])
                yield LlmResponse(content=content, turn_complete=True)

        async def run() -> None:
            runner = InMemoryRunner(LlmAgent(name="support", model=Fixed(model="stub")), app_name="app")
            await runner.run_debug(QUESTION, quiet=True)

        asyncio.run(run())


class CrewAI:
    def set_up(self) -> None:
        os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
        from openinference.instrumentation.crewai import CrewAIInstrumentor

        CrewAIInstrumentor().instrument(tracer_provider=exporting())

    def ask(self) -> None:
        from crewai import Agent, Crew, Task
        from crewai.llms.base_llm import BaseLLM

        class Fixed(BaseLLM):
            def call(self, *args: Any, **options: Any) -> str:
                return f"Thought: I know.\nFinal Answer: {ANSWER}"

        agent = Agent(role="support", goal="answer", backstory="-", llm=Fixed(model="stub"))
        task = Task(description=QUESTION, expected_output="a day", agent=agent)
        Crew(agents=[agent], tasks=[task]).kickoff()


class Haystack:
    def set_up(self) -> None:
        from openinference.instrumentation.haystack import HaystackInstrumentor

        HaystackInstrumentor().instrument(tracer_provider=exporting())

    def ask(self) -> None:
        from haystack import Pipeline
        from haystack.components.generators.chat import OpenAIChatGenerator
        from haystack.dataclasses import ChatMessage

        pipeline = Pipeline()
        pipeline.add_component("model", OpenAIChatGenerator(model="stub"))
        pipeline.run({"model": {"messages": [ChatMessage.from_user(QUESTION)]}})


class LlamaIndex:
    def set_up(self) -> None:
        from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

        LlamaIndexInstrumentor().instrument(tracer_provider=exporting())

    def ask(self) -> None:
        from llama_index.core.llms import ChatMessage
        from llama_index.llms.openai import OpenAI

        model = OpenAI(model="gpt-4o", api_base=os.environ["OPENAI_BASE_URL"])
        model.chat([ChatMessage(role="user", content=QUESTION)])


class LangSmith:
    """LangSmith's OpenTelemetry mode creates its provider when its first run begins."""

    def set_up(self) -> None:
        endpoint = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
        os.environ |= {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_OTEL_ENABLED": "true",
            "LANGSMITH_OTEL_ONLY": "true",
            "LANGSMITH_API_KEY": "k",
            "LANGSMITH_ENDPOINT": endpoint,
        }

    def ask(self) -> None:
        from langchain_core.runnables import RunnableLambda
        from langchain_openai import ChatOpenAI

        RunnableLambda(lambda _: ChatOpenAI(model="stub").invoke(QUESTION)).invoke(QUESTION)


class AgentFramework:
    def set_up(self) -> None:
        from agent_framework.observability import configure_otel_providers

        configure_otel_providers()

    def ask(self) -> None:
        from agent_framework import Agent, BaseChatClient, ChatResponse, Message
        from agent_framework.observability import ChatTelemetryLayer

        class Fixed(ChatTelemetryLayer[Any], BaseChatClient[Any]):
            def _inner_get_response(self, **options: Any) -> Any:
                async def answer() -> Any:
                    return ChatResponse(messages=[Message(role="assistant", contents=[ANSWER])])

                return answer()

        asyncio.run(Agent(client=Fixed(), name="support").run(QUESTION))


class MLflow:
    """MLflow's own provider, which is not the global one."""

    def set_up(self) -> None:
        import mlflow
        from mlflow.tracing.provider import get_bridged_tracer_provider

        mlflow.openai.autolog()
        if LINE:
            OPTIONS["tracer_provider"] = get_bridged_tracer_provider()

    def ask(self) -> None:
        from openai import OpenAI

        OpenAI().chat.completions.create(model="stub", messages=[{"role": "user", "content": QUESTION}])


class OfOpenTelemetry:
    """A plain provider, and pydantic-ai."""

    def set_up(self) -> None:
        exporting()

    def ask(self) -> None:
        ask_pydantic_ai()


class Distribution(OfOpenTelemetry):
    """Started with `opentelemetry-instrument`, which finds the distribution."""

    def set_up(self) -> None: ...


class Honeycomb(OfOpenTelemetry):
    def set_up(self) -> None:
        from honeycomb.opentelemetry import HoneycombOptions, configure_opentelemetry

        at = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
        options = HoneycombOptions(apikey="k" * 22, endpoint=at, exporter_protocol="http/protobuf")
        configure_opentelemetry(options)


class Sentry(OfOpenTelemetry):
    """Sentry's OTLP integration adds its exporter to the global provider, or to a new one."""

    def set_up(self) -> None:
        import sentry_sdk
        from sentry_sdk.integrations.otlp import OTLPIntegration

        at = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"].replace("//", "//key@")
        sentry_sdk.init(dsn=f"{at}/1", integrations=[OTLPIntegration()], default_integrations=False)
        exporting(sys.modules["opentelemetry.trace"].get_tracer_provider())


class Ddtrace(OfOpenTelemetry):
    """ddtrace without DD_TRACE_OTEL_ENABLED leaves OpenTelemetry's spans to OpenTelemetry."""

    def set_up(self) -> None:
        os.environ |= {"DD_TRACE_ENABLED": "false", "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false"}
        import ddtrace.auto  # noqa: F401

        exporting()


class Children(OfOpenTelemetry):
    """The agent runs in processes that the program starts, and all its runs are in flight as they end."""

    options: dict[str, Any] = {"grace": 60, "hold": 90, "shutdown_timeout": 60}

    def begin(self) -> None:
        """Start the processes."""


class DjangoCelery(Children):
    """A view of Django hands each question to a prefork worker of Celery; their broker is a folder."""

    def begin(self) -> None:
        import django
        from django.conf import settings
        from django.http import HttpRequest, HttpResponse
        from django.urls import path

        Path("tasks.py").write_text(f"from {HERE} import celery_app\napp = celery_app()\n")
        command = "celery -A tasks worker --pool prefork -c 2 -l warning"
        self.worker = subprocess.Popen([sys.executable, "-m", *command.split()])
        queue = celery_queue()

        def view(request: HttpRequest) -> HttpResponse:
            queue.send_task("ask").get(timeout=60)
            return HttpResponse("done")

        urls = type(sys)("urls")
        urls.urlpatterns = [path("ask", view)]  # type: ignore[attr-defined]
        sys.modules["urls"] = urls
        settings.configure(ROOT_URLCONF="urls", ALLOWED_HOSTS=["*"], SECRET_KEY="k")
        django.setup()

    def ask(self) -> None:
        from django.test import Client

        assert Client().get("/ask").status_code == 200

    def end(self) -> None:
        self.worker.terminate()
        assert self.worker.wait(40) == 0


def celery_queue() -> Any:
    import celery

    at = Path("queue").absolute()
    at.mkdir(exist_ok=True)
    app = celery.Celery(broker="filesystem://", backend=f"file://{at}")
    folders = ("data_folder_in", "data_folder_out", "control_folder")
    app.conf.broker_transport_options = dict.fromkeys(folders, str(at))
    return app


def celery_app() -> Any:
    app = celery_queue()
    app.task(name="ask")(ask_pydantic_ai)
    start(Children(), os.environ["ORDER"])
    return app


class Gunicorn(Children):
    """A server with two workers, which answers and is then asked to end."""

    worker, application = "sync", "wsgi"

    def begin(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.at = "127.0.0.1", free.getsockname()[1]
        bound = f"127.0.0.1:{self.at[1]}"
        command = f"gunicorn -b {bound} -w 2 -k {self.worker} --graceful-timeout 90 --timeout 120".split()
        served = [sys.executable, "-m", *command, "--log-level", "error", f"{HERE}:{self.application}()"]
        self.server = subprocess.Popen(served)
        for _ in range(1200):
            with contextlib.suppress(OSError), socket.create_connection(self.at):
                return
            time.sleep(0.1)

    def ask(self) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.at[1]}", timeout=300) as answer:
            assert answer.read() == b"done"

    def end(self) -> None:
        self.server.terminate()
        assert self.server.wait(120) == 0


class GunicornUvicorn(Gunicorn):
    worker, application = "uvicorn.workers.UvicornWorker", "asgi"
    options = Children.options | {"handle_sigterm": bool(LINE)}


class GunicornGevent(Gunicorn):
    worker = "gevent"


def wsgi() -> Any:
    """The agent as a WSGI application."""
    start(Children(), os.environ["ORDER"])

    def application(environ: Any, start_response: Any) -> Iterable[bytes]:
        ask_pydantic_ai()
        start_response("200 OK", [("Content-Length", "4")])
        return [b"done"]

    return application


def asgi() -> Any:
    """The agent as an ASGI application."""
    start(GunicornUvicorn(), os.environ["ORDER"])

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise NotImplementedError  # as applications without one
        await support_agent().run(QUESTION)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    return application


class Notebook(Children):
    """Cells of a kernel, which is then shut down."""

    def begin(self) -> None:
        from jupyter_client.manager import KernelManager

        self.kernel = KernelManager(kernel_name="python3")
        self.kernel.start_kernel(env=dict(os.environ), cwd=".")
        self.cells = self.kernel.client()
        self.cells.start_channels()
        self.cells.wait_for_ready(timeout=60)
        self.run(f"from {HERE} import *; start(Children(), {os.environ['ORDER']!r})")

    def run(self, cell: str) -> None:
        reply = self.cells.execute_interactive(cell, timeout=60, output_hook=lambda _: None)
        assert reply["content"]["status"] == "ok", reply

    def ask(self) -> None:
        self.run("await support_agent().run(QUESTION)")

    def end(self) -> None:
        self.cells.stop_channels()
        self.kernel.shutdown_kernel()


class Xdist(Children):
    """The application's own tests, in two processes."""

    def begin(self) -> None:
        self.tests = [f"from {HERE} import *\nstart(Children(), {os.environ['ORDER']!r})\n"]

    def ask(self) -> None:
        self.tests.append(f"def test_{len(self.tests)}(): ask_pydantic_ai()\n")

    def end(self) -> None:
        Path("test_it.py").write_text("".join(self.tests))
        command = "pytest -q -n 2 -p no:cacheprovider --rootdir . test_it.py"
        subprocess.run([sys.executable, "-m", *command.split()], check=True)


class Wrappers(OfOpenTelemetry):
    """A processor of the application around another one, in a field of any name."""

    flushes = True

    def set_up(self) -> None:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        class Filter(SpanProcessor):
            def __init__(self, *kept: SpanProcessor) -> None:
                self._behind_the_filter = kept

            def on_end(self, span: Any) -> None:
                for each in self._behind_the_filter:
                    each.on_end(span)

            def force_flush(self, timeout_millis: int = 30_000) -> bool:
                forwarded = self._behind_the_filter if flushes else ()
                return all(each.force_flush(timeout_millis) for each in forwarded)

            def shutdown(self) -> None:
                for each in self._behind_the_filter:
                    each.shutdown()

        flushes = self.flushes
        provider = TracerProvider()
        provider.add_span_processor(Filter(BatchSpanProcessor(OTLPSpanExporter())))
        trace.set_tracer_provider(provider)


class WrappersWithoutFlush(Wrappers):
    """The same, and `force_flush` is not forwarded."""

    flushes = False


class TwoProviders:
    """One for the application's requests, another for its agents."""

    def set_up(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider

        exporting()
        self.agents = exporting(TracerProvider())
        if LINE:
            OPTIONS["tracer_provider"] = self.agents

    def ask(self) -> None:
        ask_pydantic_ai(tracer_provider=self.agents)


class Lambda(OfOpenTelemetry):
    """The process is frozen after each request, and killed: nothing happens between or at its exit."""

    options = {"grace": 60, "hold": 90}

    def __init__(self) -> None:
        os.environ["OTEL_BLRP_SCHEDULE_DELAY"] = os.environ["OTEL_BSP_SCHEDULE_DELAY"] = "3600000"

    def ask(self) -> None:
        super().ask()
        flush()

    def end(self) -> None:
        os._exit(0)


class Spawn(Children):
    """Each child of `multiprocessing` imports the program again; the line configures there too."""

    def begin(self) -> None:
        start(OfOpenTelemetry(), os.environ["ORDER"])

    def ask(self) -> None:
        import multiprocessing

        child = multiprocessing.get_context("spawn").Process(target=run_once)
        child.start()
        child.join()
        assert child.exitcode == 0


class Forks(Children):
    """Each task runs in a fork that ends by `os._exit`."""

    def begin(self) -> None:
        start(self, os.environ["ORDER"])

    def ask(self) -> None:
        child = os.fork()
        if not child:
            try:
                ask_pydantic_ai()
                if LINE:
                    flush()
            finally:
                os._exit(0)
        os.waitpid(child, 0)


class Ray(Children):
    """A task in a worker, which is then killed."""

    def begin(self) -> None:
        import ray

        start(OfOpenTelemetry(), os.environ["ORDER"])
        ray.init(num_cpus=1, include_dashboard=False, logging_level="error", log_to_driver=False)

    def ask(self) -> None:
        import ray

        ray.get(ray.remote(max_calls=1)(run_once).remote())

    def end(self) -> None:
        import ray

        ray.shutdown()


def run_once() -> None:
    """One run in a process of its own."""
    killed = "ray" in sys.modules
    start(Lambda() if killed else OfOpenTelemetry(), os.environ["ORDER"] if LINE else "without")
    ask_pydantic_ai()
    if killed:
        flush()


def flush() -> None:
    from opentelemetry import trace

    if LINE:
        import otel_evals

        otel_evals.force_flush()
    trace.get_tracer_provider().force_flush()  # type: ignore[attr-defined]


SETUPS: dict[str, Callable[[], Any]] = {
    "strands": Strands,
    "adk": Adk,
    "crewai": CrewAI,
    "haystack": Haystack,
    "llamaindex": LlamaIndex,
    "langsmith": LangSmith,
    "agent_framework": AgentFramework,
    "elastic": Distribution,
    "splunk": Distribution,
    "honeycomb": Honeycomb,
    "mlflow_own": MLflow,
    "django_celery": DjangoCelery,
    "gunicorn": Gunicorn,
    "uvicorn": GunicornUvicorn,
    "gevent": GunicornGevent,
    "notebook": Notebook,
    "xdist": Xdist,
    "sentry": Sentry,
    "ddtrace": Ddtrace,
    "wrappers": Wrappers,
    "wrappers_without_flush": WrappersWithoutFlush,
    "two_providers": TwoProviders,
    "lambda": Lambda,
    "spawn": Spawn,
    "forks": Forks,
    "ray": Ray,
}


def start(setup: Any, order: str) -> None:
    """Set up the library and otel-evals in this order."""

    def ours() -> None:
        if order != "without":
            import otel_evals

            note_warnings()
            otel_evals.configure(**OPTIONS | getattr(setup, "options", {}))

    for step in (ours, setup.set_up) if order == "before" else (setup.set_up, ours):
        step()


def note_warnings() -> None:
    """Write the warnings of otel-evals into the file WARNINGS."""
    noting = logging.FileHandler(os.environ["WARNINGS"])
    noting.setLevel(logging.WARNING)
    logging.getLogger("otel_evals").addHandler(noting)


def main() -> None:
    name, order = sys.argv[1:]
    os.environ["ORDER"] = order
    setup = SETUPS[name]()
    if isinstance(setup, Children):
        setup.begin()
    else:
        start(setup, order)
    try:
        for _ in range(int(os.environ["CALLS"])):
            setup.ask()
            time.sleep(0.01)
    finally:
        getattr(setup, "end", lambda: None)()


if __name__ == "__main__":
    main()
