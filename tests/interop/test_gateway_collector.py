"""Applications, Collectors, gateways and a Jaeger, all real: the scores stand where the traces are."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from otel_evals import Rule
from otel_evals.judges import ScriptedJudge
from otel_evals.scorers import rubric
from tests.pipeline.test_gateway import run_agent
from tests.support.components import Collector, Jaeger, component, otlp
from tests.support.gateways import GatewayProcess
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.servers import free_ports
from tests.support.stub_openai import StubOpenAI
from tests.support.traffic import Live
from tests.support.waits import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(280)]
EVENT_SCORE = "gen_ai.evaluation.score.value"
RETRIES = {"initial_interval": "200ms", "max_interval": "1s", "max_elapsed_time": "0s"}


def judge_replies(body: dict[str, Any]) -> Any:
    """A judge that finds one claim of two hallucinated."""
    told = {"claim": "It arrives on 2026-11-25.", "evidence": "2026-11-25", "verdict": "supported"}
    made_up = {"claim": "It was sent with ACME.", "verdict": "absent", "reason": "not there"}
    return {"claims": [told, made_up]}


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    with Jaeger(tmp_path_factory.mktemp("components") / "jaeger") as server:
        yield server


def to(endpoint: str, **more: Any) -> dict[str, Any]:
    """An exporter to an OTLP/HTTP endpoint that never gives up."""
    return {"endpoint": endpoint, "retry_on_failure": RETRIES, **more}


def collector(
    folder: Path,
    ports: Mapping[str, int],
    exporters: Mapping[str, Any],
    pipelines: Mapping[str, tuple[str, Sequence[str]]],
    filters: Mapping[str, str] | None = None,
) -> Collector:
    """A Collector: receivers by name, exporters, and the receiver and exporters of each pipeline.

    Args:
        folder: is made.
        ports: of the receivers; the first one's is the Collector's.
        exporters: as in YAML.
        pipelines: by name.
        filters: what the pipeline of that name drops, in OTTL.
    """
    processors: dict[str, Any] = {"batch": {"timeout": "50ms"}}
    for name, condition in (filters or {}).items():
        processors[f"filter/{name}"] = {"error_mode": "ignore", "traces": {"span": [condition]}}
    config = {
        "receivers": {name: otlp(port) for name, port in ports.items()},
        "processors": processors,
        "exporters": dict(exporters),
        "service": {
            "pipelines": {
                name: {
                    "receivers": [receiver],
                    "processors": [
                        *([f"filter/{name.partition('/')[2]}"] if filters and name != "traces" else ()),
                        "batch",
                    ],
                    "exporters": list(out),
                }
                for name, (receiver, out) in pipelines.items()
            }
        },
    }
    return Collector(folder, next(iter(ports.values())), config)


def exporting(endpoint: str) -> dict[str, str]:
    """The environment of a gateway whose scores go to an OTLP endpoint soon."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_BLRP_SCHEDULE_DELAY": "100",
        "OPENAI_API_KEY": "none",
    }


