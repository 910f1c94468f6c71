"""What docs/attachment.md and the dashboard ask Loki and Zipkin, asked of the real ones."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from otel_evals import Pipeline, Run, Score, scorer
from otel_evals._internal.config.loader import build_config
from otel_evals_monitor._internal.report.inputs import TraceLink
from tests.support import PYTHONPATH
from tests.support.loki_server import Loki, loki_program, loki_server
from tests.support.servers import clean_environment, interop_program
from tests.support.traffic import agent_run
from tests.support.waits import eventually
from tests.support.zipkin_server import zipkin_program, zipkin_server

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "attachment.md").read_text(encoding="utf-8")
ANSWERS = ["Sorry.", "It arrives on Monday.", "Sorry.", "Tomorrow.", "Today."]


@scorer(version="1", inline=True)
def answered(run: Run) -> Score:
    """Whether there is an answer."""
    given = run.output != "Sorry."
    return Score(value=float(given), label="given" if given else "refused")


def send_events(loki: Loki) -> list[str]:
    """Score runs of the service `shop`, whose events go to Loki; returns the traces that were refused one."""
    logs = LoggerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
    logs.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(f"{loki.url}/otlp/v1/logs")))
    pipeline = Pipeline(build_config([answered], (), grace=0.0), logger_provider=logs)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(pipeline.spans)
    traces = [(f"{agent_run(provider.get_tracer('shop'), answer=a):032x}", a) for a in ANSWERS]
    assert pipeline.force_flush(100_000)
    pipeline.shutdown()
    logs.shutdown()
    return sorted(trace for trace, answer in traces if answer == "Sorry.")


def test_loki_finds_low_scores_and_computes_their_mean() -> None:
    program = loki_program()
    if program is None:
        pytest.skip("LOKI_BIN names no Loki, and `recipes.sh loki` has built none")
    dashboard = json.loads((ROOT / "examples" / "grafana" / "dashboard.json").read_text(encoding="utf-8"))
    targets = [target for panel in dashboard["panels"] for target in panel["targets"]]
    (shown,) = [target["expr"] for target in targets if target["datasource"]["type"] == "loki"]
    low, mean = re.findall(r"```logql\n(.+?)```", PAGE, re.S)[0].splitlines()
    with loki_server(program) as loki:
        refused = send_events(loki)
        for query in (low, shown):
            found = eventually(lambda query=query: loki.records(query), lambda found: len(found) == 2)
            assert sorted(each["trace_id"] for each in found) == refused, query
            assert all(len(each["span_id"]) == 16 for each in found)
            assert {each["gen_ai_evaluation_score_label"] for each in found} == {"refused"}
        (value,) = eventually(lambda: loki.values(mean), lambda values: values == [pytest.approx(0.6)])
        assert value == pytest.approx(3 / 5)


TO_ZIPKIN = """
import sys
sys.path.append(sys.argv[2])  # for the exporter alone: all else is found before
import otel_evals
from opentelemetry.exporter.zipkin.json import ZipkinExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from otel_evals import Score, scorer
from tests.support.traffic import agent_run

@scorer(version="1", inline=True)
def answered(run) -> Score:
    given = run.output != "Sorry."
    return Score(value=float(given), label="given" if given else "refused")

provider = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
provider.add_span_processor(SimpleSpanProcessor(ZipkinExporter(endpoint=sys.argv[1] + "/api/v2/spans")))
otel_evals.configure(rules=[answered], tracer_provider=provider, metrics=False)
for answer in sys.argv[3:]:
    print(f"{agent_run(provider.get_tracer('shop'), answer=answer):032x}")
assert otel_evals.force_flush(100_000)
otel_evals.shutdown()
provider.shutdown()
"""


def test_zipkin_finds_traces_by_label_and_shows_the_score() -> None:
    """Spans are sent by the exporter that the page names, which stands in the SDKs' environment."""
    program, python = zipkin_program(), interop_program("python", "-sdks")
    if program is None or python is None:
        pytest.skip("run tests/interop/setup.sh first, where there are Java and Maven")
    (asked,) = re.findall(r"annotationQuery=([^']+)'", PAGE)
    (path,) = re.findall(r"curl -G http://localhost:9411(\S+)", PAGE)
    (packages,) = python.parents[1].glob("lib/python3*/site-packages")
    with zipkin_server(program) as zipkin:
        environment = clean_environment() | {"PYTHONPATH": PYTHONPATH}
        command = [sys.executable, "-c", TO_ZIPKIN, zipkin, str(packages), *ANSWERS]
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
        traces = done.stdout.split()
        refused = sorted(t for t, answer in zip(traces, ANSWERS, strict=True) if answer == "Sorry.")
        parameters = {"serviceName": "shop", "annotationQuery": asked, "limit": "100"}
        found = eventually(
            lambda: httpx.get(zipkin + path, params=parameters, timeout=30).raise_for_status().json(),
            lambda found: len(found) == len(refused),
        )
        assert sorted(trace[0]["traceId"] for trace in found) == refused
        scores = [span["tags"].get("otel_evals.score.answered") for trace in found for span in trace]
        assert sorted(float(score) for score in scores if score is not None) == [0.0, 0.0]
        page = str(TraceLink.parse(f"zipkin={zipkin}").template).format(trace_id=refused[0])
        assert "<html" in httpx.get(page, timeout=30).raise_for_status().text
