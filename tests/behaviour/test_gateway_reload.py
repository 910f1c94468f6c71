"""A running gateway takes other rules, on a signal and when its file changes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.agents import body, recorded
from tests.support.gateway_process import GatewayProcess, post
from tests.support.waits import eventually


def change(gateway: GatewayProcess, edit: Callable[[dict[str, Any]], object]) -> None:
    values = yaml.safe_load(gateway.path.read_text())
    edit(values)
    gateway.path.write_text(yaml.safe_dump(values))


def reloads(gateway: GatewayProcess) -> dict[str, int]:
    return gateway.page("/readyz")[1]["configuration"]["reloads"]  # type: ignore[no-any-return]


def scorers(gateway: GatewayProcess) -> list[str]:
    return sorted(e["scorer"] for r in gateway.records() for e in r["evaluations"])


def send(gateway: GatewayProcess) -> None:
    assert post(f"{gateway.endpoint}/v1/traces", body(recorded()))[0] == 200


@pytest.mark.slow
def test_rules_change_while_the_gateway_runs_and_nothing_is_lost(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, ["answered"]) as gateway:
        send(gateway)  # decided by whichever rules hold when it is complete
        eventually(lambda: scorers(gateway) == ["answered"])

        change(gateway, lambda v: v.update(rules=["answered", "tool_error_rate"], hold=3))
        eventually(lambda: reloads(gateway) == {"applied": 1, "refused": 0})
        assert gateway.page("/readyz")[1]["configuration"]["needs_restart"] == ["hold"]
        send(gateway)
        eventually(lambda: scorers(gateway) == ["answered", "answered", "tool_error_rate"])

        change(gateway, lambda v: v.update(rules=["answerd", {"scorer": "answered", "sample": "ratio(2)"}]))
        eventually(lambda: reloads(gateway) == {"applied": 1, "refused": 1})
        log = gateway.log.read_text()
        assert "did you mean 'answered'?" in log
        assert "rules[1].sample" in log, "all mistakes are told"
        status, page = gateway.page("/readyz")
        assert (status, page["configuration"]["last_reload"]) == (200, "refused")
        send(gateway)
        eventually(lambda: len(scorers(gateway)) == 5)

        gateway.path.write_text(gateway.path.read_text().replace("answerd", "answered"))
        change(gateway, lambda v: v.update(rules=["tool_error_rate"]))
        gateway.process.send_signal(signal.SIGHUP)
        eventually(lambda: reloads(gateway)["applied"] >= 2)
        send(gateway)
        eventually(lambda: scorers(gateway)[5:] or len(scorers(gateway)) == 6)
        stats = gateway.page("/stats")[1]
        assert stats["rules"]["answered"]["scored"] == 3
        assert stats["rules"]["tool_error_rate"]["scored"] == 3
        assert not stats["losses"]
    assert gateway.process.returncode == 0
