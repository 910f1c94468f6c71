"""The `otel-evals` command itself: what it says when something is missing or wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from otel_evals._internal.cli.app import ENTRY_POINT_GROUP, app
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.model.convention import load_conventions
from otel_evals._internal.util.installed import install_hint, package_hint
from otel_evals._internal.util.version import __version__

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


def commands_of(group: Any) -> dict[str, Any]:
    return {name: group.get_command(None, name) for name in group.list_commands(None)}


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command and group, by its words."""
    for name, command in commands_of(group).items():
        yield " ".join((*path, name)), command
        if hasattr(command, "list_commands"):
            yield from leaves(command, (*path, name))


def test_help_lists_every_command_in_its_panel() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).stdout
    panels = re.findall(r"─ (Start|Look|Run|Manage|Other packages) ─|│ (\w+) {2,}\w", shown)
    listed: dict[str, list[str]] = {}
    for panel, command in panels:
        listed.setdefault(panel, []) if panel else listed[list(listed)[-1]].append(command)
    assert listed == {
        "Start": ["init", "demo", "doctor"],
        "Look": ["runs", "explain", "report", "monitor", "mcp", "top"],
        "Run": ["score", "gateway", "judge"],
        "Manage": ["config", "scorers", "destinations", "results", "export"],
    }


def test_the_help_of_a_command_is_one_sentence_on_one_line() -> None:
    for name, command in leaves(get_group(app)):
        summary = command.help.split("\n\n")[0]
        assert re.fullmatch(r"[A-Z][^\n]{5,95}[^. ]\.", summary), (name, summary)
        assert ". " not in summary, name


@pytest.mark.parametrize(
    ("library", "command", "extra", "code"),
    [
        ("typer", "--version", "cli", 1),
        pytest.param("rich", "demo", "demo", 2, marks=pytest.mark.slow),
        pytest.param("pydantic_ai", "demo", "demo", 2, marks=pytest.mark.slow),
    ],
)
def test_a_missing_library_is_one_line_that_names_the_extra(
    library: str, command: str, extra: str, code: int
) -> None:
    done = without(library, command)
    assert done.returncode == code
    assert f"needs {library}: {install_hint(extra)}" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_command_that_cannot_be_imported_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A capacity whose extra is missing, or that is broken, fails with its own command only."""
    assert "lacking" not in CliRunner().invoke(app, ["--help"]).output
    installed = tmp_path / "broken-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        f"[{ENTRY_POINT_GROUP}]\n"
        "lacking = a_module_that_is_not_there.commands:run\nwrong = json:nothing_of_this_name\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    shown = CliRunner().invoke(app, ["--help"]).output
    assert all(name in shown for name in ("lacking", "wrong", "runs"))
    assert CliRunner().invoke(app, ["scorers", "list"]).exit_code == 0
    lacking, wrong = (CliRunner().invoke(app, [name]) for name in ("lacking", "wrong"))
    assert (lacking.exit_code, wrong.exit_code) == (1, 1)
    needed = "a_module_that_is_not_there"
    assert lacking.output.strip() == f"otel-evals lacking: needs {needed}: {package_hint(needed)}"
    assert "otel-evals wrong: cannot be imported: AttributeError" in wrong.output


def test_a_package_that_breaks_while_it_is_imported_is_named_and_breaks_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither can a package take the name of a scorer, a destination or a command of ours."""
    (tmp_path / "stranger_raises.py").write_text("raise RuntimeError('broken')")
    (tmp_path / "stranger_exits.py").write_text("raise SystemExit(3)")
    installed = tmp_path / "stranger-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    broken = "raises = stranger_raises:x\nexits = stranger_exits:x\n"
    groups = ("scorer", "destination", "command", "convention", "config_section", "trace_source")
    ours = {"scorer": "answered", "destination": "memory", "command": "export"}
    (installed / "entry_points.txt").write_text(
        "".join(
            f"[otel_evals_{each}]\n{broken}" + (f"{ours[each]} = stranger_raises:x\n" if each in ours else "")
            for each in groups
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = CliRunner().invoke
    for command in (["--help"], ["scorers", "list"], ["destinations", "list"]):
        assert run(app, command).exit_code == 0, command
    for name in ("raises", "exits"):
        shown = run(app, ["scorers", "show", name])
        assert shown.exit_code == 2
        assert "update or uninstall the package stranger" in shown.output
        assert run(app, [name]).exit_code == 1
    config = build_config(["answered"], ["memory"])
    assert [rule.scorer_id for rule in config.rules] == ["answered"]
    assert run(app, ["export", "--help"]).exit_code == 0
    assert load_conventions().choose("openinference.instrumentation.langchain", {}, "x") is not None


def test_the_version_loads_no_command() -> None:
    """Startup imports neither pydantic nor OpenTelemetry's SDK, nor any capacity."""
    code = f"""
import atexit, sys
atexit.register(lambda: print([m for m in sys.modules if m.partition('.')[0] in {{
    'pydantic', 'opentelemetry', 'sqlalchemy', 'otel_evals_gateway', 'otel_evals_monitor'}}]))
{COMMAND}"""
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [__version__, "[]"], done.stderr