def test_the_page_has_configurations_of_the_collector(tmp_path: Path) -> None:
    """The Collector itself says so; parts are completed by what the page says around them."""
    page = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text(encoding="utf-8")
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    whole, kafka, split = (b for b in blocks if b.keys() & {"receivers", "exporters", "processors"})
    pipeline = {"receivers": ["otlp"], "exporters": ["kafka"]}
    kafka = {"receivers": whole["receivers"], **kafka, "service": {"pipelines": {"traces": pipeline}}}
    hops = {f"otlphttp/{n}": {"endpoint": "http://gateway:4318"} for n in ("first", "second")}
    split["processors"] |= whole["processors"]
    for config in (whole, kafka, {"receivers": whole["receivers"], "exporters": hops, **split}):
        path = tmp_path / "collector.yaml"
        path.write_text(yaml.safe_dump(config))
        done = subprocess.run(
            [component("bin/otelcol"), "validate", "--config", path], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("where", ["same_trace", "linked"])
def test_tap_scores_stand_beside_the_spans_in_jaeger(jaeger: Jaeger, tmp_path: Path, where: str) -> None:
    """Application -> Collector -> Jaeger; a copy -> gateway -> Collector -> Jaeger, and events to a sink."""
    inlet, scores, gateway_port = free_ports(3)
    with ExitStack() as stack:
        judge = stack.enter_context(StubOpenAI(judge_replies))
        events = stack.enter_context(OtlpReceiver())
        front = collector(
            tmp_path / "collector",
            {"otlp": inlet, "otlp/scores": scores},
            {
                "otlphttp/jaeger": to(jaeger.endpoint),
                "otlphttp/gateway": to(f"http://127.0.0.1:{gateway_port}"),
                "otlphttp/events": to(events.endpoint),
            },
            {
                "traces": ("otlp", ["otlphttp/jaeger", "otlphttp/gateway"]),
                "traces/scores": ("otlp/scores", ["otlphttp/jaeger"]),
                "logs/scores": ("otlp/scores", ["otlphttp/events"]),
            },
        )
        stack.enter_context(front)
        model = {"model": "openai/any", "api_base": judge.url}
        rules = ["answered", {"scorer": "hallucination", "options": {"model": model}}]
        gateway = GatewayProcess(
            tmp_path,
            rules,
            {"http": f"127.0.0.1:{gateway_port}"},
            exporting(f"http://127.0.0.1:{scores}"),
            evaluation_spans=where,
            metrics=False,
        )
        stack.enter_context(gateway)
        run_agent(front.endpoint, 10)
        records = eventually(lambda: len(found := gateway.records()) >= 10 and found)
        received = events.wait_for_logs(20, timeout=60)
        assert Counter(e.attributes["gen_ai.evaluation.name"] for e in received) == {
            "answered": 10,
            "hallucination": 10,
        }
        assert {e.trace_id for e in received} == {r["trace_id"] for r in records}
        for record in records:
            look = _in_the_trace if where == "same_trace" else _linked
            look(jaeger, record)


def _in_the_trace(jaeger: Jaeger, record: Mapping[str, Any]) -> None:
    """The evaluation spans are children of the judged span, from a service of their own."""
    spans = eventually(lambda: len(found := jaeger.trace(record["trace_id"])) >= 6 and found)
    by_name = {span["operationName"]: span for span in spans if span["operationName"].startswith("evaluate")}
    assert by_name.keys() == {"evaluate answered", "evaluate hallucination"}
    (judged,) = (s for s in spans if s["operationName"] == "invoke_agent support")
    assert "POST /chat" in {s["operationName"] for s in spans}
    values = {e["scorer"]: e["value"] for e in record["evaluations"]}
    for name, span in by_name.items():
        (above,) = (r for r in span["references"] if r["refType"] == "CHILD_OF")
        assert (above["traceID"], above["spanID"]) == (judged["traceID"], judged["spanID"])
        assert span["tags"][EVENT_SCORE] == values[name.removeprefix("evaluate ")]
        assert (span["service"], judged["service"]) == ("otel-evals-gateway", "unknown_service:python")


def _linked(jaeger: Jaeger, record: Mapping[str, Any]) -> None:
    """The evaluation that asked a judge has a trace of its own, linked; the judged trace is as it was."""
    (evaluation,) = (e for e in record["evaluations"] if e["scorer"] == "hallucination")
    tags = {"otel_evals.evaluation.id": evaluation["evaluation_id"]}
    (trace,) = eventually(lambda: jaeger.find("otel-evals-gateway", **tags))
    (own,) = (span for span in trace if span["operationName"] == "evaluate hallucination")
    spans = eventually(lambda: len(found := jaeger.trace(record["trace_id"])) >= 4 and found)
    assert len(spans) == 4
    (judged,) = (s for s in spans if s["operationName"] == "invoke_agent support")
    (link,) = own["references"]
    assert (link["traceID"], link["spanID"]) == (judged["traceID"], judged["spanID"])
    assert own["traceID"] != judged["traceID"]
    assert own["tags"][EVENT_SCORE] == evaluation["value"] == 0.5


def test_two_gateways_behind_a_collector_that_splits_by_trace_id(tmp_path: Path) -> None:
    """Every trace comes to one of them as a whole."""
    inlet, *ports = free_ports(3)
    halves = {"first": "^[89a-f]", "second": "^[0-7]"}
    with ExitStack() as stack:
        gateways = []
        for name, port in zip(halves, ports, strict=True):
            (tmp_path / name).mkdir()
            gateways.append(
                GatewayProcess(tmp_path / name, ["answered"], {"http": f"127.0.0.1:{port}"}, metrics=False)
            )
            stack.enter_context(gateways[-1])
        front = collector(
            tmp_path / "collector",
            {"otlp": inlet},
            {f"otlphttp/{n}": to(f"http://127.0.0.1:{p}") for n, p in zip(halves, ports, strict=True)},
            {f"traces/{name}": ("otlp", [f"otlphttp/{name}"]) for name in halves},
            {name: f'IsMatch(trace_id.string, "{dropped}")' for name, dropped in halves.items()},
        )
        stack.enter_context(front)
        run_agent(front.endpoint, 60)
        eventually(lambda: sum(len(g.records()) for g in gateways) >= 60)
        judged = [[r["trace_id"] for r in gateway.records()] for gateway in gateways]
        received = [g.page("/stats")[1]["items"]["traces"]["received"] for g in gateways]
    assert len({*judged[0], *judged[1]}) == sum(map(len, judged)) == 60
    assert all(trace_id[0] in "01234567" for trace_id in judged[0])
    assert all(trace_id[0] in "89abcdef" for trace_id in judged[1])
    assert received == [4 * len(judged[0]), 4 * len(judged[1])]


def test_the_page_s_tail_sampling_keeps_bad_answers_and_their_evaluations(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
    (block,) = (b for b in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "tail_sampling" in b)
    processors = yaml.safe_load(block.replace("grounded_in_tools", "rubric"))["processors"]
    processors["tail_sampling"]["decision_wait"] = "2s"
    verdicts = ["unmet" if number % 2 else "met" for number in range(6)]
    replies = [{"criteria": [{"criterion": 1, "verdict": each, "reason": "no day"}]} for each in verdicts]
    rule = Rule(rubric(ScriptedJudge({"analyze": replies}), criteria="It names a day"))
    (port,) = free_ports(1)
    with OtlpReceiver() as backend:
        config = {
            "receivers": {"otlp": otlp(port)},
            "processors": processors,
            "exporters": {"otlphttp": to(backend.endpoint)},
            "service": {
                "pipelines": {
                    "traces": {
                        "receivers": ["otlp"],
                        "processors": ["tail_sampling"],
                        "exporters": ["otlphttp"],
                    }
                }
            },
        }
        with Collector(tmp_path / "collector", port, config) as server:
            exporter = OTLPSpanExporter(f"{server.endpoint}/v1/traces")
            with Live(rule, exporter=exporter, batch=True) as live:
                for _ in replies:
                    live.run()
                assert live.flush()
                evaluations = live.scored.evaluations
            bad = {e.trace_id for e in evaluations if e.outcome.value == 0.0}
            # Three judged traces of three spans, and three evaluations in traces of their own.
            backend.wait_for_spans(3 * 3 + 3)
            time.sleep(1.0)
    roots = Counter(span.name for span in backend.spans if span.parent_span_id is None)
    assert roots == {"invoke_agent support": 3, "evaluate rubric": 3}
    assert {s.trace_id for s in backend.spans if s.name == "invoke_agent support"} == bad
