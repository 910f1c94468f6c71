"""Two gunicorn workers score in production: one is killed, both are replaced, and no request goes unscored.

python two_workers.py    in an empty folder; exits with 0 if every answered request is scored
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

APPLICATION = '''
import json
import os

import otel_evals
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
otel_evals.install("otel-evals.yaml")
tracer = trace.get_tracer("shop")


def said(role, text):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def application(environ, start_response):
    """One request is one run of the agent; the answer names the worker and the trace."""
    with tracer.start_as_current_span("invoke_agent support") as span:
        span.set_attributes({
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "support",
            "gen_ai.input.messages": said("user", "When does it arrive?"),
            "gen_ai.output.messages": said("assistant", "It arrives on Friday."),
        })
        trace_id = f"{span.get_span_context().trace_id:032x}"
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([os.getpid(), trace_id]).encode()]
'''
SCORING = """\
rules: [answered]
destinations: [{results: {path: results.db}}]
journal: journal
handle_sigterm: true
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask() -> tuple[int, str] | None:
    """One request; None if its worker went away before it answered."""
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/", timeout=10) as answer:
        pid, trace_id = json.load(answer)
        return pid, trace_id
    return None


def ask_many(count: int) -> dict[str, int]:
    """So many answered requests: the worker of each trace."""
    found: dict[str, int] = {}
    while len(found) < count:
        with ThreadPoolExecutor(4) as pool:
            answers = pool.map(lambda _: ask(), range(4))
        found |= {trace_id: pid for pid, trace_id in filter(None, answers)}
    return found


def is_scored(trace_id: str) -> bool:
    command = ["otel-evals", "explain", trace_id, "--scores", "results.db", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0 and [e["value"] for e in json.loads(done.stdout)["decisions"]] == [1.0]


PORT = free_port()
Path("shop.py").write_text(APPLICATION)
Path("otel-evals.yaml").write_text(SCORING)
command = [sys.executable, "-m", "gunicorn", "shop:application", "-b", f"127.0.0.1:{PORT}", "-w", "2"]
with open("log", "wb") as log:
    server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": "."})
try:
    until = time.monotonic() + 30
    while ask() is None:
        assert time.monotonic() < until, Path("log").read_text()
        time.sleep(0.1)
    asked = ask_many(40)
    while len(set(asked.values())) < 2:
        asked |= ask_many(8)
    time.sleep(1.0)  # runs younger than `grace` are in memory only
    os.kill(next(iter(asked.values())), signal.SIGKILL)
    asked |= ask_many(40)
    server.send_signal(signal.SIGHUP)  # new workers take over, and score what the killed one left
    asked |= ask_many(40)
    server.send_signal(signal.SIGTERM)
    assert server.wait(30) == 0, Path("log").read_text()
finally:
    server.kill()
report = json.loads(
    subprocess.run(["otel-evals", "report", "results.db", "--json"], capture_output=True, check=True).stdout
)
(row,) = report["estimates"]
assert row["mean"] == 1.0
assert row["n"] >= len(asked), f"{len(asked)} requests were answered, {row['n']} are scored"
assert all(map(is_scored, list(asked)[::20]))
print(f"{len(asked)} requests by {len(set(asked.values()))} workers, all scored once")
