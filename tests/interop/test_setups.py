"""The set-ups in docs/compatibility.md: all scores arrive, and no span of the application changes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop.test_already import EVENT, PLACE, environment, scored
from tests.support import PYTHONPATH
from tests.support.azure_ingestion import AzureIngestion
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.stub_openai import StubOpenAI

CALLS = 3
HERE = "here"
"""The environment of the tests; the others are made by tests/interop/setup.sh."""


@dataclass(frozen=True)
class Row:
    environment: str
    orders: tuple[str, ...] = ("after", "before")
    by: str = ""
    """A command that starts Python."""


ROWS = {
    "strands": Row("frameworks"),
    "adk": Row("frameworks"),
    "crewai": Row("frameworks"),
    "haystack": Row("frameworks"),
    "llamaindex": Row("frameworks"),
    "langsmith": Row("frameworks"),
    "agent_framework": Row("frameworks"),
    "django_celery": Row("servers"),
    "sentry": Row("servers"),
    "ddtrace": Row("servers", ("after",)),
    "ray": Row("servers", ("after",)),
    "elastic": Row("vendors", ("after",), "opentelemetry-instrument"),
    "splunk": Row("vendors", ("after",), "opentelemetry-instrument"),
    "honeycomb": Row("honeycomb"),
    "wrappers": Row(HERE),
    "two_providers": Row(HERE, ("after",)),
    "lambda": Row(HERE),
    "spawn": Row(HERE, ("after",)),
}


@pytest.mark.interop
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ROWS)
def test_all_scores_arrive_and_nothing_else_changes(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    without, _ = run(name, "without", tmp_path)
    spans = application(without)
    assert sum(spans.values()) >= CALLS
    for order in row.orders:
        received, printed = run(name, order, tmp_path)
        assert application(received) == spans, (order, printed)
        assert len({s.trace_id for s in scored(received)}) == CALLS, (order, printed)
        assert len({log.trace_id for log in received.logs if log.event_name == EVENT}) == CALLS, order
        services = {str(s.resource["service.name"]) for s in received.spans}
        assert services <= {"app", "app-evaluations"}, order


def run(name: str, order: str, folder: Path) -> tuple[OtlpReceiver, str]:
    row = ROWS[name]
    there = f"{PLACE}-setups-{row.environment}/bin/python"
    python = Path(sys.executable if row.environment == HERE else there)
    if not python.exists():
        pytest.skip("run tests/interop/setup.sh first")
    start = [python.with_name(row.by)] if row.by else []
    with OtlpReceiver() as receiver, StubOpenAI("It arrives on Monday.") as stub, AzureIngestion() as azure:
        own = environment(receiver, stub, azure)
        done = subprocess.run(
            [*start, python, "-m", "tests.support.setups", name, order],
            env=own | {"CALLS": str(CALLS), "PYTHONPATH": PYTHONPATH},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return receiver, done.stderr


def application(received: OtlpReceiver) -> Counter[tuple[str, tuple[str, ...]]]:
    """The application's spans by name, without ids in it, and attribute names, without scores."""
    return Counter(
        (
            re.sub(r"[0-9a-f-]{20,}", "ID", s.name),
            tuple(sorted(key for key in s.attributes if not key.startswith("otel_evals."))),
        )
        for s in received.spans
        if s.scope_name != "otel_evals"
    )
