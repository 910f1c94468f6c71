"""Beside each tracing library that is there already, in either order: all scores, and no span of the
application lost or doubled. Each page of docs/already is run as it stands, with the real library.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from otlp_receiver import OtlpReceiver
from stub_openai import StubOpenAI

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "support" / "adopted_app.py"
PLACE = os.environ.get("OTEL_EVALS_INTEROP", str(ROOT / ".venv-interop"))
PAGES = sorted(path.stem for path in (ROOT / "docs" / "already").glob("*.md") if path.stem != "index")
CALLS = 6
SCORE = "otel_evals.score.answered"


def environment(receiver: OtlpReceiver, stub: StubOpenAI) -> dict[str, str]:
    at = receiver.endpoint
    own = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "PYTHON"))}
    azure = f"InstrumentationKey=00000000-0000-0000-0000-000000000000;IngestionEndpoint={at}"
    return own | {
        "CALLS": str(CALLS),
        "OTEL_SERVICE_NAME": "app",
        "OTEL_EXPORTER_OTLP_ENDPOINT": at,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OPENAI_BASE_URL": stub.url,
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
        "APPLICATIONINSIGHTS_CONNECTION_STRING": azure,
        "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "true",
    }


def run(page: str, order: str) -> OtlpReceiver:
    python = Path(f"{PLACE}-already-{page}", "bin", "python")
    if not python.exists():
        pytest.skip("run tests/interop/setup.sh first")
    with OtlpReceiver() as receiver, StubOpenAI("It arrives on Monday.") as stub:
        done = subprocess.run(
            [python, PROGRAM, page, order],
            env=environment(receiver, stub),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return receiver


def of_application(receiver: OtlpReceiver) -> Counter[tuple[str, tuple[str, ...]]]:
    """The application's spans by name and attribute names, but for the scores."""
    return Counter(
        (s.name, tuple(sorted(key for key in s.attributes if not key.startswith("otel_evals."))))
        for s in receiver.spans
        if s.scope_name != "otel_evals"
    )


NOT_YET = {
    "azure": "the program did not end within 200 s on a busy machine",
    "mlflow": "mlflow-skinny alone lacks what its autolog imports",
}
CASES = [
    pytest.param(page, marks=pytest.mark.xfail(reason=NOT_YET[page], strict=False, run=page != "azure"))
    if page in NOT_YET
    else page
    for page in PAGES
]


@pytest.mark.interop
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", CASES)
def test_all_scores_arrive_and_nothing_else_changes(page: str) -> None:
    without = of_application(run(page, "without"))
    assert sum(without.values()) >= CALLS
    for order in ("after", "before"):
        received = run(page, order)
        assert of_application(received) == without, order
        scored = [s for s in received.spans if SCORE in s.attributes and s.scope_name != "otel_evals"]
        assert len({s.trace_id for s in scored}) == CALLS, order
        evaluations = [s for s in received.spans if s.name == "evaluate answered"]
        assert len(evaluations) == CALLS, order
        events = [log for log in received.logs if log.event_name == "gen_ai.evaluation.result"]
        assert len({log.trace_id for log in events}) == CALLS, order
        assert any(metric.name == "otel_evals.score" for metric in received.metrics), order
