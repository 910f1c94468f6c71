"""A scorer gives the same score live, in `run_evals`, in pytest and on a stored trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals import Evaluation, NotScored, Score
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.scorers import checks
from otel_evals.context import tool_results
from otel_evals.destinations import JsonlDestination
from otel_evals.judges import ScriptedJudge
from otel_evals.scorers import grounded_in_tools, hallucination, tool_call_accuracy, tool_error_rate
from otel_evals.testing import run_evals
from tests.support.scored_files import score_files
from tests.support.traffic import Live
from tests.support.waits import SECONDS

QUESTION = "Where is order A-1001?"
GOOD, BAD = "It arrives on 2026-11-25.", "It arrives on 2026-12-31 and costs $99."


def scorers() -> list[Any]:
    """In code, by judge, and one that does not apply."""
    found = {"verdicts": [{"statement": "It arrives.", "verdict": "yes", "reason": "nothing says so"}]}
    judge = ScriptedJudge(
        {
            "preprocess": {"claims": ["It arrives."]},
            "analyze": found,
            "generate_reason": "One claim stands alone.",
        }
    )
    return [
        grounded_in_tools(),
        tool_call_accuracy(expected_tool="lookup_order"),
        checks.includes("2026-11-25"),
        hallucination(judge, get_context=tool_results()),
        tool_error_rate(),
    ]


def agent(provider: Any, answer: str) -> Any:
    """A real agent whose model is scripted: it looks the order up, then answers."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.instrumented import InstrumentationSettings

    def reply(messages: list[Any], info: Any) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart(answer)])
        return ModelResponse(parts=[ToolCallPart("lookup_order", {"order_id": "A-1001"})])

    made: Any = Agent(FunctionModel(reply), name="support")
    made.instrument = InstrumentationSettings(tracer_provider=provider)

    @made.tool_plain
    def lookup_order(order_id: str) -> dict[str, str]:
        """Look up an order."""
        return {"eta": "2026-11-25"}

    return made


@pytest.fixture
def live() -> Any:
    with Live(*scorers()) as running:
        yield running


@pytest.fixture
def otel_evals_tracer_provider(live: Live) -> Any:
    return live.provider


def told(evaluation: Evaluation) -> tuple[Any, ...]:
    """All of an evaluation but when it was made and how long that took."""
    outcome = evaluation.outcome
    assert isinstance(outcome, Score | NotScored)
    value = outcome.value if isinstance(outcome, Score) else outcome.reason
    return evaluation.evaluation_id, evaluation.scorer_id, value, outcome.explanation


@pytest.mark.parametrize("answer", [GOOD, BAD])
def test_the_same_run_has_the_same_scores_wherever_it_is_scored(
    answer: str, live: Live, scored: Any, tmp_path: Path
) -> None:
    """One conversation inside `run_evals`, one in the test itself; both are scored live and from a file."""
    exported = InMemorySpanExporter()
    live.provider.add_span_processor(SimpleSpanProcessor(exported))
    data = [{"input": QUESTION}]
    result = run_evals(data, agent(live.provider, answer), scorers(), tracer_provider=live.provider)
    agent(live.provider, answer).run_sync(QUESTION)
    assert live.flush()
    in_pytest = [evaluation for each in scorers() for evaluation in scored(each).evaluations]

    expected = {told(e) for run in live.scored.wait_for(2, SECONDS) for e in run.evaluations}
    assert len(expected) == 2 * len(scorers())
    assert {told(e) for e in result.items[0].evaluations} | {told(e) for e in in_pytest} == expected
    assert {told(e) for e in result.items[0].evaluations} & {told(e) for e in in_pytest} == set()
    assert from_file(exported, tmp_path) == expected
    assert {value for _, scorer, value, _ in expected if scorer == "grounded_in_tools"} == {
        1.0 if answer == GOOD else 0.0
    }


def from_file(exported: InMemorySpanExporter, folder: Path) -> set[tuple[Any, ...]]:
    """What is written about the exported spans when they are scored by the command."""
    own = [s for s in exported.get_finished_spans() if s.instrumentation_scope.name != "otel_evals"]  # type: ignore[union-attr]  # always there
    (folder / "spans.json").write_text(MessageToJson(encode_spans(own), indent=None))
    config = build_config(scorers(), [JsonlDestination(folder / "scores.jsonl")])
    score_files([str(folder / "spans.json")], config)
    records = map(json.loads, (folder / "scores.jsonl").read_text().splitlines())
    return {
        (e["evaluation_id"], e["scorer"], e["reason"] if e["value"] is None else e["value"], e["explanation"])
        for record in records
        for e in record["evaluations"]
    }
