"""Agents of the Vercel AI SDK send spans through an inline gateway; Jaeger's search finds the false answers.

python examples/frameworks/scripted_model.py python vercel_ai_jaeger.py
    in a folder with the packages of examples/frameworks/package.json, with Jaeger's API at JAEGER_URL and its
    OTLP receiver at JAEGER_OTLP_URL; exits with 0 if each span is there once, the agents' with their scores
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

AGENT = """\
import { openai } from '@ai-sdk/openai';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { generateText, stepCountIs, tool } from 'ai';
import { z } from 'zod';

const provider = new NodeTracerProvider({
  resource: resourceFromAttributes({ 'service.name': process.argv[2] }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter(), { scheduledDelayMillis: 100 })],
});
provider.register();

const ORDERS = {
  'A-1001': { status: 'shipped', carrier: 'ACME', arrives: '2026-11-25' },
  'A-1002': { status: 'shipped', carrier: 'ACME', arrives: '2026-11-27' },
};

const lookup_order = tool({
  description: 'Look up an order.',
  inputSchema: z.object({ order_id: z.string() }),
  execute: async ({ order_id }) => ORDERS[order_id],
});

const ask = (order) => generateText({
  model: openai('gpt-5-mini'),
  tools: { lookup_order },
  stopWhen: stepCountIs(3),
  prompt: `When does order ${order} arrive?`,
  experimental_telemetry: { isEnabled: true, functionId: 'support' },
});
for (let round = 0; round < 5; round++) await Promise.all(Object.keys(ORDERS).map(ask));
await provider.shutdown();
"""
SERVICE, JAEGER = f"shop-{os.getpid()}", os.environ["JAEGER_URL"]
TRACE = {"ai.generateText": 1, "ai.generateText.doGenerate": 2, "ai.toolCall": 1}
"""The spans of a run by name: two requests of the model, and the tool's call between them."""
with socket.create_server(("127.0.0.1", 0)) as probe:
    ADDRESS = f"127.0.0.1:{probe.getsockname()[1]}"
CONFIG = f"""\
gateway:
  mode: inline
  http: {ADDRESS}
  forward: {os.environ["JAEGER_OTLP_URL"]}
journal: journal
rules: [grounded_in_tools]
"""


def traces(tags: str = "{}") -> list[Any]:
    """The service's traces in Jaeger, or those with a span that has these tags."""
    query = urllib.parse.urlencode({"service": SERVICE, "limit": 100, "tags": tags})
    with urllib.request.urlopen(f"{JAEGER}/api/traces?{query}", timeout=30) as answer:
        return list(json.load(answer)["data"])


def is_ready() -> bool:
    try:
        with urllib.request.urlopen(f"http://{ADDRESS}/readyz", timeout=5):
            return True
    except OSError:
        return False


Path("agent.mjs").write_text(AGENT)
Path("gateway.yaml").write_text(CONFIG)
with open("log", "wb") as log:
    command = ["otel-evals", "gateway", "--config", "gateway.yaml"]
    gateway = subprocess.Popen(command, stdout=log, stderr=log)
try:
    until = time.monotonic() + 120
    while not is_ready():
        assert time.monotonic() < until, Path("log").read_text()
        time.sleep(0.1)
    variables = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{ADDRESS}"}
    subprocess.run(["node", "agent.mjs", SERVICE], check=True, env=variables)
    gateway.terminate()  # forwards what it holds, with the scores
    gateway.wait(60)
finally:
    gateway.kill()

found = traces()
assert len(found) == 10, f"{len(found)} traces\n{Path('log').read_text()}"
for trace in found:
    assert Counter(span["operationName"] for span in trace["spans"]) == TRACE, trace
    scored = [
        span["operationName"] for span in trace["spans"] if "otel_evals.score" in json.dumps(span["tags"])
    ]
    assert scored == ["ai.generateText"], trace
bad = traces('{"otel_evals.score.grounded_in_tools.label": "ungrounded"}')
assert len(bad) == 5
assert all("A-1002 was shipped with ACME and arrives on 2026-11-30" in json.dumps(trace) for trace in bad)
print("10 runs, all spans once; the search finds the 5 false answers")
