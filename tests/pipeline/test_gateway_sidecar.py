"""The gateway as a sidecar, by the lines of docs/deploy.md: a real process, and real OTLP over HTTP."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.support.otlp_receiver import OtlpReceiver
from tests.support.servers import clean_environment, free_ports, served
from tests.support.traffic import agent_run

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
SECTION = PAGE.split("### The gateway as a sidecar")[1].split("\n### ")[0]
TAP, COMMAND, CODE, INLINE = re.findall(r"```\w+\n(.+?)```", SECTION, re.S)


@contextmanager
def sidecar(config: str, folder: Path, backend: OtlpReceiver) -> Iterator[Callable[[str], str]]:
    """The page's command with this configuration; yields what puts this test's addresses into a text."""
    (port,) = free_ports(1)

    def here(text: str) -> str:
        text = text.replace("http://collector:4318", backend.endpoint)
        return text.replace("127.0.0.1:4318", f"127.0.0.1:{port}").replace("gateway.yaml", str(path))

    path = folder / "gateway.yaml"
    path.write_text(here(config), encoding="utf-8")
    command = ["env", *shlex.split(here(COMMAND))]
    programs = str(Path(sys.executable).parent)
    environment = {**clean_environment(), "PATH": f"{programs}:/usr/bin:/bin"}
    with served(lambda _: command, lambda _: environment, f"http://127.0.0.1:{port}/readyz"):
        yield here


@pytest.fixture
def backend() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.mark.slow
def test_five_lines_score_outside_the_application(backend: OtlpReceiver, tmp_path: Path) -> None:
    """The gateway scores a copy; its own exporters get the spans without scores."""
    assert len([line for line in (TAP + COMMAND + CODE).splitlines() if line]) == 5
    provider, exported = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    with sidecar(f'gateway: {{http: "127.0.0.1:4318"}}\n{TAP}', tmp_path, backend) as here:
        exec(compile(here(CODE), "docs/deploy.md", "exec"), {"provider": provider})
        trace_id = agent_run(provider.get_tracer("app"))
        provider.shutdown()
        backend.wait(lambda r: r.logs)
    (event,) = backend.logs
    root = next(s for s in exported.get_finished_spans() if s.parent is None)
    assert root.context is not None
    assert (event.trace_id, event.span_id) == (f"{trace_id:032x}", f"{root.context.span_id:016x}")
    assert event.attributes["gen_ai.evaluation.name"] == "answered"
    assert event.attributes["gen_ai.evaluation.score.value"] == 1.0
    assert len(exported.get_finished_spans()) == 3
    assert not [key for key in root.attributes or {} if key.startswith("otel_evals.")]


@pytest.mark.slow
def test_inline_the_spans_that_pass_through_carry_their_scores(
    backend: OtlpReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application has its exporter as before; an environment variable points it to the gateway."""
    (variable,) = re.findall(r"`OTEL_EXPORTER_OTLP_ENDPOINT=(http://127.0.0.1:4318)`", SECTION)
    with sidecar(INLINE, tmp_path, backend) as here:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", here(variable))
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        agent_run(provider.get_tracer("app"))
        provider.shutdown()
        backend.wait(lambda r: len(r.spans) >= 3)
    (root,) = [s for s in backend.spans if s.name == "invoke_agent support"]
    assert root.attributes["otel_evals.score.answered"] == 1.0
