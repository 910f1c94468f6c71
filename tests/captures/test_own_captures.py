"""Small captures of our own: real producers against a stub model, one conversation with one call of a tool.

Made with the AI SDK 7.0.173 and `@ai-sdk/otel` 1.0.173 on Node 20: `generateText` with `MockLanguageModelV4`,
its integrations `OpenTelemetry` and `LegacyOpenTelemetry`, exported as OTLP JSON. The capture of LangGraph is
of a `StateGraph` with conditional edges: the longest attribute is the condition's input.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import find_runs
from otel_evals.conventions import load_conventions

FOLDER = Path(__file__).parent / "data"


@pytest.mark.parametrize(
    "path", sorted(FOLDER.glob("*.otlp.json")), ids=lambda path: path.name.split(".otlp")[0]
)
def test_a_turn_with_a_tool_is_recovered_whole(path: Path) -> None:
    ((run,),) = (find_runs(trace, load_conventions()) for trace in read_traces([str(path)]))
    assert (run.input, run.output) == ("Does the ferry sail on Sundays?", "It sails at nine and at noon.")
    assert run.system_instructions == "Be brief."
    assert run.models == ("harbour-1-0",)
    assert (run.usage.input_tokens, run.usage.output_tokens) == (34, 14)
    (call,) = run.tool_calls
    assert (call.name, call.id, call.status) == ("timetable", "c1", "ok")
    assert call.arguments == {"day": "sunday"}
    assert call.result == {"day": "sunday", "sailings": ["9:00", "12:00"]}
    assert run.agent_name == "clerk"
    assert {run.availability[name] for name in ("input", "output", "tool_results")} == {"present"}
