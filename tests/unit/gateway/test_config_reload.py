"""The configuration file of a running gateway: when it is read, what of it is used, and what is refused."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.metrics import NoOpMeter

from otel_evals import Config, load_config
from otel_evals_gateway._internal.configuration import ConfigReload

FILE = """
gateway: {quiet: 1}
rules:
  - answered
  - {scorer: tool_error_rate, sample: ratio(0.5)}
"""


class Running:
    """A configuration file, and the rules that hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write(FILE)
        self.used: list[Config] = [load_config(path)]
        self.reloading = ConfigReload(path, self.used[0], self._use, NoOpMeter("tests"))

    async def _use(self, config: Config) -> None:
        self.used.append(config)

    def write(self, text: str) -> None:
        self.path.write_text(text)
        stamp = len(text) * 10**9 + 1  # a time of its own, however fast the test is
        os.utime(self.path, ns=(stamp, stamp))

    def look(self, times: int = 2) -> dict[str, Any]:
        """Look for changes: a change is taken when it is the same in the next look."""
        for _ in range(times):
            asyncio.run(self.reloading.look())
        return self.reloading.status()


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path / "gateway.yaml")


def test_a_rule_that_stayed_as_it_was_stays_the_same_object(running: Running) -> None:
    running.write(FILE.replace("  - answered", "  - {scorer: tool_error_rate, scope: agent}\n  - answered"))
    assert running.look()["reloads"] == {"applied": 1, "refused": 0}
    before, after = (config.rules for config in running.used)
    assert [rule.name for rule in after] == ["tool_error_rate@agent", "answered", "tool_error_rate"]
    assert (after[1], after[2]) == before
    assert after[1] is before[0]


def test_nothing_is_read_while_the_file_stays_or_is_being_written(running: Running) -> None:
    assert running.look(3)["reloads"] == {"applied": 0, "refused": 0}
    running.write(FILE + "# one\n")
    assert running.look(1)["reloads"] == {"applied": 0, "refused": 0}
    running.write(FILE + "# one, two\n")
    assert running.look(1)["reloads"] == {"applied": 0, "refused": 0}
    assert running.look(1)["reloads"] == {"applied": 1, "refused": 0}


def test_a_request_reads_it_at_once(running: Running) -> None:
    running.reloading.request()
    assert running.look(1)["reloads"] == {"applied": 1, "refused": 0}


def test_a_file_with_mistakes_is_refused_with_all_of_them(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        running.write("rules:\n  - answerd\n  - {scorer: answered, sample: ratio(2)}\nhold: -1\n")
        assert running.look()["last_reload"] == "refused"
    assert "did you mean 'answered'?" in caplog.text
    assert "rules[1].sample" in caplog.text
    assert len(running.used) == 1
    running.path.unlink()
    assert running.look()["reloads"] == {"applied": 0, "refused": 2}
    running.write(FILE)
    assert running.look()["last_reload"] == "applied"


def test_what_is_different_besides_rules_waits_for_a_restart(running: Running) -> None:
    running.write(FILE.replace("quiet: 1", "quiet: 2, http: 127.0.0.1:1") + "hold: 3s\n")
    assert running.look()["needs_restart"] == ["gateway", "hold"]
    assert running.used[-1].sections == running.used[0].sections
    running.write(FILE + "# as before\n")
    assert running.look()["needs_restart"] == []


def test_rules_of_conversations_cannot_come_and_go(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    running.write(FILE.replace("- answered", "- {scorer: answered, scope: conversation}"))
    assert running.look()["last_reload"] == "refused"
    assert "rules of scope conversation must keep" in caplog.text


def test_a_failure_of_another_kind_is_refused_too(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    async def fails(config: Config) -> None:
        raise RuntimeError("no engine")

    running.reloading._use = fails
    running.reloading.request()
    assert running.look(1)["last_reload"] == "refused"
    assert "no engine" in caplog.text
