"""Python-level function calls for one scored run of three spans, off the application's thread.

An agent, one model call and one tool call, recorded with the SDK under the current GenAI conventions and
scored through the public API. Calls into C are not counted. Runs are recorded in bursts of 256, as many as
the engine takes at once, so that the loop's own calls count little; the burst with the fewest calls is
printed, divided by its runs. Nothing is exported: the providers have no exporters.

python benchmarks/calls.py [--list N]
"""

from __future__ import annotations

import argparse
import json
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

import otel_evals
from otel_evals import Run, scorer

BURSTS, RUNS = 8, 256
OFF: dict[str, Any] = {
    "evaluation_events": False,
    "evaluation_spans": False,
    "span_attributes": False,
    "metrics": False,
}


@scorer(inline=True)
def answered(run: Run) -> bool:
    """Return True if there is an answer."""
    return bool(run.output)


@scorer(id="answered_async")
async def answered_async(run: Run) -> bool:
    """Return True if there is an answer."""
    return bool(run.output)


SETUPS: dict[str, tuple[Any, dict[str, Any]]] = {
    "scorer of the answer, attachment off": (answered, OFF),
    "scorer of the answer, default attachment": (answered, {}),
    "async scorer, attachment off": (answered_async, OFF),
}


class Calls:
    """Counts calls of Python functions on the threads that are started after it."""

    def __init__(self) -> None:
        self.by_function: Counter[str] = Counter()
        threading.setprofile(self._profile)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            code = frame.f_code
            self.by_function[f"{Path(code.co_filename).name}:{code.co_qualname}"] += 1


def messages(role: str, text: str) -> str:
    """Messages of the GenAI conventions."""
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def one_run(tracer: Tracer) -> None:
    """Record an agent that calls a model and a tool."""
    asked, said = messages("user", "Where is my order?"), messages("assistant", "It ships on Monday.")
    agent: dict[str, str | int] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "support",
        "gen_ai.conversation.id": "c-1",
        "gen_ai.input.messages": asked,
        "gen_ai.output.messages": said,
    }
    chat: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.response.model": "gpt-5-mini",
        "gen_ai.response.id": "resp-1",
        "gen_ai.usage.input_tokens": 120,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.input.messages": asked,
        "gen_ai.output.messages": said,
    }
    tool: dict[str, str | int] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find_order",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.call.arguments": '{"id": 7}',
        "gen_ai.tool.call.result": '"ships on Monday"',
    }
    with tracer.start_as_current_span("invoke_agent support", attributes=agent):
        tracer.start_span("execute_tool find_order", attributes=tool).end()
        tracer.start_span("chat gpt-5-mini", attributes=chat).end()


def measure(rule: Any, options: dict[str, Any]) -> Counter[str]:
    """Count the calls of a burst of runs, by function."""
    calls, provider = Calls(), TracerProvider()
    otel_evals.configure(
        rules=[rule],
        tracer_provider=provider,
        logger_provider=LoggerProvider(),
        meter_provider=MeterProvider(),
        grace=0.05,
        **options,
    )
    tracer, counted = provider.get_tracer("app"), []
    for _ in range(BURSTS):
        calls.by_function.clear()
        for _ in range(RUNS):
            one_run(tracer)
        otel_evals.force_flush()
        counted.append(Counter(calls.by_function))
    threading.setprofile(None)
    otel_evals.shutdown()
    return min(counted, key=Counter.total)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", type=int, default=0, help="print the functions with the most calls")
    most = parser.parse_args().list
    for name, (rule, options) in SETUPS.items():
        by_function = measure(rule, options)
        print(f"{by_function.total() / RUNS:5.0f} {name}")
        for function, count in by_function.most_common(most):
            print(f"      {count / RUNS:5.1f} {function}")


if __name__ == "__main__":
    main()
