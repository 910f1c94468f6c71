"""The table of docs/compatibility.md: each result in it is what the set-up's runs gave.

`python -m tests.interop.test_setups` writes the table, `... NAME` only these rows.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

from tests.support.adopted_app import SECTIONS
from tests.support.setup_runs import CALLS, PAGES, SETUPS, Received, run

TABLE = Path(__file__).parents[2] / "docs" / "compatibility.md"
HEAD = "| set-up | result | line to add | reason |\n|---|---|---|---|\n"
ORDERS = {"after": "after it", "before": "before it"}


@dataclass(frozen=True)
class Row:
    title: str
    environment: str = "here"
    line: str = ""
    """What makes the set-up whole; of the form `NAME=value`, an environment variable."""
    reason: str = ""
    orders: tuple[str, ...] = ("after", "before")
    program: str = SETUPS
    by: str = ""
    """A command that starts Python."""


def page(name: str, title: str, line: str = "", reason: str = "") -> Row:
    path, heading = SECTIONS[name]
    anchor = "-".join(re.findall(r"\w+", heading.lower()))
    link = f"{path.relative_to(TABLE.parent)}#{anchor}"
    return Row(f"[{title}]({link})", f"already-{name}", line, reason, program=PAGES)


def framework(title: str, line: str = "") -> Row:
    return Row(title, "setups-frameworks", line, "records no content by default" if line else "")


def distribution(title: str) -> Row:
    start = "opentelemetry-instrument"
    return Row(f"{title}, by `{start}`", "setups-vendors", orders=("after",), by=start)


ROWS = {
    "azure": page("azure", "Azure Monitor"),
    "fastapi": page("fastapi", "FastAPI with its own provider"),
    "langfuse": page("langfuse", "Langfuse"),
    "logfire": page("logfire", "Logfire"),
    "mlflow": page(
        "mlflow",
        "MLflow",
        "`MLFLOW_USE_DEFAULT_TRACER_PROVIDER=false`",
        "its provider is not the global one",
    ),
    "mlflow_own": Row(
        "MLflow with that provider",
        "already-mlflow",
        "`tracer_provider=get_bridged_tracer_provider()`",
        "the same",
        ("after",),
    ),
    "openlit": page("openlit", "OpenLIT"),
    "phoenix": page("phoenix", "Phoenix"),
    "traceloop": page("traceloop", "Traceloop"),
    "agent_framework": framework("Agent Framework", "`ENABLE_SENSITIVE_DATA=true`"),
    "crewai": framework("CrewAI with OpenInference"),
    "adk": framework("Google ADK", "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`"),
    "haystack": framework("Haystack with OpenInference"),
    "langsmith": framework("LangSmith, in OpenTelemetry mode"),
    "llamaindex": framework("LlamaIndex with OpenInference"),
    "strands": framework("Strands"),
    "ddtrace": Row("ddtrace", "setups-servers"),
    "elastic": distribution("Elastic's distribution"),
    "honeycomb": Row("Honeycomb's distribution, with `setuptools<80`, which it imports", "setups-honeycomb"),
    "sentry": Row("Sentry with its OTLP integration", "setups-servers"),
    "splunk": distribution("Splunk's distribution"),
    "django_celery": Row("Django with Celery", "setups-servers"),
    "gevent": Row("gunicorn with gevent's workers"),
    "uvicorn": Row(
        "gunicorn with Uvicorn's workers", line="`handle_sigterm=True`", reason="they end by SIGTERM"
    ),
    "gunicorn": Row("gunicorn with its own workers"),
    "lambda": Row(
        "Lambda, flushing the tracer provider after requests",
        line="`otel_evals.force_flush()` there too",
        reason="the process is frozen, then killed",
    ),
    "spawn": Row(
        "`multiprocessing` with `spawn`", line="`configure` in the child", reason="it shares no memory"
    ),
    "forks": Row(
        "forks that end by `os._exit`, as RQ's and Airflow's tasks",
        line="`otel_evals.force_flush()`, and the provider's, at the task's end",
        reason="`os._exit` skips exit handlers",
    ),
    "notebook": Row("notebook"),
    "xdist": Row("pytest-xdist"),
    "ray": Row(
        "Ray",
        "setups-servers",
        "`configure` in the task, `otel_evals.force_flush()` at its end",
        "workers share no memory, and are killed",
    ),
    "two_providers": Row(
        "two tracer providers, agents not on the global one",
        line="`tracer_provider=` theirs",
        reason="one provider is scored",
        orders=("after",),
    ),
    "wrappers": Row("own wrappers of span processors"),
    "wrappers_without_flush": Row("own wrappers that do not forward `force_flush`"),
}


@pytest.mark.interop
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_table_is_what_its_runs_give(name: str) -> None:
    assert rendered(name) in TABLE.read_text(encoding="utf-8").splitlines()
    if ROWS[name].line:
        assert result(name, line=True) == "whole"


def test_each_row_of_the_table_has_runs() -> None:
    rows = re.findall(r"^\| (.+?) \| .+? \| (.*?) \| (.*?) \|$", table(), re.M)[1:]
    assert rows == [(row.title, row.line or "none", row.reason) for row in ROWS.values()]


def table() -> str:
    below = TABLE.read_text(encoding="utf-8").partition(HEAD)[2].splitlines(keepends=True)
    return HEAD + "".join(takewhile(lambda line: line.startswith("|"), below))


def rendered(name: str, found: str = "") -> str:
    row = ROWS[name]
    return f"| {row.title} | {found or result(name, line=False)} | {row.line or 'none'} | {row.reason} |"


def result(name: str, *, line: bool) -> str:
    """What the set-up's runs gave, in each order."""
    row = ROWS[name]
    variables = {"LINE": row.line} if line else {}
    if line and (variable := re.fullmatch(r"`([A-Z_]+)=(\w+)`", row.line)):
        variables[variable[1]] = variable[2]

    spans = without(name, frozenset(variables.items() - {("LINE", row.line)}))
    found = {order: lacks(ran(name, order, variables), spans) for order in row.orders}
    if len(set(found.values())) == 1:
        return found[row.orders[0]]
    return "; ".join(f"{ORDERS[order]}: {words}" for order, words in found.items())


