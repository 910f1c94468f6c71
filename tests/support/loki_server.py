"""A real Loki on loopback, with its data in a folder of its own."""

from __future__ import annotations

import json
import os
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.components import components_folder
from tests.support.servers import clean_environment, free_ports, served

__all__ = ["Loki", "loki_program", "loki_server"]

_CONFIG = """
auth_enabled: false
server:
  http_listen_address: 127.0.0.1
  http_listen_port: {http}
  grpc_listen_address: 127.0.0.1
  grpc_listen_port: {grpc}
  log_level: warn
common:
  path_prefix: {folder}
  replication_factor: 1
  instance_addr: 127.0.0.1
  ring: {{instance_addr: 127.0.0.1, kvstore: {{store: inmemory}}}}
  storage: {{filesystem: {{chunks_directory: {folder}/chunks, rules_directory: {folder}/rules}}}}
schema_config:
  configs:
    - from: 2024-01-01
      store: tsdb
      object_store: filesystem
      schema: v13
      index: {{prefix: index_, period: 24h}}
analytics: {{reporting_enabled: false}}
"""


class Loki:
    """Asks a Loki over its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def records(self, query: str) -> list[dict[str, str]]:
        """The labels and structured metadata of the last hour's records that a query finds."""
        now = time.time_ns()
        found = self._get(
            "query_range", query=query, start=str(now - 3600 * 10**9), end=str(now), limit="500"
        )
        return [stream["stream"] for stream in found["result"] for _ in stream["values"]]

    def values(self, query: str) -> list[float]:
        """The values of a query's series now."""
        return [float(series["value"][1]) for series in self._get("query", query=query)["result"]]

    def _get(self, what: str, **parameters: str) -> Any:
        address = f"{self.url}/loki/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=30) as answer:
            return json.load(answer)["data"]


def loki_program() -> Path | None:
    """The Loki that LOKI_BIN names, or that `recipes.sh loki` has built, or None."""
    named = os.environ.get("LOKI_BIN", "")
    program = Path(named) if named else components_folder() / "bin" / "loki"
    return program if program.is_file() else None


@contextmanager
def loki_server(program: Path) -> Iterator[Loki]:
    """Run Loki, which takes logs by OTLP at `/otlp/v1/logs`."""
    http, grpc = free_ports(2)

    def command(folder: Path) -> list[str | Path]:
        config = folder / "loki.yaml"
        config.write_text(_CONFIG.format(http=http, grpc=grpc, folder=folder), encoding="utf-8")
        return [program, f"-config.file={config}"]

    url = f"http://127.0.0.1:{http}"
    with served(command, lambda _: clean_environment(), f"{url}/ready", start_timeout=120):
        yield Loki(url)
