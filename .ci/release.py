"""Build the files of a release twice, compare them, describe them, and test the wheel.

`python3 dev.py release --dry-run` writes sdist, wheel, one CycloneDX SBOM each and SHA256SUMS to dist/, then
runs the tests against the wheel, without the source tree: with the oldest dependencies on the oldest Python,
with the oldest SDK but without the gateway, which needs a newer one, and with the newest of everything. Each
minimum in pyproject.toml must be a version that is tested. It publishes nothing: that is done for a tag, by
.github/workflows/release.yml.

    --tag vX.Y.Z      fail unless this is the tag of the version
    --only PART       build, oldest, sdk or newest; all four by default
    --tests PATH ...  run these tests instead of the default tier
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PACKAGES = ("otel_evals", "instrumentation", "exporters", "gateway", "monitor")
OF_THE_TREE = (
    "tests/unit/test_packaging.py",
    "tests/unit/docs",
    "tests/typing",
)
"""Tests of the source tree itself."""
EXTRAS = tuple(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


@dataclass(frozen=True)
class Suite:
    """A suite of tests, and the environment for it."""

    python: str
    resolution: str
    extras: Sequence[str] = EXTRAS
    tests: Sequence[str] = ("tests",)


SUITES = {
    "oldest": Suite("3.11", "lowest-direct"),
    "sdk": Suite(
        "3.11",
        "lowest-direct",
        ("cli", "http", "litellm", "otlp", "redis", "text"),
        (
            "tests/unit/attach",
            "tests/unit/capture",
            "tests/unit/live",
            "tests/pipeline/test_adoption.py",
            "tests/pipeline/test_frameworks.py",
            "tests/behaviour/test_process_ends.py",
            "tests/behaviour/test_scores_on_traces.py",
            "tests/behaviour/test_otlp_end_to_end.py",
        ),
    ),
    "newest": Suite("3.13", "highest"),
}
UV = [Path(sys.executable).with_name("uv"), "--quiet"]
GROUP = ("--group", f"{ROOT / 'pyproject.toml'}:tests")


def main() -> int:
    """Run the rehearsal and return the exit code."""
    parser = argparse.ArgumentParser(prog="dev.py release", description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", required=True, help="publish nothing")
    parser.add_argument("--tag", help="fail unless this is the tag of the version")
    parser.add_argument("--only", choices=["build", *SUITES], help="one part instead of all")
    parser.add_argument("--tests", nargs="+", help="run these tests against the wheel")
    chosen = parser.parse_args()
    check_version(chosen.tag)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        if chosen.only in (None, "build"):
            build(scratch)
        (wheel,) = DIST.glob("*.whl")
        suites = {name: suite for name, suite in SUITES.items() if chosen.only in (None, name)}
        for name, suite in suites.items():
            resolve(suite, scratch / f"{name}.txt")
        if chosen.only is None:
            check_minima([scratch / f"{name}.txt" for name in suites])
        for name, suite in suites.items():
            test(wheel, name, suite, scratch, chosen.tests or suite.tests)
    print(f"\nReady in {DIST}:")
    run("ls", "-l", DIST)
    return 0


def check_version(tag: str | None) -> None:
    """Compare the version in all files that name it, and the tag."""
    chart = (ROOT / "examples/gateway/helm/otel-evals-gateway/Chart.yaml").read_text()
    named = {
        "Chart.yaml": re.findall(r'^(?:v|appV)ersion: "?([^"\s]+)', chart, re.MULTILINE),
        "CITATION.cff": re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE),
        "CHANGELOG.md": re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[:1],
        "the tag": [tag.removeprefix("v")] if tag else [version()],
    }
    wrong = {name: found for name, found in named.items() if set(found) != {version()}}
    if wrong:
        sys.exit(f"the version is {version()}, but: {wrong}. fix: name {version()} everywhere")


def version() -> str:
    """Return the version of the library."""
    return str(runpy.run_path(str(ROOT / "otel_evals/_internal/util/version.py"))["__version__"])


def build(scratch: Path) -> None:
    """Build twice, in different folders and from the sdist too; then describe and sum up."""
    shutil.rmtree(DIST, ignore_errors=True)
    copy(
        scratch / "elsewhere",
        ("README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", ".gitignore", *PACKAGES),
    )
    for source, target in ((ROOT, DIST), (scratch / "elsewhere", scratch / "again")):
        run(sys.executable, "-m", "hatchling", "build", "-d", target, cwd=source)
    (sdist,) = DIST.glob("*.tar.gz")
    shutil.unpack_archive(sdist, scratch / "unpacked", filter="data")
    (unpacked,) = (scratch / "unpacked").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch / "from-sdist", cwd=unpacked)
    for file in (*scratch.glob("again/*"), *scratch.glob("from-sdist/*.whl")):
        if file.read_bytes() != (DIST / file.name).read_bytes():
            sys.exit(f"{file.name} differs between two builds ({file.parent.name}). fix: remove what varies")
    describe(scratch)
    files = sorted(DIST.iterdir())
    (DIST / "SHA256SUMS").write_text("".join(f"{digest(file)}  {file.name}\n" for file in files))


def describe(scratch: Path) -> None:
    """Write an SBOM for each artefact: its dependencies with all extras, in the versions of the lock."""
    tool, needed = scratch / "tool", scratch / "needed"
    venv(tool, sys.executable, "--require-hashes", "-r", ROOT / "requirements/release.lock")
    (wheel,), (sdist,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    everything = f"otel-evals[{','.join(EXTRAS)}] @ {wheel.as_uri()}"
    for name, artefact, more in (("wheel", wheel, ()), ("sdist", sdist, ("hatchling",))):
        venv(needed, sys.executable, "-c", ROOT / "requirements/dev.lock", everything, *more)
        bom = DIST / f"{name}.cdx.json"
        run(
            *(tool / "bin/cyclonedx-py", "environment", needed / "bin/python", "--output-reproducible"),
            *("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "-o", bom),
        )
        told = json.loads(bom.read_text())
        hashes = [{"alg": "SHA-256", "content": digest(artefact)}]
        told["metadata"]["component"].update(version=version(), hashes=hashes)
        bom.write_text(json.dumps(told, indent=2) + "\n")


def digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def resolve(suite: Suite, wanted: Path) -> None:
    """Write the versions of a suite's environment.

    The wheel and its tests get one resolution: the tests' frameworks constrain its dependencies.
    """
    extras = [word for extra in suite.extras for word in ("--extra", extra)]
    versions = ("--python-version", suite.python, "--resolution", suite.resolution)
    form = ("--no-annotate", "--no-header", "-o", wanted)
    # uv would add the constraints of pyproject.toml if it ran in the repository.
    run(*UV, "pip", "compile", ROOT / "pyproject.toml", *extras, *GROUP, *versions, *form, cwd=wanted.parent)


def check_minima(resolved: Collection[Path]) -> None:
    """Fail unless each minimum of the wheel and its tests is a version that one of the suites has."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, group = told["project"], told["dependency-groups"]["tests"]
    tested = set(re.findall(r"^([\w-]+)(?:\[.*\])?==(\S+)", "\n".join(map(Path.read_text, resolved)), re.M))
    tested = {(name, Version(version)) for name, version in tested}
    for line in chain(project["dependencies"], *project["optional-dependencies"].values(), group):
        needed = Requirement(line)
        lowest = {(needed.name, Version(each.version)) for each in needed.specifier}
        if not lowest <= tested:
            found = sorted(str(version) for name, version in tested if name == needed.name)
            sys.exit(f"the minimum of {line} is not tested. fix: raise it to the lowest of {found}")


