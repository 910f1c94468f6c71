"""Beside each tracing library that is there already, in either order: all scores, and no span of the
application lost or doubled. Each page of docs/already is run as it stands, with the real library, and so is
what the README shows. What landed is written into the pages by
`python -m tests.interop.test_already`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from otel_evals.model import SpanRecord
from tests.support.azure_ingestion import AzureIngestion
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.stub_openai import StubOpenAI

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "support" / "adopted_app.py"
PLACE = os.environ.get("OTEL_EVALS_INTEROP", str(ROOT / ".venv-interop"))
PAGES = sorted(path.stem for path in (ROOT / "docs" / "already").glob("*.md") if path.stem != "index")
CALLS = 6
SCORE = "otel_evals.score.answered"
EVENT = "gen_ai.evaluation.result"


@dataclass(frozen=True)
class Received:
    """What a program sent, by OTLP and to Azure Monitor."""

    otlp: OtlpReceiver
    azure: AzureIngestion
    seconds: float
    """From the program's start until its first scored span was here; 0 if there was none."""
    printed: str = ""

    @property
    def application(self) -> Counter[tuple[str, tuple[str, ...]]]:
        """The application's spans by name and attribute names, but for the scores."""
        return Counter(
            (s.name, tuple(sorted(key for key in s.attributes if not key.startswith("otel_evals."))))
            for s in self.otlp.spans
            if s.scope_name != "otel_evals"
        )

    @property
    def events(self) -> set[str]:
        """The traces of evaluation events."""
        logs = {log.trace_id for log in self.otlp.logs if log.event_name == EVENT}
        sent = self.azure.of_type("Message")
        return logs | {m["trace_id"] for m in sent if "gen_ai.evaluation.name" in m["properties"]}

    @property
    def metrics(self) -> set[str]:
        """The names of metrics."""
        sent = {metric["name"] for item in self.azure.of_type("Metric") for metric in item["metrics"]}
        return sent | {metric.name for metric in self.otlp.metrics}


def environment(receiver: OtlpReceiver, stub: StubOpenAI, azure: AzureIngestion) -> dict[str, str]:
    at = receiver.endpoint
    own = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "PYTHON"))}
    return own | {
        "CALLS": str(CALLS),
        "OTEL_SERVICE_NAME": "app",
        "OTEL_TRACES_SAMPLER": "always_on",  # Azure Monitor's own is five traces a second
        "OTEL_EXPORTER_OTLP_ENDPOINT": at,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OPENAI_BASE_URL": stub.url,
        "OPENAI_API_KEY": "k",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LOGFIRE_SEND_TO_LOGFIRE": "false",
        "LOGFIRE_CONSOLE": "false",
        "TRACELOOP_BASE_URL": at,
        "TRACELOOP_TELEMETRY": "false",
        "PHOENIX_COLLECTOR_ENDPOINT": at,
        "LANGFUSE_BASE_URL": at,
        "LANGFUSE_HOST": at,
        "LANGFUSE_PUBLIC_KEY": "pk",
        "LANGFUSE_SECRET_KEY": "sk",
        "MLFLOW_USE_DEFAULT_TRACER_PROVIDER": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "APPLICATIONINSIGHTS_CONNECTION_STRING": azure.connection_string,
        "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "true",
        "APPLICATIONINSIGHTS_CONTROLPLANE_DISABLED": "true",
    }


def scored(receiver: OtlpReceiver) -> list[SpanRecord]:
    """The application's spans that carry a score."""
    return [s for s in receiver.spans if SCORE in s.attributes and s.scope_name != "otel_evals"]


