"""Scores in a real MLflow, read back through its API: on traces and spans, each once, errors too."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals.destinations import DestinationStats
from otel_evals.model import OperationKind, Outcome, Run, Score, ScoredRun, ScorerFailure
from otel_evals_exporters.mlflow import MlflowDestination
from tests.support.browser import CHROMIUM, browser_page, picture
from tests.support.replacing import replace
from tests.support.scored import JUDGED, evaluation
from tests.support.servers import clean_environment

pytestmark = [pytest.mark.interop, pytest.mark.timeout(420)]
Assessments = dict[str, dict[str, Any]]
DEMO_RUNS = 10


def ended_run(mlflow: str, *, send: bool = True) -> tuple[Run, Callable[[], None]]:
    """A run of an agent below a web request, with the function that sends its spans."""
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    exporter = OTLPSpanExporter(f"{mlflow}/v1/traces", headers={"x-mlflow-experiment-id": "0"})
    finished: list[Any] = []
    processor = SimpleSpanProcessor(exporter)
    processor.on_end = finished.append  # type: ignore[method-assign]  # sent when asked to
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("shop")
    with (
        tracer.start_as_current_span("POST /chat"),
        tracer.start_as_current_span(
            "invoke_agent support", attributes={"gen_ai.operation.name": "invoke_agent"}
        ) as agent,
    ):
        context = agent.get_span_context()
    run = Run(
        trace_id=f"{context.trace_id:032x}",
        root_span_id=f"{context.span_id:016x}",
        root_kind=OperationKind.AGENT,
        start_time=finished[0].start_time,
        end_time=finished[0].end_time,
    )
    if send:
        exporter.export(finished)
    return run, lambda: (exporter.export(finished), None)[1]


def scored(run: Run, outcomes: dict[str, Outcome], *, span_id: str | None = None) -> ScoredRun:
    where = {"trace_id": run.trace_id, "span_id": span_id or run.root_span_id}
    return ScoredRun(run=run, evaluations=tuple(evaluation(n, o, **where) for n, o in outcomes.items()))


def deliver(mlflow: str, *runs: ScoredRun, meanwhile: Callable[[], None] = lambda: None) -> DestinationStats:
    async def send() -> DestinationStats:
        fan_out = FanOut([MlflowDestination(url=mlflow)], delay=0.0, first=0.1, longest=0.2)
        async with anyio.create_task_group() as group:
            group.start_soon(fan_out.run)
            for run in runs:
                fan_out.put(run)
            await anyio.sleep(0.5)
            await anyio.to_thread.run_sync(meanwhile)
            await fan_out.force_flush(60.0)
            await fan_out.shutdown(5.0)
        return fan_out.stats()["mlflow"]

    return anyio.run(send)


def assessments(mlflow: str, run: Run) -> Assessments:
    url = f"{mlflow}/api/3.0/mlflow/traces/tr-{run.trace_id}"
    info = httpx.get(url, timeout=30).raise_for_status().json()["trace"]["trace_info"]
    found = info.get("assessments", [])
    assert (
        len({a["assessment_id"] for a in found}) == len({a["assessment_name"] for a in found}) == len(found)
    )
    return {a["assessment_name"]: a for a in found}


def test_scores_labels_and_failures_stand_on_the_trace(mlflow: str) -> None:
    run, _ = ended_run(mlflow)
    failed = ScorerFailure(error_type="timeout", message="no answer in 30 s")
    assert deliver(mlflow, scored(run, {"hallucination": JUDGED, "tone": failed})) == DestinationStats(
        exported=1
    )
    found = assessments(mlflow, run)
    assert set(found) == {"hallucination", "hallucination.label", "tone"}
    score = found["hallucination"]
    assert score["feedback"]["value"] == 0.25
    assert score["rationale"] == "$12.50 is in no tool result"
    assert score["source"] == {"source_type": "LLM_JUDGE", "source_id": "otel-evals/hallucination"}
    assert score["metadata"]["judge_cost_usd"] == "0.00042"
    assert "span_id" not in score
    assert found["hallucination.label"]["feedback"]["value"] == "unsupported"
    assert found["tone"]["feedback"]["error"]["error_code"] == "timeout"
    assert time_of(score["create_time"]) == run.end_time // 1_000_000_000  # type: ignore[operator]


def time_of(text: str) -> int:
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def test_a_score_sent_again_stands_once_with_its_last_value(mlflow: str) -> None:
    run, _ = ended_run(mlflow)
    first = scored(run, {"tone": Score(value=0.5, label="dry")})
    later = scored(run, {"tone": Score(value=0.75, label="warm", explanation="thanks")})
    for each in (first, first, replace(later, evaluations=(replace(later.evaluations[0], revision=2),))):
        assert deliver(mlflow, each) == DestinationStats(exported=1)
    found = assessments(mlflow, run)
    assert (found["tone"]["feedback"]["value"], found["tone"]["rationale"]) == (0.75, "thanks")
    assert found["tone.label"]["feedback"]["value"] == "warm"
    assert found["tone"]["metadata"]["revision"] == "2"


def test_an_agent_within_a_run_is_judged_on_its_span(mlflow: str) -> None:
    run, _ = ended_run(mlflow)
    outer = replace(run, root_span_id="00f067aa0ba902b7")
    part = scored(outer, {"tone": Score(value=1.0)}, span_id=run.root_span_id)
    assert deliver(mlflow, part) == DestinationStats(exported=1)
    assert assessments(mlflow, run)["tone"]["span_id"] == run.root_span_id


def test_a_score_that_comes_before_its_trace_waits_for_it(mlflow: str) -> None:
    early, send_spans = ended_run(mlflow, send=False)
    there, _ = ended_run(mlflow)
    tone: dict[str, Outcome] = {"tone": Score(value=1.0)}

    def then() -> None:
        assert set(assessments(mlflow, there)) == {"tone"}, "it was not held up"
        send_spans()

    stats = deliver(mlflow, scored(early, tone), scored(there, tone), meanwhile=then)
    assert stats == DestinationStats(exported=2)
    assert set(assessments(mlflow, early)) == {"tone"}


def test_a_user_can_try_out_the_server(mlflow: str) -> None:
    """The command sends a span, waits until MLflow knows it, scores it and reads the score back."""
    done = CliRunner().invoke(app, ["destinations", "test", f"mlflow={mlflow}"])
    assert done.exit_code == 0, done.output
    assert "Read back: " in done.stdout
    assert '"assessment_name": "otel_evals_test"' in done.stdout


def test_the_demo_s_scores_stand_in_mlflow_and_on_the_page_that_it_prints(
    mlflow: str, tmp_path: Path
) -> None:
    command = ["demo", "--runs", str(DEMO_RUNS), "--out", str(tmp_path), "--to", f"mlflow={mlflow}"]
    done = subprocess.run(
        [sys.executable, "-c", "from otel_evals._internal.cli import main; main()", *command],
        env=clean_environment("MLFLOW_") | {"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-mlflow-experiment-id=0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:]
    wanted: dict[str, dict[str, float]] = {}
    for line in (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines():
        for each in json.loads(line)["evaluations"]:
            if each["status"] == "scored":
                wanted.setdefault(each["trace_id"], {})[each["scorer"]] = each["value"]
    assert len(wanted) == DEMO_RUNS
    for trace, scores in wanted.items():
        found = assessments(mlflow, Run(trace_id=trace, root_span_id="", root_kind=OperationKind.AGENT))
        values = {name: found[name]["feedback"]["value"] for name in scores}
        assert values == pytest.approx(scores), trace
    (address,) = re.findall(r"in mlflow: (\S+)", done.stdout)
    look_at(address, sorted(wanted[address.rpartition("tr-")[2]]), tmp_path)


def look_at(address: str, scorers: list[str], folder: Path) -> None:
    """See the scores on the trace's page, where there is a browser."""
    if CHROMIUM is None:
        return
    with browser_page() as page:
        page.goto(address, wait_until="domcontentloaded")
        try:
            for name in scorers:
                page.get_by_text(name, exact=True).last.wait_for(timeout=60_000)
        finally:
            page.screenshot(path=picture(folder, "mlflow-trace.png"))
