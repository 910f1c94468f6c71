"""A release makes the agent worse; the pager says so, and the worst run becomes a failing test.

python watched_release.py    in an empty folder; exits with 0 if alarm, state, explanation and test are there
"""

from __future__ import annotations

import json
import subprocess
import sys


def run(*words: str, code: int = 0) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


RESULTS = "otel-evals-demo/results.db"
run("otel-evals", "demo")
checked = ("otel-evals", "monitor", RESULTS, "--once", "--floor", "grounded_in_tools=0.9")
found = json.loads(run(*checked, "--json", code=1))
alarms = {alarm["kind"]: alarm for alarm in found["alarms"] if alarm["scorer"] == "grounded_in_tools"}
assert {"floor", "version"} <= set(alarms), alarms
assert alarms["floor"]["severity"] == "critical"
assert alarms["version"]["agent_version"] == "2"
assert any("no alarm pending" in state["text"] for state in found["watched"])
trace_id = alarms["version"]["trace_ids"][0]
assert "score 0" in run("otel-evals", "explain", trace_id, "--scores", RESULTS)
run("otel-evals", "export", RESULTS, "--trace", trace_id, "--pytest", "test_run.py")
test = run(sys.executable, "-m", "pytest", "test_run.py", "-p", "no:cacheprovider", code=1)
assert "grounded_in_tools should be at least 1" in test
for alarm in found["alarms"]:
    run("otel-evals", "results", "acknowledge", RESULTS, alarm["monitor"], "--note", "Rolled back.")
assert run(*checked).startswith("no alarm")
print("found, explained, tested and acknowledged:", trace_id)
