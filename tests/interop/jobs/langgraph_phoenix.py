"""An agent in LangGraph behind FastAPI is scored live, and Phoenix shows which answers are false, and why.

python examples/frameworks/scripted_model.py python langgraph_phoenix.py
    in an empty folder, with a Phoenix at PHOENIX_COLLECTOR_ENDPOINT; exits with 0 if each answer is annotated
    there, on the agent's span, also the last answers before the server's end
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

APPLICATION = '''
from fastapi import FastAPI
from langchain.agents import create_agent
from openinference.instrumentation.langchain import LangChainInstrumentor

import otel_evals
from otel_evals.scorers import grounded_in_tools

otel_evals.configure(rules=[grounded_in_tools()], destinations=["phoenix"], handle_sigterm=True)
LangChainInstrumentor().instrument()

ORDERS = {
    "A-1001": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-25"},
    "A-1002": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-27"},
}


def lookup_order(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return ORDERS[order_id]


agent = create_agent("openai:gpt-5-mini", tools=[lookup_order], name="support")
app = FastAPI()


@app.get("/ask")
async def ask(question: str) -> dict[str, str]:
    done = await agent.ainvoke({"messages": [("user", question)]})
    return {"answer": done["messages"][-1].content}
'''
PHOENIX = os.environ.get("PHOENIX_COLLECTOR_ENDPOINT", "http://localhost:6006")
PROJECT = f"shop-{os.getpid()}"
SCORES = {"A-1001": (1.0, "grounded"), "A-1002": (0.5, "ungrounded")}


def get(url: str, **query: str | list[str]) -> Any:
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query, doseq=True)}", timeout=30) as answer:
        return json.load(answer)


def ask(order: str) -> None:
    answered = get(f"http://127.0.0.1:{PORT}/ask", question=f"When does order {order} arrive?")
    assert order in answered["answer"], answered


def annotated() -> list[tuple[str, float, str, str]]:
    """The order of each annotated agent's span, with the annotation's score, label and explanation."""
    project = f"{PHOENIX}/v1/projects/{PROJECT}"
    spans = {span["context"]["span_id"]: span for span in get(f"{project}/spans", limit="1000")["data"]}
    found = []
    for note in get(f"{project}/span_annotations", span_ids=list(spans), limit="1000")["data"]:
        span, result = spans[note["span_id"]], note["result"]
        assert (span["name"], span["parent_id"], note["name"]) == ("support", None, "grounded_in_tools")
        order = next(order for order in SCORES if order in span["attributes"]["input.value"])
        found.append((order, result["score"], result["label"], result["explanation"]))
    return found


def wait_for(count: int) -> None:
    until = time.monotonic() + 120
    found: list[Any] = []
    while len(found) < count:
        assert time.monotonic() < until, f"{found}\n{Path('log').read_text()}"
        time.sleep(0.5)
        with suppress(OSError):  # the project is made by its first span
            found = annotated()
    assert len(found) == count, found
    for order, score, label, explanation in found:
        assert (score, label) == SCORES[order], found
        assert ("2026-11-30" in explanation) is (order == "A-1002"), found


with socket.create_server(("127.0.0.1", 0)) as probe:
    PORT = probe.getsockname()[1]
Path("shop.py").write_text(APPLICATION)
settings = {
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{PHOENIX}/v1/traces",
    "OTEL_RESOURCE_ATTRIBUTES": f"openinference.project.name={PROJECT}",
    "PHOENIX_COLLECTOR_ENDPOINT": PHOENIX,
}
with open("log", "wb") as log:
    command = [sys.executable, "-m", "uvicorn", "shop:app", "--port", str(PORT)]
    server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **settings})
try:
    until = time.monotonic() + 120
    while "startup complete" not in Path("log").read_text():
        assert time.monotonic() < until, Path("log").read_text()
        time.sleep(0.1)
    ask("A-1001")
    ask("A-1002")
    wait_for(2)
    ask("A-1001")
    ask("A-1002")
    server.terminate()
    server.wait(30)
finally:
    server.kill()
wait_for(4)
print("4 answers scored, the last ones although the server was ending")
