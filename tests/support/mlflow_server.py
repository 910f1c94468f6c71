"""A real MLflow server on loopback, with its data in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import clean_environment, free_ports, interop_program, served

__all__ = ["mlflow_program", "mlflow_server"]


def mlflow_program() -> Path | None:
    """The `mlflow` command of its interop environment, or None if it is not set up."""
    return interop_program("mlflow", "-mlflow")


@contextmanager
def mlflow_server(program: Path) -> Iterator[str]:
    """Run MLflow and yield its base URL. It stores nothing outside a temporary folder and calls nobody."""
    (port,) = free_ports(1)

    def command(folder: Path) -> list[str | Path]:
        store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
        place = ["--default-artifact-root", str(folder / "artifacts")]
        return [
            program,
            "server",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--workers",
            "1",
            *store,
            *place,
        ]

    def environment(folder: Path) -> dict[str, str]:
        own = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        path = {"PATH": f"{program.parent}:{clean_environment()['PATH']}"}
        return clean_environment("MLFLOW_") | own | path

    url = f"http://127.0.0.1:{port}"
    with served(command, environment, f"{url}/health", start_timeout=300):
        yield url
