"""`otel-evals gateway` in a process of its own, on loopback: public interfaces only."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from tests.support.waits import SECONDS, eventually

__all__ = ["GatewayProcess", "get", "post"]


_COMMAND = str(Path(sys.executable).with_name("otel-evals"))


def post(
    url: str, body: bytes, content_type: str = "application/x-protobuf", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """Post a body; returns status, body and headers of the response, whatever the status."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, {"Content-Type": content_type, **names})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            return response.status, response.read(), dict(response.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def get(url: str) -> tuple[int, Any]:
    """Get a page; returns its status and JSON."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


class GatewayProcess:
    """`otel-evals gateway --config FILE` in a process of its own; use as a context manager.

    Args:
        folder: gets the configuration and the log.
        rules: as in YAML.
        gateway: the section of that name; HTTP listens on a free port.
        environment: further variables.
        options: the other options.
    """

    def __init__(
        self,
        folder: Path,
        rules: Sequence[Any],
        gateway: dict[str, Any] | None = None,
        environment: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        section = {"http": "127.0.0.1:0", "quiet": 0.2, "idle": 0.5, **(gateway or {})}
        self.scores = folder / "scores.jsonl"
        options.setdefault("destinations", [{"jsonl": {"path": str(self.scores)}}])
        self.path = folder / "gateway.yaml"
        self.path.write_text(yaml.safe_dump({"gateway": section, "rules": list(rules), **options}))
        self.log = folder / "gateway.log"
        delays = dict.fromkeys(("OTEL_BSP_SCHEDULE_DELAY", "OTEL_BLRP_SCHEDULE_DELAY"), "100")
        delays["OTEL_METRIC_EXPORT_INTERVAL"] = "500"
        self._environment = {**os.environ, **delays, **(environment or {})}
        self.process: Any = None
        self.ports: dict[str, int] = {}

    @property
    def endpoint(self) -> str:
        """Base URL of its HTTP receiver."""
        return f"http://127.0.0.1:{self.ports['http']}"

    def start(self) -> None:
        """Start, and wait until it is ready."""
        before = len(self.log.read_text()) if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [_COMMAND, "gateway", "--config", str(self.path)],
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        self.ports = eventually(lambda: self._listening(before))
        # A topic that nobody has written to yet does not exist: such a gateway is not ready.
        started = "/healthz" if "kafka" in self.path.read_text() else "/readyz"
        eventually(lambda: self.page(started)[0] == 200)

    def _listening(self, before: int) -> dict[str, int] | None:
        text = self.log.read_text()[before:]
        assert self.process.poll() is None, text
        wanted = {"http", "grpc"} & {
            k for k, v in yaml.safe_load(self.path.read_text())["gateway"].items() if v
        }
        found = {name: int(port) for name, port in re.findall(r"over (\w+) on \S+:(\d+)", text)}
        return found if wanted <= set(found) else None

    def page(self, path: str) -> tuple[int, Any]:
        """A page of the gateway: status and JSON."""
        return get(self.endpoint + path)

    def records(self) -> list[dict[str, Any]]:
        """The scored runs in its file so far."""
        if not self.scores.exists():
            return []
        return [json.loads(line) for line in self.scores.read_text().splitlines() if line.endswith("}")]

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.process.wait(SECONDS)

    def stop(self) -> int:
        """Send SIGTERM, and wait; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return int(self.process.wait(SECONDS))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.stop()
