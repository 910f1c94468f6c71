"""Cost of a scored run, from its captured spans to its attached score, for several set-ups.

CPU of this process per run while its engine works, spans of the application not included. The set-ups take
turns, so that a busy machine slows all of them; compare the ratios.

    python benchmarks/scored_run.py [--runs N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

from otel_evals import Pipeline, Rule, Run, sampling
from otel_evals._internal.capture.backlog import Backlog
from otel_evals._internal.capture.processors import CaptureSpans
from otel_evals._internal.config.loader import build_config
from otel_evals.scorers import scorer

TEXT = "Your order A-1001 was shipped with ACME and should arrive on 25 November. " * 5


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def agent_run(tracer: Any, number: int) -> None:
    """An agent with a model call and a tool, 2 KB of messages."""
    asked, answer = said("user", f"Question {number}: {TEXT}"), said("assistant", f"{number} {TEXT}")
    genai = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "m"}
    messages = {"gen_ai.input.messages": json.dumps([asked]), "gen_ai.output.messages": json.dumps([answer])}
    root = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support", **messages}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 412, **genai, **messages}
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "lookup",
        "gen_ai.tool.call.arguments": '{"order": "A-1001"}',
        "gen_ai.tool.call.result": '{"status": "shipped"}',
    }
    with tracer.start_as_current_span("invoke_agent", attributes=root):
        for name, attributes in (("chat", chat), ("execute_tool", tool)):
            with tracer.start_as_current_span(name, attributes=attributes):
                pass


def everything(run: Run) -> bool:
    """Ask for all that is read of a run."""
    return bool(run.output and run.input and run.tool_calls and run.usage and run.availability)


OUTPUT: Callable[[Run], bool] = lambda run: bool(run.output)  # noqa: E731  # one of several
PLAIN = {"span_attributes": False, "evaluation_events": False, "evaluation_spans": False, "metrics": False}
SETUPS: dict[str, tuple[Callable[[Run], Any], dict[str, Any], dict[str, Any]]] = {
    "a scorer of the answer": (OUTPUT, {}, PLAIN),
    "that asks for nothing": (lambda _: True, {}, PLAIN),
    "that asks for everything": (everything, {}, PLAIN),
    "in a worker thread": (OUTPUT, {"inline": False}, PLAIN),
    "evaluation events": (OUTPUT, {}, {**PLAIN, "evaluation_events": True}),
    "metrics": (OUTPUT, {}, {**PLAIN, "metrics": True}),
    "span attributes": (OUTPUT, {}, {**PLAIN, "span_attributes": True}),
    "evaluation spans": (OUTPUT, {}, {**PLAIN, "evaluation_spans": "linked"}),
    "all of them, the default": (OUTPUT, {}, {}),
    "a journal": (OUTPUT, {}, {**PLAIN, "journal": True}),
    "one run of ten": (OUTPUT, {"sample": 0.1}, PLAIN),
}


class SetUp:
    """One configuration: a pipeline whose engine's thread is not started."""

    def __init__(self, judge: Any, rule: dict[str, Any], options: dict[str, Any], folder: Path) -> None:
        if options.get("journal"):
            options = {**options, "journal": folder / "journal"}
        made = scorer(id="measured", version="1", inline=rule.get("inline", True))(judge)
        self.config = build_config(
            [Rule(made, sample=sampling.ratio(rule.get("sample", 1.0)))], [], **options
        )
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.pipeline = Pipeline(
            self.config,
            tracer_provider=self.provider,
            logger_provider=LoggerProvider(),
            meter_provider=MeterProvider([InMemoryMetricReader()]),
        )
        self.captured: list[Any] = []
        self.backlog = Backlog(1, 1)
        capture = CaptureSpans(self, self.pipeline.conventions, 1.0)
        self.provider.add_span_processor(capture)
        self.tracer = self.provider.get_tracer("bench")

    def put(self, item: Any, ends_run: bool = False) -> None:
        """Take a captured item."""
        self.captured.append(item)

    def cost(self, runs: int) -> float:
        """Microseconds of CPU per run."""
        self.captured.clear()
        for number in range(runs):
            agent_run(self.tracer, number)
        begun = time.process_time()
        for start in range(0, len(self.captured), 96):
            self.pipeline.engine.put_all(self.captured[start : start + 96])
            self.pipeline.force_flush(30_000)
        return (time.process_time() - begun) / runs * 1e6


def main() -> None:
    """Let the set-ups take turns, and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with ExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in SETUPS]
        made = {name: SetUp(*SETUPS[name], folder) for name, folder in zip(SETUPS, folders, strict=True)}
        costs: dict[str, list[float]] = {name: [] for name in made}
        for _ in range(options.rounds + 1):
            for name, setup in made.items():
                costs[name].append(setup.cost(options.runs))
        first = statistics.median(costs["a scorer of the answer"][1:])
        for name, found in costs.items():
            cost = statistics.median(found[1:])
            print(f"{name:28}{cost:8.0f} us{cost / first:8.2f}")
        for setup in made.values():
            setup.pipeline.shutdown()


if __name__ == "__main__":
    main()
