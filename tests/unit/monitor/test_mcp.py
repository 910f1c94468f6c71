"""`otel-evals mcp` answers from the store with read-only tools, redacted and bounded."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.mcp_server import server_of
from otel_evals_monitor._internal.report.inputs import TraceLink
from otel_evals_monitor._internal.store.labels import add_label
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import record, records

Ask = Callable[..., Any]
INITIALIZE = """{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {},
"protocolVersion": "2025-06-18", "clientInfo": {"name": "x", "version": "1"}}}""".replace("\n", "")


@pytest.fixture
def ask(store: ResultsStore) -> Ask:
    """Call a tool with the SDK's own client."""

    def call(tool: str, **arguments: Any) -> Any:
        async def answer() -> Any:
            place = store.database.name
            server = server_of(store.database, place, AlarmLimits(floors={"grounded": 0.9}), TraceLink())
            async with Client(server) as client:
                if tool == "list":
                    return (await client.list_tools()).tools
                return (await client.call_tool(tool, arguments)).structured_content

        return anyio.run(answer)

    return call


def test_every_tool_is_read_only_and_described(ask: Ask) -> None:
    tools = {tool.name: tool for tool in ask("list")}
    assert set(tools) == {
        *("incidents", "report", "failure_patterns", "runs", "run", "explain", "labelled", "test_of")
    }
    assert all(tool.annotations.read_only_hint and tool.description for tool in tools.values())
    assert tools["runs"].input_schema["required"] == ["scorer"]


def test_the_tools_have_the_content_of_the_page(store: ResultsStore, ask: Ask) -> None:
    import time

    store.write(records(600, hours=12, mean=lambda hour: 0.7, end=time.time() - 60))
    (incident,) = ask("incidents")["result"]
    assert incident["title"] == "support got worse"
    (line,) = incident["scorers"]
    assert (line["scorer"], line["floor"]) == ("grounded", 0.9)
    (row,) = ask("report", window="24h")["result"]["estimates"]
    assert row["n"] == 600
    found = ask("runs", scorer="grounded", limit=5)["result"]
    assert [each["value"] for each in found] == [0.0] * 5
    one = ask("run", trace_id=found[0]["trace_id"])["result"]
    assert one["runs"][0]["tool_calls"][0]["name"] == "track"
    assert one["runs"][0]["scores"][0]["explanation"].startswith("explained")
    assert "scored." in ask("explain", trace_id=found[0]["trace_id"])["result"]
    patterns = ask("failure_patterns", scorer="grounded")["result"]
    assert patterns["failing_runs"] == sum(each["runs"] for each in patterns["patterns"]) + patterns["others"]


def test_answers_are_redacted_and_bounded(store: ResultsStore, ask: Ask) -> None:
    secret = "sk-proj-" + "a1B2" * 12
    store.write([record(1, 0.0) | {"output": f"My key is {secret}. " + "x" * 50_000}])
    said = json.dumps(ask("run", trace_id=record(1, 0.0)["trace_id"]))
    assert secret not in said
    assert len(said) < 20_000
    store.write(record(number, 0.0) for number in range(2, 300))
    assert len(ask("runs", scorer="grounded", limit=10_000)["result"]) == 50


def test_wrong_questions_are_answered_with_what_is_on_record(store: ResultsStore, ask: Ask) -> None:
    store.write([record(1, 0.0)])
    assert "on record are scorer: grounded; agent: support" in ask("runs", scorer="other")["error"]
    assert "is not on record" in ask("run", trace_id="f" * 32)["error"]
    assert "--by" in ask("report", by="colour")["error"]


def test_a_run_becomes_a_test_and_labels_a_data_set(store: ResultsStore, ask: Ask, tmp_path: Path) -> None:
    bad = record(1, 0.0)
    bad["tool_calls"] *= 60
    store.write([bad])
    add_label(store.database, bad["evaluations"][0]["evaluation_id"], verdict="fail", expected="On day 3.")
    (example,) = ask("labelled")["result"]
    assert (example["verdict"], example["expected"], example["label"]) == ("fail", "On day 3.", 0.0)
    files = ask("test_of", trace_id=bad["trace_id"])["result"]
    assert set(files) == {"runs.jsonl", "test_run.py"}
    item = json.loads(files["runs.jsonl"])
    assert item["ground_truth"] == "On day 3."
    assert len(item["metadata"]["run"]["tools"]) == 60
    compile(files["test_run.py"], "test_run.py", "exec")


def test_ctrl_c_ends_the_server_while_it_waits_for_input(store: ResultsStore) -> None:
    command = [Path(sys.executable).with_name("otel-evals"), "mcp", store.database.name]
    server: Any = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with server:
        print(INITIALIZE, file=server.stdin, flush=True)
        assert "serverInfo" in server.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == -signal.SIGINT
