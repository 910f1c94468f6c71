"""Applications in the set-ups of docs/compatibility.md, each with a few runs of one agent.

`python -m tests.support.setups NAME ORDER` sets up a library and otel-evals (`after` or `before` it, or
`without`), then asks the agent CALLS times. Spans go where OTEL_EXPORTER_OTLP_ENDPOINT says.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

QUESTION, ANSWER = "Where is my order?", "It arrives on Monday."
OPTIONS: dict[str, Any] = {"rules": ["answered"], "grace": 0.05}


def exporting(provider: Any = None) -> Any:
    """Let a provider export by OTLP; by default a new one, which becomes the global one."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if provider is None:
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def ask_pydantic_ai(**instrumented: Any) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.test import TestModel

    Agent.instrument_all(InstrumentationSettings(**instrumented))
    agent = Agent(TestModel(custom_output_text=ANSWER), name="support")
    assert agent.run_sync(QUESTION).output == ANSWER


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
        os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"
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

        configure_otel_providers(enable_sensitive_data=True)

    def ask(self) -> None:
        from agent_framework import Agent, BaseChatClient, ChatResponse, Message

        class Fixed(BaseChatClient):
            def _inner_get_response(self, **options: Any) -> Any:
                async def answer() -> Any:
                    return ChatResponse(messages=[Message(role="assistant", contents=[ANSWER])])

                return answer()

        asyncio.run(Agent(client=Fixed(), name="support").run(QUESTION))


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


class DjangoCelery(OfOpenTelemetry):
    """A view of Django hands each question to a Celery worker."""

    def set_up(self) -> None:
        import celery
        import django
        from celery.contrib.testing.worker import start_worker
        from django.conf import settings
        from django.http import HttpRequest, HttpResponse
        from django.urls import path

        exporting()
        app = celery.Celery(broker="memory://", backend="cache+memory://")
        app.loader.import_module("celery.contrib.testing.tasks")
        task = app.task(name="ask")(ask_pydantic_ai)

        def view(request: HttpRequest) -> HttpResponse:
            task.delay().get(timeout=60)
            return HttpResponse("done")

        urls = type(sys)("urls")
        urls.urlpatterns = [path("ask", view)]  # type: ignore[attr-defined]
        sys.modules["urls"] = urls
        settings.configure(ROOT_URLCONF="urls", ALLOWED_HOSTS=["*"], SECRET_KEY="k")
        django.setup()
        self.worker = start_worker(app, perform_ping_check=False)
        self.worker.__enter__()

    def ask(self) -> None:
        from django.test import Client

        assert Client().get("/ask").status_code == 200

    def end(self) -> None:
        self.worker.__exit__(None, None, None)


class Wrappers(OfOpenTelemetry):
    """A processor of the application around another one, in a field of any name."""

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
                return all(each.force_flush(timeout_millis) for each in self._behind_the_filter)

            def shutdown(self) -> None:
                for each in self._behind_the_filter:
                    each.shutdown()

        provider = TracerProvider()
        provider.add_span_processor(Filter(BatchSpanProcessor(OTLPSpanExporter())))
        trace.set_tracer_provider(provider)


class TwoProviders:
    """One for the application's requests, another for its agents."""

    def set_up(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider

        exporting()
        self.agents = OPTIONS["tracer_provider"] = exporting(TracerProvider())

    def ask(self) -> None:
        ask_pydantic_ai(tracer_provider=self.agents)


class Lambda(OfOpenTelemetry):
    """The process is frozen after each request, and killed: nothing happens at its exit."""

    def ask(self) -> None:
        super().ask()
        flush()

    def end(self) -> None:
        os._exit(0)


class Spawn(OfOpenTelemetry):
    """Each child of `multiprocessing` imports the program again and configures."""

    def ask(self) -> None:
        import multiprocessing

        child = multiprocessing.get_context("spawn").Process(target=run_once, args=(sys.argv[2],))
        child.start()
        child.join()
        assert child.exitcode == 0


class Ray(OfOpenTelemetry):
    """Each worker configures in its first task."""

    def ask(self) -> None:
        import ray

        if not ray.is_initialized():
            ray.init(num_cpus=1, include_dashboard=False, logging_level="error", log_to_driver=False)
        ray.get(ray.remote(max_calls=1)(run_once).remote(sys.argv[2]))

    def end(self) -> None:
        import ray

        ray.shutdown()


def run_once(order: str) -> None:
    """One run in a process of its own."""
    start(OfOpenTelemetry(), order)
    ask_pydantic_ai()
    if "ray" in sys.modules:  # its workers are killed
        flush()


def flush() -> None:
    from opentelemetry import trace

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
    "django_celery": DjangoCelery,
    "sentry": Sentry,
    "ddtrace": Ddtrace,
    "wrappers": Wrappers,
    "two_providers": TwoProviders,
    "lambda": Lambda,
    "spawn": Spawn,
    "ray": Ray,
}


def start(setup: Any, order: str) -> None:
    """Set up the library and otel-evals in this order."""

    def ours() -> None:
        if order != "without":
            import otel_evals

            otel_evals.configure(**OPTIONS)

    for step in (ours, setup.set_up) if order == "before" else (setup.set_up, ours):
        step()


def main() -> None:
    name, order = sys.argv[1:]
    setup = SETUPS[name]()
    in_children = isinstance(setup, Spawn | Ray)
    if not in_children:
        start(setup, order)
    for _ in range(int(os.environ["CALLS"])):
        setup.ask()
        time.sleep(0.01)
    getattr(setup, "end", lambda: None)()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