@cache
def without(name: str, variables: frozenset[tuple[str, str]]) -> Counter[object]:
    """The application's spans without otel-evals, which no line for it changes."""
    return ran(name, "without", dict(variables)).application


def ran(name: str, order: str, variables: Mapping[str, str]) -> Received:
    row = ROWS[name]
    return run(row.environment, row.program, name, order, by=row.by, variables=variables)


def lacks(received: Received, spans: Counter[object]) -> str:
    """What is missing or other than without otel-evals, and if a warning tells."""
    scores, own = len({s.trace_id for s in received.scored}), received.application
    words = [f"scores on {scores} of {CALLS} runs"] * (scores != CALLS)
    words += [f"{len(received.events)} of {CALLS} events"] * (len(received.events) != CALLS)
    words += ["spans are lost"] * bool(spans - own) + ["spans are added"] * bool(own - spans)
    words += ["a warning"] * bool(received.warnings)
    return ", ".join(words) or "whole"


def write() -> None:
    """Write the table into the page; of the rows that are not named, the results stay."""
    old = dict(re.findall(r"^\| (.+?) \| (.+?) \|", table(), re.M))
    chosen = sys.argv[1:] or list(ROWS)
    lines = [rendered(name, "" if name in chosen else old[row.title]) for name, row in ROWS.items()]
    text = TABLE.read_text(encoding="utf-8")
    TABLE.write_text(text.replace(table(), HEAD + "\n".join(lines) + "\n"), encoding="utf-8")


if __name__ == "__main__":
    write()
