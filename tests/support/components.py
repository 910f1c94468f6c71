"""Real components around the gateway, on loopback: Collectors, a Jaeger and a Kafka broker; any may die.

`tests/interop/components.sh` builds them once. The Collector's program has Jaeger's storage and query API in
it, as Jaeger version 2 is a Collector with these.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import pytest
import yaml

from tests.support.servers import clean_environment, free_ports

__all__ = ["Collector", "Jaeger", "Kafka", "Program", "component", "components_folder", "otlp"]

_START_SECONDS = 180.0
_STOP_SECONDS = 20.0


def components_folder() -> Path:
    """Where `tests/interop/components.sh` puts what it builds."""
    default = Path(__file__).parents[2] / ".venv-interop"
    return Path(os.environ.get("OTEL_EVALS_INTEROP", str(default)) + "-components")


def component(name: str) -> Path:
    """A file or folder of the components; skips the test where it could not be built."""
    path = components_folder() / name
    if not path.exists():
        pytest.skip(f"there is no {name}: run tests/interop/components.sh, which says what it needs")
    return path


class Program:
    """A server in a process of its own; use as a context manager. It may be killed and started again.

    Args:
        command: what is run.
        folder: gets its log, and is where it runs.
        port: that it listens on once it has started.
        environment: of the process.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        port: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = [str(part) for part in command]
        self._folder = folder
        self.port = port
        self._environment = dict(clean_environment() if environment is None else environment)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it listens."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._environment, stdout=log, stderr=log
            )
        end = time.monotonic() + _START_SECONDS
        while not _listens(self.port):
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                raise RuntimeError((self._folder / "log").read_text(errors="replace")[-3000:])
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """Id of the process, which runs."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def stop(self) -> None:
        """End it as an operator does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def otlp(port: int) -> dict[str, Any]:
    """The configuration of an OTLP/HTTP receiver on a port of loopback."""
    return {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}


class Collector(Program):
    """An OpenTelemetry Collector.

    Args:
        folder: is made; gets the configuration and the log.
        port: of one of its receivers.
        config: as in YAML.
    """

    def __init__(self, folder: Path, port: int, config: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "collector.yaml"
        service = {"telemetry": {"metrics": {"level": "none"}}, **config["service"]}
        path.write_text(yaml.safe_dump({**config, "service": service}), encoding="utf-8")
        super().__init__([component("bin/otelcol"), "--config", path], folder, port)

    @property
    def endpoint(self) -> str:
        """Base URL of its receiver."""
        return f"http://127.0.0.1:{self.port}"


class Jaeger(Collector):
    """A Jaeger with its data in memory: OTLP/HTTP in, traces out by its query API.

    Args:
        folder: is made; gets the configuration and the log.
    """

    def __init__(self, folder: Path) -> None:
        port, self._query, grpc = free_ports(3)
        query = {
            "storage": {"traces": "main"},
            "enable_tracing": False,
            "http": {"endpoint": f"127.0.0.1:{self._query}"},
            "grpc": {"endpoint": f"127.0.0.1:{grpc}"},
        }
        traces = {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}
        storage = {"backends": {"main": {"memory": {"max_traces": 100_000}}}}
        config = {
            "receivers": {"otlp": otlp(port)},
            "exporters": {"jaeger_storage_exporter": {"trace_storage": "main"}},
            "extensions": {"jaeger_storage": storage, "jaeger_query": query},
            "service": {"extensions": ["jaeger_storage", "jaeger_query"], "pipelines": {"traces": traces}},
        }
        super().__init__(folder, port, config)

    def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """The spans of a trace as Jaeger shows them, with `tags` as a mapping, and `service`."""
        return [span for trace in self._get(f"/api/traces/{trace_id}") for span in _spans(trace)]

    def find(self, service: str, limit: int = 5_000, **tags: str) -> list[list[dict[str, Any]]]:
        """The traces of a service with a span that has these tags."""
        query = {"service": service, "limit": str(limit), "lookback": "1h", "tags": json.dumps(tags)}
        return [_spans(trace) for trace in self._get("/api/traces?" + urlencode(query))]

    def _get(self, path: str) -> list[dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._query}{path}", timeout=20) as response:
                return list(json.load(response)["data"] or ())
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return []
                raise


def _spans(trace: Mapping[str, Any]) -> list[dict[str, Any]]:
    services = {name: process["serviceName"] for name, process in trace["processes"].items()}
    return [
        {
            **span,
            "service": services[span["processID"]],
            "tags": {tag["key"]: tag["value"] for tag in span["tags"]},
        }
        for span in trace["spans"]
    ]


class Kafka(Program):
    """A Kafka broker of one node; its data outlasts its process.

    Args:
        folder: is made; gets the data.
        partitions: of each topic.
    """

    def __init__(self, folder: Path, partitions: int = 6) -> None:
        jars = component("kafka")
        folder.mkdir(parents=True, exist_ok=True)
        port, controller = free_ports(2)
        properties = _PROPERTIES.format(
            port=port, controller=controller, folder=folder, partitions=partitions
        )
        (folder / "server.properties").write_text(properties)
        (folder / "log4j2.properties").write_text(_LOGGING)
        java = ["java", "-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._java = [*java, f"-Dlog4j2.configurationFile={folder}/log4j2.properties", "-cp", f"{jars}/*"]
        super().__init__([*self._java, "kafka.Kafka", folder / "server.properties"], folder, port)

    @property
    def broker(self) -> str:
        """Its address."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, and wait until it listens; the first time, with an empty log."""
        if not (self._folder / "data").exists():
            format_ = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c"]
            subprocess.run(
                [*self._java, *format_, str(self._folder / "server.properties")],
                check=True,
                capture_output=True,
                timeout=_START_SECONDS,
            )
        super().start()


_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
num.partitions={partitions}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""
_LOGGING = """\
rootLogger.level=WARN
rootLogger.appenderRef.c.ref=C
appender.c.type=Console
appender.c.name=C
appender.c.layout.type=PatternLayout
appender.c.layout.pattern=%d %p %c %m%n
"""


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
