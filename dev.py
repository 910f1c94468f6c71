"""Set up the development environment and run a command in it. Needs Python 3.11 or later and nothing else.

python3 dev.py demo [options]    score a support agent's live traffic; --help lists the options
python3 dev.py check             lint, format, types, import contracts, spelling, workflows, public API, prose
python3 dev.py test [options]    run the tests; options go to pytest
python3 dev.py slow [options]    run the slow tests
python3 dev.py interop [options] set up real servers and run the tests against them
python3 dev.py site              build the documentation and check its links
python3 dev.py mutate [options]  change the code in many places and count the changes that no test finds
python3 dev.py release --dry-run build, describe and test the files of a release, in dist/
python3 dev.py scorers           enter the built-in scorers in exports, entry points and docs
python3 dev.py api               rewrite tests/unit/public_api.txt, the snapshot of the public API
python3 dev.py setup             only create the development environment
python3 dev.py lock [--upgrade]  refresh requirements/*.lock; locked versions stay, except with --upgrade

The environment is .venv, or the folder named by OTEL_EVALS_VENV. Everything in it comes from a lock of
names, versions and hashes; while the lock stays the same, nothing is installed again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LOCKS = ROOT / "requirements"
VENV = Path(os.environ.get("OTEL_EVALS_VENV", ROOT / ".venv")).absolute()
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / "python"

CHECKS = (
    ("mypy",),
    ("ruff", "check"),
    ("ruff", "format", "--check"),
    ("lint-imports",),
    ("codespell",),
    ("zizmor", "--offline", "--quiet", ".github"),
    ("pytest", "-q", "-n", "0", "tests/unit/test_public_api.py"),
)
"""The longest first: two run at a time."""
PROSE = {"docs": 2.5, "code": 4.5}
"""Highest rates per 1,000 words of the constructions that accent.py counts."""
TESTS = {
    # One more process than processors: a third of the time, a test waits for a server or another process.
    "test": ("-n", str((os.cpu_count() or 1) + 1)),
    "slow": ("-m", "slow and not interop", "--timeout", "300"),
    "interop": ("-n", "2", "-m", "interop", "--timeout", "300"),
}
API = ("-m", "tests.support.public_api")
DERIVED = {
    "api": (API,),
    "scorers": (("docs/generate_scorer_reference.py",), ("docs/generate_configuration.py",), API),
}
COMMANDS = {*TESTS, *DERIVED, "demo", "check", "site", "mutate", "release", "setup", "lock"}


def main() -> int:
    """Run one command and return its exit code."""
    command, *options = sys.argv[1:] or ["--help"]
    if command not in COMMANDS:
        print(__doc__)
        return 0 if command in {"-h", "--help"} else 2
    if sys.version_info < (3, 11):
        return restart_with_newer_python()
    # The tests start hundreds of processes: without bytecode, each would compile all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        set_up("demo" if command == "demo" else "dev")
        if command == "lock":
            refresh_locks(*options)
    except subprocess.CalledProcessError as error:
        print(f"\nThis command failed, its output is above: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        return 1
    if command == "demo":
        return run(BIN / "otel-evals", "demo", *options)
    if command in TESTS:
        if command == "interop" and (failed := set_up_servers()):
            return failed
        # Neighbours stay together, so most libraries are imported by one process only.
        parallel = ("-n", "auto", "--dist", "worksteal")
        return run(PYTHON, "-m", "pytest", *parallel, *TESTS[command], *options)
    if command == "check":
        with ThreadPoolExecutor(2) as pool:
            return max(*pool.map(check, CHECKS), check_prose())
    if command in DERIVED:
        return max(run(PYTHON, *script) for script in DERIVED[command])
    if command == "site":
        return build_site()
    if command in ("release", "mutate"):
        return run(PYTHON, ROOT / ".ci" / f"{command}.py", *options)
    return 0


def check(command: tuple[str, ...]) -> int:
    """Run one check and print its output as a whole; return its exit code."""
    tool, *arguments = command
    done = subprocess.run(
        [str(BIN / tool), *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(f"== {tool}{': failed' if done.returncode else ''}\n{done.stdout}{done.stderr}", end="", flush=True)
    return done.returncode


def check_prose() -> int:
    """Compare the prose with its limits, by a script outside the repository; return the exit code."""
    if not (folder := os.environ.get("OTEL_EVALS_WORDS")):
        print("== prose: skipped, because OTEL_EVALS_WORDS names no folder of accent.py")
        return 0
    done = subprocess.run(
        [PYTHON, Path(folder, "accent.py"), ROOT], capture_output=True, text=True, check=False
    )
    found = re.search(r"^all markers +(\S+) +\S+ +(\S+)", done.stdout, re.MULTILINE)
    rates = dict(zip(PROSE, map(float, found.groups()), strict=True)) if found else {}
    failed = not rates or any(rate > PROSE[kind] for kind, rate in rates.items())
    print(f"== prose{': failed' if failed else ''}\n{rates or done.stdout + done.stderr}, at most {PROSE}")
    return int(failed)


def set_up_servers() -> int:
    """Install the servers of the interop tests; return the exit code."""
    os.environ.update(UV=str(BIN / "uv"), PYTHON=str(PYTHON))
    return run("sh", ROOT / "tests" / "interop" / "setup.sh")


def build_site() -> int:
    """Build the documentation in a separate environment; return the exit code."""
    environment = VENV.with_name(f"{VENV.name}-docs")
    uv = [BIN / "uv", "--quiet"]
    if not environment.exists():
        must(*uv, "venv", "--python", PYTHON, environment)
    must(*uv, "pip", "sync", "--python", environment, "--require-hashes", LOCKS / "docs.lock")
    os.environ["NO_MKDOCS_2_WARNING"] = "1"
    # `--quiet` would hide warnings from `--strict`.
    return run(environment / BIN.name / "mkdocs", "build", "--strict")


def set_up(lock: str) -> None:
    """Create the environment and install a lock and the project, unless both are up to date."""
    # Whatever `demo` needs is in `dev` too, so a current development environment serves both.
    if any(stamp(name).exists() and stamp(name).read_text() == fingerprint(name) for name in {lock, "dev"}):
        return
    print(f"Installing requirements/{lock}.lock into {VENV}", flush=True)
    make_environment()
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if lock != "dev" or not install_with_uv(pip):
        # One word list is published as source only.
        binary = ("--only-binary", ":all:", "--no-binary", "afinn")
        must(*pip, "--require-hashes", *binary, "-r", LOCKS / f"{lock}.lock")
    must(*pip, "--no-deps", "--no-build-isolation", "--editable", ROOT)
    stamp(lock).write_text(fingerprint(lock))


def install_with_uv(pip: list[object]) -> bool:
    """Install the large lock with its own uv, ten times faster than pip; return True if it worked.

    uv does not read pip's index settings, so pip takes over if uv reaches no index.
    """
    lock = LOCKS / "dev.lock"
    (uv,) = re.findall(r"^uv==.*(?:\n    --hash.*)+", lock.read_text(), re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder, "uv.lock")
        alone.write_text(uv)
        must(*pip, "--require-hashes", "-r", alone)
    # Not from here: uv would add the constraints of pyproject.toml.
    command = [BIN / "uv", "pip", "install", "--quiet", "--python", PYTHON, "--require-hashes", "-r", lock]
    return subprocess.run([str(word) for word in command], cwd=VENV, check=False).returncode == 0


def make_environment() -> None:
    """Create the virtual environment and its pip if they are missing."""
    if not PYTHON.exists():
        made = subprocess.run([sys.executable, "-m", "venv", VENV], check=False).returncode == 0
        if not made:
            shutil.rmtree(VENV, ignore_errors=True)
            sys.exit(
                "Python's own venv module does not work here. On Debian and Ubuntu: apt install python3-venv"
            )
    if subprocess.run([PYTHON, "-c", "import pip"], stderr=subprocess.DEVNULL, check=False).returncode:
        must(PYTHON, "-m", "ensurepip", "--upgrade")


def refresh_locks(*options: str) -> None:
    """Compile the locks from pyproject.toml; `demo` has the versions of `dev`."""
    form = "--universal --generate-hashes --no-annotate --no-header --no-emit-index-url --quiet"
    compile_lock = [BIN / "uv", "pip", "compile", ROOT / "pyproject.toml", *form.split(), *options]
    dev = LOCKS / "dev.lock"
    must(*compile_lock, "--all-extras", "--group", "dev", "--output-file", dev)
    parts = {"demo": ("demo",), "gateway": ("gateway", "http", "litellm", "redis", "monitor", "text")}
    for name, extras in parts.items():
        part = LOCKS / f"{name}.lock"
        # Compiled without its old versions: only `dev` constrains them.
        part.unlink(missing_ok=True)
        chosen = [word for extra in extras for word in ("--extra", extra)]
        must(*compile_lock, *chosen, "--group", "build", "--constraints", dev, "--output-file", part)


def restart_with_newer_python() -> int:
    """Run the same command with a newer Python of this machine; return 1 if there is none."""
    for minor in range(20, 10, -1):
        python = shutil.which(f"python3.{minor}")
        # A version manager's shim may be on the PATH without its version.
        if python and run(python, "-c", "") == 0:
            return run(python, Path(__file__).resolve(), *sys.argv[1:])
    print("otel-evals needs Python 3.11 or later, and none is on the PATH.", file=sys.stderr)
    return 1


def stamp(lock: str) -> Path:
    """Return the file that records the last installation."""
    return VENV / f"installed-{lock}"


def fingerprint(lock: str) -> str:
    """Return a hash that changes when the environment must be updated."""
    parts = [LOCKS / f"{lock}.lock", ROOT / "pyproject.toml"]
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()


def run(*command: object) -> int:
    """Run a command from the repository's root and return its exit code."""
    return subprocess.run([str(word) for word in command], cwd=ROOT, check=False).returncode


def must(*command: object) -> None:
    """Run a command and raise if it fails."""
    subprocess.run([str(word) for word in command], check=True)


if __name__ == "__main__":
    sys.exit(main())
