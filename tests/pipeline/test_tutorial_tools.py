"""The tutorial of docs/monitoring.md by the tools of `otel-evals mcp`: from an alarm to a failing test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.support.servers import clean_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
COMMAND = [sys.executable, "-c", "from otel_evals._internal.cli import main; main()"]


async def walk(results: Path, folder: Path) -> None:
    """Do what the page says a coding agent does, and write the test's files."""
    server = StdioServerParameters(
        command=COMMAND[0],
        args=[*COMMAND[1:], "mcp", str(results), "--floor", "grounded_in_tools=0.9"],
        env=clean_environment(),
    )
    async with Client(server) as client:

        async def ask(tool: str, **arguments: Any) -> Any:
            answer = (await client.call_tool(tool, arguments)).structured_content
            assert answer is not None
            return answer["result"]

        (incident,) = await ask("incidents")
        assert incident["title"] == "support got worse with version 2"
        scorers = {line["scorer"]: line for line in incident["scorers"]}
        assert scorers["grounded_in_tools"]["now"] < 0.9 < scorers["grounded_in_tools"]["before"]
        since = {"scorer": "grounded_in_tools", "agent": "support", "since": incident["since"]}
        patterns = (await ask("failure_patterns", **since))["patterns"]
        assert any("cannot be cancelled" in each["name"] for each in patterns)
        runs = await ask("runs", **since, version="2", text="cannot be cancelled")
        trace_id = runs[0]["trace_id"]
        (run,) = (await ask("run", trace_id=trace_id))["runs"]
        assert run["tool_calls"][0]["status"] == "error"
        assert "sampled by always()" in await ask("explain", trace_id=trace_id)
        for name, text in (await ask("test_of", trace_id=trace_id)).items():
            (folder / name).write_text(text, encoding="utf-8")


def test_an_agent_walks_from_the_alarm_to_a_failing_test(tmp_path: Path) -> None:
    demo = [*COMMAND, "demo", "--out", str(tmp_path / "demo")]
    subprocess.run(demo, check=True, stdout=subprocess.DEVNULL, env=clean_environment())
    anyio.run(walk, tmp_path / "demo" / "results.db", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "test_run.py", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "grounded_in_tools should be at least 1" in done.stdout