def run(page: str, order: str, *destinations: str) -> Received:
    python = Path(sys.executable if page == "README" else f"{PLACE}-already-{page}/bin/python")
    if not python.exists():
        pytest.skip("run tests/interop/setup.sh first")
    with OtlpReceiver() as receiver, StubOpenAI("It arrives on Monday.") as stub, AzureIngestion() as azure:
        began, seconds = time.monotonic(), 0.0
        with (
            subprocess.Popen(
                [python, PROGRAM, page, order, *destinations],
                env=environment(receiver, stub, azure),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as program,
            ThreadPoolExecutor(1) as reading,
        ):
            said = reading.submit(program.communicate)
            while program.poll() is None and time.monotonic() < began + 200:
                seconds = seconds or (time.monotonic() - began if scored(receiver) else 0.0)
                time.sleep(0.02)
            program.kill()
            assert program.wait() == 0, said.result()[1]
        return Received(receiver, azure, seconds, said.result()[0])


def landed(receiver: OtlpReceiver) -> str:
    """The first scored trace as it is at the receiver: its spans, their scores, and the events."""
    trace = scored(receiver)[0].trace_id
    spans = [s for s in receiver.spans if s.trace_id == trace and s.scope_name != "otel_evals"]
    ids = {s.span_id for s in spans}
    lines: list[str] = []

    def tell(depth: int, of: list[SpanRecord]) -> None:
        for span in sorted(of, key=lambda s: s.start_time):
            lines.append("  " * depth + span.name)
            for key, value in sorted(span.attributes.items()):
                if key.startswith("otel_evals.score.") and not key.endswith(".evaluation_id"):
                    lines.append("  " * depth + f"    {key} = {value}")
            tell(depth + 1, [s for s in spans if s.parent_span_id == span.span_id])

    tell(0, [s for s in spans if s.parent_span_id not in ids])
    names = ("name", "score.value", "score.label")
    events = [log.attributes for log in receiver.logs if log.trace_id == trace and log.event_name == EVENT]
    told = [" ".join(f"{n} = {e.get(f'gen_ai.evaluation.{n}')}" for n in names) for e in events]
    lines += [f"event gen_ai.evaluation.result: {each}" for each in sorted(told)]
    return "\n".join(lines) + "\n"


def shown(page: str) -> str | None:
    """What the page says that landed, if it does."""
    text = (ROOT / "docs" / "already" / f"{page}.md").read_text(encoding="utf-8")
    found = re.search(r"```text\n(.+?)```", text, re.DOTALL)
    return found and found[1]


@pytest.mark.interop
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES)
def test_all_scores_arrive_and_nothing_else_changes(
    page: str, record_property: Callable[[str, object], None]
) -> None:
    without = run(page, "without").application
    assert sum(without.values()) >= CALLS
    for order in ("after", "before"):
        received = run(page, order)
        assert received.application == without, order
        assert len({s.trace_id for s in scored(received.otlp)}) == CALLS, order
        evaluations = [s for s in received.otlp.spans if s.name == "evaluate answered"]
        assert len(evaluations) == CALLS, order
        assert len(received.events) == CALLS, order
        assert "otel_evals.score" in received.metrics, order
        if order == "after":
            assert shown(page) in (landed(received.otlp), None)
        if page == "azure":
            sent = received.azure.of_type("RemoteDependency")
            assert len({s["trace_id"] for s in sent if SCORE in s["properties"]}) == CALLS, order
        record_property(f"seconds_to_first_score[{page}, {order}]", round(received.seconds, 1))


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_with_its_preset_azure_s_own_exporter_writes_scores_as_custom_events() -> None:
    received = run("azure", "after", "azure")
    events = received.azure.of_type("Event")
    assert len({e["trace_id"] for e in events}) == CALLS
    for event in events:
        assert event["name"] == "gen_ai.evaluation.result"
        told = event["properties"]
        assert (told["gen_ai.evaluation.name"], told["gen_ai.evaluation.score.label"]) == (
            "answered",
            "answered",
        )
        assert float(told["gen_ai.evaluation.score.value"]) == 1.0
        assert told["gen_ai.agent.name"] == "support"
        assert json.loads(told["internal_properties"])["gen_ai.evaluator.name"] == "answered"
    assert not [m for m in received.azure.of_type("Message") if "gen_ai.evaluation.name" in m["properties"]]


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_with_its_preset_logfire_s_own_exporter_sends_what_logfire_groups_by() -> None:
    received = run("logfire", "after", "logfire")
    events = [log for log in received.otlp.logs if log.event_name == EVENT]
    assert len({event.trace_id for event in events}) == CALLS
    judged = {span.span_id for span in scored(received.otlp)}
    for event in events:
        assert event.span_id in judged
        told = event.attributes
        assert told["gen_ai.evaluation.target"] == "support"
        assert told["gen_ai.evaluation.evaluator_version"] == told["otel_evals.scorer.version"]
        assert (told["gen_ai.evaluation.name"], told["gen_ai.evaluation.score.value"]) == ("answered", 1.0)


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_the_readme_s_example_does_what_the_readme_says() -> None:
    received = run("README", "after")
    polite = [s for s in received.otlp.spans if s.attributes.get("otel_evals.score.is_polite") == 0]
    assert len({s.trace_id for s in polite}) == CALLS
    assert len(received.events) == CALLS
    assert "otel_evals.score" in received.metrics
    assert received.printed.count("answered  It arrives on Monday.") == CALLS
    assert received.printed.count("● is_polite") == CALLS


def write() -> None:
    """Write into each page what landed."""
    for page in sys.argv[1:] or PAGES:
        path, block = ROOT / "docs" / "already" / f"{page}.md", landed(run(page, "after").otlp)
        old = shown(page)
        text = path.read_text(encoding="utf-8")
        if old is None:
            heading = "## What you get\n\n"
            told = "One call exports these spans with the code above:\n\n```text\n"
            text = text.replace(heading, f"{heading}{told}{block}```\n\n", 1)
        else:
            text = text.replace(f"```text\n{old}```", f"```text\n{block}```", 1)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
