"""Traces that a real Jaeger, MLflow or Phoenix has stored get the scores that they were given live."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult
from typer.testing import CliRunner

from otel_evals import NotScored, Score, load_config
from otel_evals._internal.cli.app import app
from tests.support.jaeger_server import jaeger_program, jaeger_server
from tests.support.traffic import Live
from tests.support.waits import SECONDS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(420)]

RULES = """
rules:
  - grounded_in_tools
  - answered
  - tool_error_rate
  - {scorer: tool_call_accuracy, options: {expected_tool: lookup_order}}
  - {scorer: includes, options: {text: "2026-11-25"}}
  - valid_json
"""
Told = set[tuple[Any, ...]]
QUESTION = "Where is order A-1001?"
GOOD, BAD = "It arrives on 2026-11-25.", "It arrives on 2026-12-31 and costs $99."


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


@pytest.fixture(scope="module")
def jaeger() -> Iterator[tuple[str, str]]:
    program = jaeger_program()
    if program is None:
        pytest.skip("run tests/interop/components.sh first: it builds Jaeger")
    with jaeger_server(program) as urls:
        yield urls


def scored_live(rules: Path, send: Callable[[Any], Any]) -> tuple[Told, int]:
    """Have agents work, score them live, and send their spans; returns what was said of them."""
    with Live(*load_config(rules).rules) as live:
        for answer in (GOOD, BAD):
            agent(live.provider, answer).run_sync(QUESTION)
            live.run(answer=answer)
        assert live.flush()
        runs = live.scored.wait_for(4, SECONDS)
        assert send(live.exported.get_finished_spans()) is SpanExportResult.SUCCESS
    told = {
        (
            e.evaluation_id,
            e.scorer_id,
            e.outcome.value if isinstance(e.outcome, Score) else e.reason,
            e.outcome.explanation if isinstance(e.outcome, Score | NotScored) else None,
        )
        for run in runs
        for e in run.evaluations
    }
    return told, len(runs)


def score(place: str, rules: Path, out: Path, *more: str) -> Any:
    until = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
    given = ["score", "--from", place, "--since", "1h", "--until", until, "--config", str(rules), "--all"]
    return CliRunner().invoke(app, [*given, "--jsonl", str(out), "--json", *more])


def read(out: Path) -> Told:
    records = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return {
        (e["evaluation_id"], e["scorer"], e["reason"] if e["value"] is None else e["value"], e["explanation"])
        for record in records
        for e in record["evaluations"]
    }


def backfilled(place: str, rules: Path, folder: Path, expected: Told, *more: str) -> None:
    """Score what the backend has, until everything that was sent is there; then once more, for nothing."""
    end, attempt = time.monotonic() + 120, 0
    while True:
        attempt += 1
        out = folder / f"scores-{attempt}.jsonl"
        done = score(place, rules, out, "--resume", *more)
        if {each[0] for each in expected} <= {each[0] for each in read(out)} or time.monotonic() > end:
            break
        time.sleep(1)
    assert done.exit_code == 0, done.output
    mine = {each for each in read(out) if each[0] in {each[0] for each in expected}}
    assert mine == expected
    again = score(place, rules, out, "--resume", *more)
    assert json.loads(again.stdout)["resumed"] >= len(expected)
    assert len(read(out)) == sum(len(json.loads(line)["evaluations"]) for line in out.open())


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (path := tmp_path / "rules.yaml").write_text(RULES)
    return path


def test_what_jaeger_has(jaeger: tuple[str, str], rules: Path, tmp_path: Path) -> None:
    query, otlp = jaeger
    expected, _ = scored_live(rules, OTLPSpanExporter(f"{otlp}/v1/traces").export)
    backfilled(f"jaeger={query}", rules, tmp_path, expected)
    none = score(f"jaeger={query}", rules, tmp_path / "none.jsonl", "--filter", "service=nobody")
    assert (none.exit_code, "jaeger: no run found" in none.output) == (1, True)


def test_what_mlflow_has_and_scores_go_back_to_it(mlflow: str, rules: Path, tmp_path: Path) -> None:
    headers = {"x-mlflow-experiment-id": "0"}
    expected, runs = scored_live(rules, OTLPSpanExporter(f"{mlflow}/v1/traces", headers=headers).export)
    rules.write_text(f"{RULES}\ndestinations: [{{mlflow: {{url: '{mlflow}'}}}}]")
    backfilled(f"mlflow={mlflow}", rules, tmp_path, expected)
    done = score(f"mlflow={mlflow}", rules, tmp_path / "twice.jsonl", "--filter", "status = 'OK'")
    sent = json.loads(done.stdout)["destinations"]["mlflow"]
    assert (sent["failed"], sent["dropped"]) == (0, 0)
    assert sent["exported"] >= runs


def test_what_phoenix_has(phoenix: str, rules: Path, tmp_path: Path) -> None:
    expected, _ = scored_live(rules, OTLPSpanExporter(f"{phoenix}/v1/traces").export)
    backfilled(f"phoenix={phoenix}", rules, tmp_path, expected)