def test(wheel: Path, name: str, suite: Suite, scratch: Path, paths: Sequence[str]) -> None:
    """Run the tests against the wheel where nothing of the source tree can be imported."""
    environment, folder = scratch / name, scratch / f"tests-{name}"
    needed = f"otel-evals[{','.join(suite.extras)}] @ {wheel.as_uri()}"
    venv(environment, interpreter(suite.python), *GROUP, "-c", scratch / f"{name}.txt", needed)
    copy(
        folder,
        [file for file in tracked() if not file.startswith(tuple(f"{package}/" for package in PACKAGES))],
    )
    print(f"\n== the wheel with the {name} dependencies on Python {suite.python}", flush=True)
    ignored = [f"--ignore={path}" for path in OF_THE_TREE]
    # Libraries of other ages warn of each other; only the locked versions have to be free of that.
    kinds = ("DeprecationWarning", "PendingDeprecationWarning", "UserWarning")
    warnings = [word for kind in kinds for word in ("-W", f"default::{kind}")]
    os.environ.pop("PYTHONPATH", None)
    parallel = ("-q", "-n", "auto", "--dist", "worksteal")
    run(environment / "bin/python", "-m", "pytest", *parallel, *warnings, *ignored, *paths, cwd=folder)


def tracked() -> list[str]:
    """Names of all files under version control."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def copy(folder: Path, names: Sequence[str]) -> None:
    """Copy tracked files and folders of the repository to another folder."""
    for name in tracked():
        if name in names or name.split("/")[0] in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def interpreter(version: str) -> str:
    """Return a Python of this version; the shims of a version manager may stand for one that is not there."""
    managed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for python in (f"python{version}", *map(str, managed.glob(f"{version}.*/bin/python"))):
        path = shutil.which(python)
        if path and not subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode:
            return path
    sys.exit(f"there is no Python {version}. fix: install it, or choose another part with --only")


def venv(folder: Path, python: str, *requirements: object) -> None:
    """Make an environment of these requirements, or add them to it."""
    if not folder.exists():
        run(*UV, "venv", "--python", python, folder)
    # uv would add the constraints of pyproject.toml if it ran in the repository.
    run(*UV, "pip", "install", "--python", folder, *requirements, cwd=folder)


def run(*command: object, cwd: Path = ROOT) -> None:
    """Run a command and end with its exit code if it fails."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}")


if __name__ == "__main__":
    sys.exit(main())
