"""A hint for a missing extra is a command that installs it from where otel-evals came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from otel_evals._internal.util.installed import install_hint, package_hint, this_command


def installed(folder: Path, direct: dict[str, Any] | None, installer: str = "pip") -> Path:
    """Write the metadata of an installed distribution, as installers do."""
    info = folder / "otel_evals-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: otel-evals\nVersion: 0.1\n")
    (info / "INSTALLER").write_text(f"{installer}\n")
    if direct is not None:
        (info / "direct_url.json").write_text(json.dumps(direct))
    return folder


@pytest.mark.parametrize(
    ("direct", "requirement"),
    [
        (None, "'otel-evals[text]'"),
        ({"url": "HERE/a%20checkout", "dir_info": {"editable": True}}, "-e 'PATH/a checkout[text]'"),
        ({"url": "HERE/a%20checkout", "dir_info": {}}, "'PATH/a checkout[text]'"),
        ({"url": "HERE/x.whl", "archive_info": {}}, "'otel-evals[text] @ HERE/x.whl'"),
        (
            {"url": "https://git.example/x.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}},
            "'otel-evals[text] @ git+https://git.example/x.git@ab12'",
        ),
    ],
    ids=["index", "editable checkout", "checkout", "wheel", "repository"],
)
def test_the_hint_names_the_place_of_the_installation(
    direct: dict[str, Any] | None, requirement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if direct is not None:
        direct = {**direct, "url": direct["url"].replace("HERE", tmp_path.as_uri())}
    monkeypatch.syspath_prepend(installed(tmp_path, direct))
    expected = requirement.replace("HERE", tmp_path.as_uri()).replace("PATH", str(tmp_path))
    assert install_hint("text").endswith(f"pip install {expected}")


def test_pip_is_that_of_this_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/opt/an env/bin/python")
    monkeypatch.syspath_prepend(installed(tmp_path, None))
    assert package_hint("httpx") == "'/opt/an env/bin/python' -m pip install httpx"


def test_uv_installs_what_it_installed_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/env/bin/python")
    monkeypatch.syspath_prepend(installed(tmp_path, None, "uv"))
    assert install_hint("cli") == "uv pip install --python /env/bin/python 'otel-evals[cli]'"


def test_our_own_command_is_named_as_the_shell_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / ".venv" / "bin"
    ours.mkdir(parents=True)
    (ours / "otel-evals").touch(mode=0o755)
    monkeypatch.setattr("sys.executable", str(ours / "python"))
    monkeypatch.setenv("PATH", str(ours))
    assert this_command() == "otel-evals"
    monkeypatch.setenv("PATH", "/nowhere")
    assert this_command() == str(ours / "otel-evals")
