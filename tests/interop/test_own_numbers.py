"""What real backends make of the application's traces is the same with scoring as without.

Latency, tokens, cost, number of spans and errors, of each trace and of the whole project.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import otel_evals
from tests.support.browser import CHROMIUM, browser_page, picture
from tests.support.fixed_traffic import RUNS, issue, provider_for, start_scoring
from tests.support.waits import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


# --- Phoenix ---

_PROJECTS = """{projects {edges {node {
  id name traceCount recordCount tokenCountTotal costSummary {total {cost}}
  p50: latencyMsQuantile(probability: 0.5) p99: latencyMsQuantile(probability: 0.99)
  spans(first: 100) {edges {node {
    name latencyMs propagatedStatusCode cumulativeTokenCountTotal trace {numSpans latencyMs}
  }}}
}}}}"""


def phoenix_project(phoenix: str, name: str) -> dict[str, Any]:
    """All numbers of a project; Phoenix computes times in floats, so they are rounded."""
    answer = httpx.post(f"{phoenix}/graphql", json={"query": _PROJECTS}, timeout=60).json()["data"]
    found = {node["name"]: node for node in (edge["node"] for edge in answer["projects"]["edges"])}
    project = found.get(name, {"spans": {"edges": []}, "traceCount": 0})
    spans = [edge["node"] for edge in project.pop("spans")["edges"]]
    project.pop("name", None)
    rounded = json.loads(json.dumps([project, spans]), parse_float=lambda text: round(float(text), 2))
    return {**rounded[0], "spans": sorted(map(str, rounded[1]))}


def test_in_phoenix_a_project_s_numbers_stay_its_own(phoenix: str, tmp_path: Path) -> None:
    issue(provider_for("plain", f"{phoenix}/v1/traces"))
    scored = provider_for("scored", f"{phoenix}/v1/traces")
    start_scoring(scored)
    issue(scored)

    def read(name: str, traces: int) -> Any:
        def complete(project: dict[str, Any]) -> bool:
            done = project["traceCount"] == traces and len(project["spans"]) == 2 * traces
            return done and (name == "scored-evaluations" or project["costSummary"]["total"]["cost"])

        return eventually(lambda: phoenix_project(phoenix, name), complete)

    plain, evaluations = read("plain", RUNS), read("scored-evaluations", 2 * RUNS)
    found = read("scored", RUNS)
    project_id = found.pop("id")
    plain.pop("id")
    assert found == plain
    assert sum("'evaluate asked'" in span for span in evaluations["spans"]) == RUNS
    look_at_phoenix(phoenix, tmp_path, project_id)


def look_at_phoenix(phoenix: str, folder: Path, project: str) -> None:
    """A picture of the project, where there is a browser."""
    if CHROMIUM is None:
        return
    with browser_page() as page:
        page.goto(f"{phoenix}/projects/{project}/traces", wait_until="domcontentloaded")
        page.get_by_text("invoke_agent support").first.wait_for(timeout=60_000)
        assert page.get_by_text("evaluate asked").count() == 0
        page.wait_for_timeout(2_000)
        page.screenshot(path=picture(folder, "own-numbers-phoenix.png"))


# --- MLflow ---


def mlflow_experiment(mlflow: str, name: str) -> str:
    created = httpx.post(f"{mlflow}/api/2.0/mlflow/experiments/create", json={"name": name}, timeout=60)
    return str(created.json()["experiment_id"])


def mlflow_traces(mlflow: str, experiment: str) -> list[Any]:
    """Duration, state, tokens, cost and span count of each trace of an experiment."""
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment}}
    body = {"locations": [place], "max_results": 100}
    answer = httpx.post(f"{mlflow}/api/3.0/mlflow/traces/search", json=body, timeout=60).json()
    numbers = ("mlflow.trace.tokenUsage", "mlflow.trace.cost", "mlflow.trace.sizeStats")
    return sorted(
        (t["execution_duration"], t["state"], *(t["trace_metadata"].get(n, "") for n in numbers))
        for t in answer.get("traces", [])
    )


def test_in_mlflow_a_trace_s_numbers_stay_its_own_and_so_do_the_experiment_s(mlflow: str) -> None:
    """MLflow takes the experiment from the exporter: evaluations have an exporter of their own."""
    places = {name: mlflow_experiment(mlflow, name) for name in ("plain", "scored", "mixed", "evaluations")}
    made = {
        name: provider_for(name, f"{mlflow}/v1/traces", {"x-mlflow-experiment-id": place})
        for name, place in places.items()
    }
    issue(made["plain"])
    start_scoring(made["scored"], evaluation_tracer_provider=made["evaluations"])
    issue(made["scored"])
    made["evaluations"].shutdown()
    start_scoring(made["mixed"])
    issue(made["mixed"])

    def read(name: str, traces: int) -> Any:
        return eventually(lambda: mlflow_traces(mlflow, places[name]), lambda found: len(found) == traces)

    plain = read("plain", RUNS)
    assert {trace[1] for trace in plain} == {"OK"}
    assert read("scored", RUNS) == plain
    assert {trace[1] for trace in read("evaluations", 2 * RUNS)} == {"OK", "ERROR"}
    mixed = read("mixed", 3 * RUNS)
    assert [trace for trace in mixed if trace in plain] == plain, "the agent's, among the evaluations"


@pytest.fixture(autouse=True)
def stopped() -> Any:
    yield
    otel_evals.shutdown()
