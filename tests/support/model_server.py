"""A small language model on loopback: SmolLM2-135M-Instruct behind llama.cpp's server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import clean_environment, free_ports, interop_program, served

__all__ = ["find_model", "model_server"]

_SCRIPT = Path(__file__).parents[1] / "interop" / "serve_model.py"


def find_model() -> Path | None:
    """Return the Python of the server's environment, or None if it is not installed."""
    python = interop_program("python", "-model")
    return python if python and (python.parents[1] / "interop.lock").exists() else None


@contextmanager
def model_server(python: Path) -> Iterator[str]:
    """Run the server and give the address of its API."""
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/v1"
    # By default its threads spin while they wait for each other, which takes minutes on a busy machine.
    environment = clean_environment() | {"OMP_WAIT_POLICY": "passive"}
    with served(lambda _: [python, _SCRIPT, str(port)], lambda _: environment, f"{url}/models"):
        yield url
