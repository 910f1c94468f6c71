"""A real Phoenix server on loopback, with its data in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import clean_environment, free_ports, interop_program, served

__all__ = ["phoenix_program", "phoenix_server"]


def phoenix_program() -> Path | None:
    """The `phoenix` command of the interop environment (OTEL_EVALS_INTEROP), or None if it is not set up."""
    return interop_program("phoenix")


@contextmanager
def phoenix_server(program: Path, *, start_timeout: float = 300.0) -> Iterator[str]:
    """Run Phoenix and yield its base URL. It stores nothing outside a temporary folder and calls nobody."""
    http, grpc = free_ports(2)

    def environment(folder: Path) -> dict[str, str]:
        return clean_environment("PHOENIX_") | {
            "PHOENIX_WORKING_DIR": str(folder),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(http),
            "PHOENIX_GRPC_PORT": str(grpc),
            "PHOENIX_TELEMETRY_ENABLED": "false",
            "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        }

    url = f"http://127.0.0.1:{http}"
    with served(
        lambda folder: [program, "serve"], environment, f"{url}/healthz", start_timeout=start_timeout
    ):
        yield url
