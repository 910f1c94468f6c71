"""A real Prometheus computes mean and interval of all runs of two processes, and raises the alarm."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from otel_evals.statistics import Sums, estimate, total
from tests.support.prometheus_server import RULES, Prometheus, prometheus_server
from tests.support.servers import clean_environment
from tests.support.waits import SECONDS, eventually

pytestmark = pytest.mark.interop
ROOT = Path(__file__).parents[2]

if not (shutil.which("prometheus") and shutil.which("promtool")):
    pytest.skip("run tests/interop/setup.sh first: it installs Prometheus", allow_module_level=True)


class Process:
    """A process whose agents' traffic is scored, and whose metrics can be scraped."""

    def __init__(self, seed: int, runs: int) -> None:
        program = ROOT / "tests" / "support" / "sampled_traffic.py"
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(seed), str(runs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_environment() | {"PYTHONPATH": str(ROOT)},
            text=True,
        )
        self.port = self.said()["port"]

    def said(self) -> Any:
        """What it prints next."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def go(self) -> None:
        """Let its traffic begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@pytest.fixture(scope="module")
def scraped() -> Iterator[tuple[Prometheus, Sums, float]]:
    """Prometheus, the sums that both processes know of, and the mean of all their runs."""
    with ExitStack() as stack:
        processes = [stack.enter_context(Process(seed, 1_000)) for seed in (1, 2)]
        targets = [f"127.0.0.1:{process.port}" for process in processes]
        prometheus = stack.enter_context(prometheus_server(targets, 0.97, "passes"))
        eventually(lambda: prometheus.value("count(otel_evals_estimate_score_total)") == 2)
        for process in processes:
            process.go()
        told = [process.said() for process in processes]
        sums = total(Sums(**each["sums"]) for each in told)
        seen = 'sum(otel_evals_estimate_runs_total{otel_evals_outcome="scored"})'
        eventually(lambda: math.isclose(prometheus.value(seen) or 0.0, sums.w))
        yield prometheus, sums, sum(each["mean"] for each in told) / 2


@pytest.mark.parametrize(
    "command",
    ["check rules otel-evals.rules.yml otel-evals-gateway.rules.yml", "test rules otel-evals.test.yml"],
)
def test_promtool_has_no_objection(command: str) -> None:
    done = subprocess.run(["promtool", *command.split()], cwd=RULES, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_configuration_is_one() -> None:
    done = subprocess.run(["promtool", "check", "config", RULES / "prometheus.yml"], capture_output=True)
    assert done.returncode == 0


def test_prometheus_computes_the_mean_and_the_interval(scraped: tuple[Prometheus, Sums, float]) -> None:
    """Three digits of the mean; `increase` guesses beyond the last scrape, so the interval is near ours."""
    prometheus, sums, truth = scraped
    own = estimate(sums)
    assert own.mean is not None
    assert own.interval is not None
    mean, interval = own.mean, own.interval

    def near(name: str, value: float, tolerance: float) -> bool:
        return abs((prometheus.value(f"otel_evals:score:{name}1h") or -1.0) - value) < tolerance

    eventually(lambda: near("mean", mean, 0.0005))
    eventually(lambda: near("low", interval.low, 0.002))
    eventually(lambda: near("high", interval.high, 0.002))
    assert truth in interval
    plain = prometheus.value("sum(otel_evals_score_sum) / sum(otel_evals_score_count)")
    assert plain is not None
    assert plain < 0.6, "the histogram of what was sampled is no estimate"


def test_the_queries_of_dashboard_and_page_have_answers(scraped: tuple[Prometheus, Sums, float]) -> None:
    prometheus, _, _ = scraped
    dashboard = json.loads((ROOT / "examples" / "grafana" / "dashboard.json").read_text())
    asked = [target for panel in dashboard["panels"] for target in panel["targets"]]
    queries = [target["expr"] for target in asked if target["datasource"]["type"] == "prometheus"]
    page = (ROOT / "docs" / "attachment.md").read_text()
    queries += page.split("```promql\n")[-1].split("```")[0].splitlines()
    assert len(queries) == 10
    for query in queries:
        series = query.partition(" > ")[0]
        if "missing_share" in query:  # no score is missing here: it has no series, and the query is one
            assert prometheus.value(f"count({series})") is None
        else:
            eventually(lambda series=series: prometheus.value(f"count({series})"))


def test_a_mean_below_the_floor_raises_the_alarm(scraped: tuple[Prometheus, Sums, float]) -> None:
    prometheus, _, _ = scraped
    eventually(lambda: "OtelEvalsBelowFloor" in prometheus.firing())
    assert "OtelEvalsScoresMissing" not in prometheus.firing()
