"""A week of stored traces is scored at once, and the day on which answers failed is found.

python backfilled_week.py    in an empty folder; exits with 0 if report, JSON and page show the drop
"""

from __future__ import annotations

import json
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DAY, BAD_DAY, RUNS = 86_400, 4, 60
END = int(time.time()) // DAY * DAY - DAY


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def said(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def span(day: int, number: int) -> dict[str, Any]:
    """An agent's span; on the bad day, half of the answers are refusals."""
    start = END - (7 - day) * DAY + number * DAY // RUNS
    refused = day == BAD_DAY and number % 2 == 0
    text = "I cannot help with that." if refused else "It arrives on Friday."
    return {
        "traceId": f"{day * 10_000 + number + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "name": "invoke_agent support",
        "startTimeUnixNano": str(start * 10**9),
        "endTimeUnixNano": str((start + 2) * 10**9),
        "attributes": [
            attribute("gen_ai.operation.name", "invoke_agent"),
            attribute("gen_ai.agent.name", "support"),
            attribute("gen_ai.input.messages", said("user", "When does it arrive?")),
            attribute("gen_ai.output.messages", said("assistant", text)),
            attribute("app.region", "eu" if number % 3 else "us"),
        ],
    }


def run(*words: str) -> str:
    return subprocess.run(["otel-evals", *words], check=True, capture_output=True, text=True).stdout


def mean_of(day: int) -> float:
    ends = (datetime.fromtimestamp(END - (7 - each) * DAY, UTC).isoformat() for each in (day, day + 1))
    since, until = ends
    found = json.loads(run("report", "results.db", "--since", since, "--until", until, "--json"))
    (row,) = found["estimates"]
    assert row["n"] == RUNS, row
    return float(row["mean"])


spans = [span(day, number) for day in range(7) for number in range(RUNS)]
request = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "app"}, "spans": spans}]}]}
Path("traces.json").write_text(json.dumps(request))
Path("rules.yaml").write_text("rules: [answered]\ndestinations: [{results: {path: results.db}}]\n")
for _ in range(2):  # the second time changes nothing
    run("score", "traces.json", "--config", "rules.yaml")
means = [mean_of(day) for day in range(7)]
assert means.index(min(means)) == BAD_DAY, means
assert min(means) == 0.5
assert sorted(means)[1] == 1.0
whole = json.loads(run("report", "results.db", "--by", "attribute:app.region", "--json"))
assert {row["attribute:app.region"] for row in whole["estimates"]} == {"eu", "us"}
assert "are of a backfill" in whole["notes"][0]
run("report", "results.db", "--html", "report.html")
assert "backfill" in Path("report.html").read_text()
assert run("monitor", "results.db", "--once", "--floor", "answered=0.99").startswith("no alarm")
print("found:", means)
