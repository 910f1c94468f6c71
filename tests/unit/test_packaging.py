"""What is shipped: five import names, everything they need, and locks that anyone can use."""

from __future__ import annotations

import ast
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [ROOT / "otel_evals", *ROOT.glob("[!.]*/otel_evals_*")]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))

COMMANDS = (
    "gateway/otel_evals_gateway/_internal/commands/",
    "monitor/otel_evals_monitor/_internal/commands/",
)
LIBRARIES = {
    "RAKE": (),
    "cloudpickle": ("otel_evals/_internal/processes/by_value.py",),
    "httpx": ("otel_evals/_internal/judges/openai_compatible.py",),
    "jinja2": ("monitor/otel_evals_monitor/_internal/page/",),
    "jsonschema": (),
    "litellm": (),
    "markupsafe": ("monitor/otel_evals_monitor/_internal/page/",),
    "numpy": (),
    "openai": (),
    "playwright": (),
    "psycopg": (),
    "py3langid": (),
    "pydantic_ai": ("monitor/otel_evals_monitor/_internal/demo/",),
    "rapidfuzz": (),
    "regex": (),
    "rich": ("otel_evals/_internal/cli/", *COMMANDS, "monitor/otel_evals_monitor/_internal/"),
    "simplemma": (),
    "sqlalchemy": ("monitor/otel_evals_monitor/_internal/",),
    "starlette": ("monitor/otel_evals_monitor/_internal/page/",),
    "stdnum": (),
    "typer": ("otel_evals/_internal/cli/", *COMMANDS),
    "uvicorn": ("monitor/otel_evals_monitor/_internal/page/",),
}
"""Libraries of the extras, and where they may be imported as soon as the module is."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_the_wheel_holds_exactly_the_five_import_names(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    packages = {top for top in tops if not top.endswith(".dist-info")}
    assert packages == {source.name for source in SOURCES}


def test_the_wheel_holds_every_source_file_types_marker_and_data_file(wheel: zipfile.ZipFile) -> None:
    wanted = {
        str(file.relative_to(source.parent))
        for source in SOURCES
        for pattern in ("**/*.py", "**/py.typed", "**/*.yaml", "**/*.html", "**/*.css")
        for file in source.glob(pattern)
    }
    assert wanted - set(wheel.namelist()) == set()
    assert sum(name.endswith("/py.typed") for name in wheel.namelist()) == len(SOURCES)


@pytest.mark.slow
def test_an_unpacked_sdist_builds_the_same_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    def build(kind: str, source: Path, target: Path) -> Path:
        command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
        subprocess.run(command, cwd=source, check=True, capture_output=True)
        return next(target.iterdir())

    shutil.unpack_archive(build("sdist", ROOT, tmp_path / "sdist"), tmp_path / "source", filter="data")
    again = build("wheel", next((tmp_path / "source").iterdir()), tmp_path / "wheel")
    assert again.read_bytes() == Path(str(wheel.filename)).read_bytes()


def test_all_files_name_one_version() -> None:
    check_version = runpy.run_path(str(ROOT / ".ci" / "release.py"))["check_version"]
    check_version(None)
    with pytest.raises(SystemExit, match="the tag"):
        check_version("v99.0.0")


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Not from the checkout: its folder comes last on the path, the unpacked wheel first."""
    wheel.extractall(tmp_path / "site")
    code = (
        "import sys, otel_evals\n"
        "assert otel_evals.__file__.startswith(sys.argv[1]), otel_evals.__file__\n"
        "sys.argv = ['otel-evals', 'demo', '--runs', '30', '--out', sys.argv[2]]\n"
        "from otel_evals._internal.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path / "site"), str(tmp_path / "out")],
        env={"PYTHONPATH": str(tmp_path / "site"), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out" / "scores.jsonl").read_text().splitlines()) == 30


@pytest.mark.parametrize("group", ["otel_evals_destination", "otel_evals_convention", "otel_evals_scorer"])
def test_every_plug_that_is_announced_can_be_loaded(group: str) -> None:
    ours = [point for point in entry_points(group=group) if point.dist and point.dist.name == "otel-evals"]
    assert ours
    assert all(callable(point.load()) for point in ours)


def test_libraries_of_extras_are_imported_only_where_they_are_needed() -> None:
    wrong = [
        f"{file} imports {name}"
        for source in SOURCES
        for file in sorted(source.rglob("*.py"))
        for name in imported_at_once(file)
        if name in LIBRARIES and not str(file.relative_to(ROOT)).startswith(LIBRARIES[name] or "-")
    ]
    assert wrong == []


def imported_at_once(file: Path) -> Iterator[str]:
    """Top-level names that a module imports when it is imported itself, type checking apart."""
    pending: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]
        pending.extend(ast.iter_child_nodes(node))


def test_the_front_door_needs_no_extra() -> None:
    """Everything that `otel_evals` exports loads in a process where no extra is installed."""
    code = (
        "import sys\n"
        f"for name in {sorted(LIBRARIES)} + ['opentelemetry.exporter']: sys.modules[name] = None\n"
        "import otel_evals\n"
        "for name in otel_evals.__all__: getattr(otel_evals, name)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_holds_names_versions_and_hashes_only(lock: Path) -> None:
    line = re.compile(
        r"[a-z0-9._-]+(\[[a-z0-9,_-]+\])?==[^\s;]+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?"
    )
    wrong = [text for text in lock.read_text().splitlines() if not line.fullmatch(text)]
    assert wrong == []


def test_a_lock_of_javascript_holds_no_address() -> None:
    assert "://" not in (ROOT / "examples/frameworks/package-lock.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["demo", "gateway"])
def test_what_is_started_has_the_versions_of_the_development_environment(name: str) -> None:
    locked, dev = (set(pins(ROOT / "requirements" / f"{lock}.lock")) for lock in (name, "dev"))
    assert locked
    assert locked <= dev


def test_every_requirement_of_the_project_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    wanted = {re.split(r"[\[<>=!~ ]", name)[0].lower() for name in named} - {"otel-evals"}
    assert wanted <= {name for name, _ in pins(ROOT / "requirements" / "dev.lock")}


SHARED = [lock for lock in LOCKS if lock.stem.startswith(("already-", "frameworks"))]


@pytest.mark.parametrize("lock", SHARED, ids=lambda lock: lock.stem)
def test_an_environment_of_another_library_has_what_the_core_needs(lock: Path) -> None:
    """The project is installed there without its requirements, so that the library's own versions stay."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=]", name)[0] for name in project["dependencies"]}
    assert needed <= {name for name, _ in pins(lock)}


def pins(lock: Path) -> list[tuple[str, str]]:
    """Names and versions of a lock."""
    return re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", lock.read_text(), re.MULTILINE)
