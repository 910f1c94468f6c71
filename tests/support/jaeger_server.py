"""A real Jaeger on loopback, its data in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.components import components_folder
from tests.support.servers import clean_environment, free_ports, served

__all__ = ["jaeger_program", "jaeger_server"]

_CONFIG = """
service:
  extensions: [jaeger_storage, jaeger_query]
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [jaeger_storage_exporter]}}}}
extensions:
  jaeger_storage: {{backends: {{main: {{memory: {{max_traces: 10000}}}}}}}}
  jaeger_query:
    storage: {{traces: main}}
    enable_tracing: false
    http: {{endpoint: "127.0.0.1:{query}"}}
    grpc: {{endpoint: "127.0.0.1:{grpc}"}}
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{otlp}"}}}}}}}}
exporters: {{jaeger_storage_exporter: {{trace_storage: main}}}}
"""


def jaeger_program() -> Path | None:
    """The Jaeger (version 2) that JAEGER_BIN names, or that `components.sh` has built, or None."""
    named = os.environ.get("JAEGER_BIN", "")
    program = Path(named) if named else components_folder() / "bin" / "otelcol"
    return program if program.is_file() else None


@contextmanager
def jaeger_server(program: Path) -> Iterator[tuple[str, str]]:
    """Run Jaeger; yields the URLs of its query API and of its OTLP receiver."""
    query, grpc, otlp = free_ports(3)

    def command(folder: Path) -> list[str | Path]:
        config = folder / "jaeger.yaml"
        config.write_text(_CONFIG.format(query=query, grpc=grpc, otlp=otlp), encoding="utf-8")
        return [program, "--config", str(config)]

    url = f"http://127.0.0.1:{query}"
    with served(command, lambda _: clean_environment(), f"{url}/api/services", start_timeout=120):
        yield url, f"http://127.0.0.1:{otlp}"
