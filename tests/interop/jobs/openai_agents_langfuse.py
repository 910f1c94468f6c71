"""An agent of OpenAI's SDK is traced by Langfuse's SDK and scored live; Langfuse gets each score once.

python examples/frameworks/scripted_model.py python openai_agents_langfuse.py
    in an empty folder; exits with 0 if each run has its score, on its own observation. A server stands in for
    Langfuse's, by its documentation: spans by OTLP, scores by id. It loses its first answer about a score.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

APPLICATION = '''
from agents import Agent, Runner, function_tool
from langfuse import Langfuse
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

Langfuse()
OpenAIAgentsInstrumentor().instrument()

import otel_evals
from otel_evals.scorers import grounded_in_tools

otel_evals.configure(rules=[grounded_in_tools()], destinations=["langfuse"])

ORDERS = {
    "A-1001": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-25"},
    "A-1002": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-27"},
}


@function_tool
def lookup_order(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return ORDERS[order_id]


agent = Agent(name="support", model="gpt-5-mini", tools=[lookup_order])
for order in ORDERS:
    print(Runner.run_sync(agent, f"When does order {order} arrive?").final_output)
'''
PUBLIC, SECRET = "pk-lf-1", "sk-lf-1"
AUTHORIZATION = f"Basic {base64.b64encode(f'{PUBLIC}:{SECRET}'.encode()).decode()}"
SCORES = {
    "A-1001": {"grounded_in_tools": 1.0, "grounded_in_tools.label": "grounded"},
    "A-1002": {"grounded_in_tools": 0.5, "grounded_in_tools.label": "ungrounded"},
}
spans: list[Any] = []
scores: list[dict[str, Any]] = []


class Langfuse(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["authorization"] != AUTHORIZATION:
            return self.answer(401)
        if self.path == "/api/public/scores":
            scores.append(json.loads(body))
            return self.answer(502 if len(scores) == 1 else 200)
        if self.path == "/api/public/otel/v1/traces":
            request = ExportTraceServiceRequest.FromString(gzip.decompress(body))
            for resource in request.resource_spans:
                spans.extend(span for scope in resource.scope_spans for span in scope.spans)
            return self.answer(200)
        return self.answer(404)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: object) -> None:
        pass


Path("app.py").write_text(APPLICATION)
with ThreadingHTTPServer(("127.0.0.1", 0), Langfuse) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    keys = {"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET, "LANGFUSE_BASE_URL": address}
    subprocess.run([sys.executable, "app.py"], check=True, env={**os.environ, **keys})
    server.shutdown()
roots = {span.trace_id.hex(): span for span in spans if not span.parent_span_id}
assert len({span.span_id for span in spans}) == len(spans), "a span came twice"
stored = {score["id"]: score for score in scores}
assert len(scores) == len(stored) + 1, "only the score whose answer was lost comes again"
found: dict[str, dict[str, Any]] = {}
for score in stored.values():
    root = roots[score["traceId"]]
    assert score["observationId"] == root.span_id.hex(), score
    trace = "".join(str(span.attributes) for span in spans if span.trace_id == root.trace_id)
    order = next(order for order in SCORES if order in trace)
    found.setdefault(order, {})[score["name"]] = score["value"]
    assert ("2026-11-30" in score["comment"]) is (order == "A-1002"), score
assert found == SCORES, found
print(f"{len(roots)} runs in {len(spans)} spans, scored once; the reason is with the false answer")
