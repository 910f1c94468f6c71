"""Servers that all interop tests of a session share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _pytest.terminal import TerminalReporter

from tests.support.mlflow_server import mlflow_program, mlflow_server
from tests.support.phoenix_server import phoenix_program, phoenix_server


@pytest.fixture(scope="session")
def phoenix() -> Iterator[str]:
    """Base URL of a real Phoenix."""
    program = phoenix_program()
    if program is None:
        pytest.skip("run tests/interop/setup.sh first: it installs Phoenix")
    with phoenix_server(program) as url:
        yield url


@pytest.fixture(scope="session")
def mlflow() -> Iterator[str]:
    """Base URL of a real MLflow."""
    program = mlflow_program()
    if program is None:
        pytest.skip("run tests/interop/setup.sh first: it installs MLflow")
    with mlflow_server(program) as url:
        yield url


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Show what tests measured, such as the time to the first score beside each library."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            terminalreporter.write_line(f"{name}: {value}")
