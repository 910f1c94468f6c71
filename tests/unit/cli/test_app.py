"""The `otel-evals` command itself: what it says when something is missing or wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals._internal.version import __version__

COMMAND = (
    "import sys; sys.argv = ['otel-evals', *sys.argv[1:]]; from otel_evals._internal.cli import main; main()"
)


def without(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process where a library is not installed."""
    hidden = f"import sys; sys.modules[{module!r}] = None; {COMMAND}"
    return subprocess.run(
        [sys.executable, "-c", hidden, *arguments], capture_output=True, text=True, check=False
    )


def test_the_version_is_the_distributions() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == __version__


@pytest.mark.parametrize("command", ["demo", "runs"])
def test_help_lists_every_command(command: str) -> None:
    assert command in CliRunner().invoke(app, ["--help"]).stdout


@pytest.mark.parametrize(
    ("library", "command", "extra"),
    [("typer", "--version", "cli"), ("rich", "demo", "cli"), ("pydantic_ai", "demo", "demo")],
)
def test_a_missing_library_is_one_line_that_names_the_extra(library: str, command: str, extra: str) -> None:
    done = without(library, command)
    assert done.returncode == 1
    assert f"needs {library}: pip install 'otel-evals[{extra}]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_wrong_phoenix_address_names_the_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.setenv(name, "")  # the demo sets them; this takes them back
    done = CliRunner().invoke(app, ["demo", "--phoenix", "nowhere", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "phoenix.endpoint" in done.output
