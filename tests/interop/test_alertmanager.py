"""A real Alertmanager has each alarm once while it lasts, and sends on its start and its end."""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.request
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from otel_evals_monitor._internal.alarms.check import AlarmCheck
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.receivers import HttpReceiver
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import records
from tests.support.servers import clean_environment, free_ports, served
from tests.support.waits import eventually

pytestmark = pytest.mark.interop

PROGRAM = shutil.which("prometheus-alertmanager")
if PROGRAM is None:
    pytest.skip("run tests/interop/setup.sh first: it installs Alertmanager", allow_module_level=True)


class _Receiver(BaseHTTPRequestHandler):
    got: list[dict[str, Any]] = []

    def do_POST(self) -> None:
        self.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def test_alertmanager_hears_of_an_alarm_and_of_its_end(tmp_path: Path) -> None:
    receiver = HTTPServer(("127.0.0.1", 0), _Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"

    def command(folder: Path) -> Sequence[str | Path]:
        hook = f"http://127.0.0.1:{receiver.server_port}/"
        timing = {"group_wait": "1s", "group_interval": "1s", "repeat_interval": "1h"}
        config = {
            "route": {"receiver": "hook", **timing},
            "receivers": [{"name": "hook", "webhook_configs": [{"url": hook, "send_resolved": True}]}],
        }
        (folder / "alertmanager.yml").write_text(json.dumps(config))
        assert PROGRAM is not None
        own = [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
        return [PROGRAM, "--config.file=alertmanager.yml", "--storage.path=data", *own]

    store = ResultsStore(tmp_path / "results.db")
    store.write(records(600, hours=12, mean=lambda hour: 0.7, end=time.time() - 60))
    low, fine = AlarmLimits(floors={"grounded": 0.9}), AlarmLimits(floors={"grounded": 0.1})
    with served(command, lambda _: clean_environment(), f"{url}/-/ready"):

        def alerts() -> list[Any]:
            with urllib.request.urlopen(f"{url}/api/v2/alerts", timeout=10) as answer:
                found = json.load(answer)
            return found if isinstance(found, list) else []

        for _ in range(3):
            assert AlarmCheck(store.database, low, [HttpReceiver(url, "alertmanager")]).run() == []
        (alert,) = alerts()
        assert alert["labels"]["alertname"] == "OtelEvalsFloor"
        assert "below the floor of 0.9" in alert["annotations"]["summary"]
        eventually(lambda: [body["status"] for body in _Receiver.got] == ["firing"])
        assert AlarmCheck(store.database, fine, [HttpReceiver(url, "alertmanager")]).run() == []
        eventually(lambda: [body["status"] for body in _Receiver.got] == ["firing", "resolved"])
        assert alerts() == []
    store.close()
    receiver.shutdown()
    receiver.server_close()
