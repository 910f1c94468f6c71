"""Cost of reading: per operation and per run for each convention on captures, and for one made-up run.

    python benchmarks/reading.py [FOLDER_OF_CAPTURES]

Times are of this process's CPU, the best of several rounds; the JSON line says how long json.loads alone
takes on the same messages, which tells a slow machine from a slow reader.
"""

from __future__ import annotations

import collections
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import find_runs
from otel_evals.conventions import load_conventions
from otel_evals.model import SpanRecord

KNOWN_CONVENTIONS = load_conventions()


def microseconds(work: Callable[[], Any], rounds: int = 7, seconds: float = 0.1) -> float:
    """The best round's time per call."""
    work()
    begin = time.process_time()
    work()
    count = max(1, int(seconds / max(time.process_time() - begin, 1e-6)))
    best = float("inf")
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(count):
            work()
        best = min(best, (time.process_time() - begin) / count)
    return best * 1e6


def made_up() -> list[SpanRecord]:
    """Agent, model call and tool, with 2 KB of messages."""
    text = "x" * 380
    user = {"role": "user", "parts": [{"type": "text", "content": text}]}
    arguments = {"type": "tool_call", "id": "c1", "name": "get_weather", "arguments": {"city": "Paris"}}
    call = {"role": "assistant", "parts": [arguments], "finish_reason": "tool_call"}
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "Sunny"}]}
    answer = {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": "stop"}
    inputs = {"gen_ai.input.messages": json.dumps([user]), "gen_ai.output.messages": json.dumps([answer])}
    attributes: list[dict[str, Any]] = [
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", **inputs},
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "m",
            "gen_ai.response.model": "m-1",
            "gen_ai.response.id": "r1",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 42,
            "gen_ai.usage.output_tokens": 11,
            **inputs,
            "gen_ai.input.messages": json.dumps([user, call, result]),
        },
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_weather",
            "gen_ai.tool.call.id": "c1",
            "gen_ai.tool.call.arguments": '{"city":"Paris"}',
            "gen_ai.tool.call.result": "Sunny",
        },
    ]
    return [
        SpanRecord(
            trace_id="a" * 32,
            span_id=f"{number:016x}",
            parent_span_id=None if number == 0 else f"{0:016x}",
            start_time=number,
            end_time=9 - number,
            attributes=given,
            scope_name="my.agent",
        )
        for number, given in enumerate(attributes)
    ]


def bench_made_up() -> None:
    spans = made_up()
    texts = [v for s in spans for k, v in s.attributes.items() if k.endswith("messages")]
    print(f"three spans, {sum(map(len, texts))} bytes of messages")
    print(f"  find_runs          {microseconds(lambda: find_runs(spans, KNOWN_CONVENTIONS)):8.1f} us per run")
    for span in spans:
        name = span.attributes["gen_ai.operation.name"]
        print(f"  read {name:13} {microseconds(lambda span=span: KNOWN_CONVENTIONS.read(span)):8.1f} us")
    print(f"  json.loads alone   {microseconds(lambda: [json.loads(t) for t in texts]):8.1f} us")


def bench_captures(folder: Path) -> None:
    """Per convention: microseconds per operation and per run over all captures it reads."""
    operations: dict[str, list[float]] = collections.defaultdict(list)
    runs: dict[str, list[float]] = collections.defaultdict(list)
    for entry in json.loads((folder / "MANIFEST.json").read_text()):
        paths = [str(folder / name) for name in (entry["file"], entry.get("logs_file")) if name]
        for trace in list(read_traces(paths))[:3]:
            found = find_runs(trace, KNOWN_CONVENTIONS)
            if not found:
                continue
            cost = microseconds(
                lambda trace=trace: find_runs(trace, KNOWN_CONVENTIONS), rounds=3, seconds=0.01
            )
            runs[found[0].convention].append(cost / len(found))
            operations[found[0].convention].append(cost / sum(len(run.operations) for run in found))
    print(f"{'convention':16}{'us per operation':>18}{'us per run':>12}{'traces':>8}")
    for name in sorted(runs):
        mean, each = sum(runs[name]) / len(runs[name]), operations[name]
        print(f"{name:16}{sum(each) / len(each):18.1f}{mean:12.1f}{len(each):8}")


if __name__ == "__main__":
    print(f"Python {platform.python_version()} on {platform.platform()}")
    bench_made_up()
    if len(sys.argv) > 1:
        bench_captures(Path(sys.argv[1]))
