"""A real Zipkin on loopback, with its data in memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.components import components_folder
from tests.support.servers import clean_environment, free_ports, served

__all__ = ["zipkin_program", "zipkin_server"]


def zipkin_program() -> Path | None:
    """The jar that `recipes.sh` has fetched, or None if it or Java is missing."""
    found = sorted((components_folder() / "zipkin").glob("zipkin-server-*-exec.jar"))
    return found[0] if found and shutil.which("java") else None


@contextmanager
def zipkin_server(program: Path) -> Iterator[str]:
    """Run Zipkin; yields its URL."""
    (port,) = free_ports(1)
    listens = {"ip": "127.0.0.1", "port": port, "protocols[0]": "http"}  # not to everyone
    options = [f"--armeria.ports[0].{name}={value}" for name, value in listens.items()]
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", program, *options]
    url = f"http://127.0.0.1:{port}"
    with served(lambda _: command, lambda _: clean_environment(), f"{url}/health", start_timeout=120):
        yield url
