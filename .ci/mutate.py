"""Change the code in many places, one at a time, and count the changes that no test finds.

`python3 dev.py mutate` does so for the parts whose errors users would hardly notice: which runs are sampled,
how they are counted, when a trace is complete, and the estimates. It prints each part's score and survivors.

    --only PART ...       one or more of: sampling, accounting, complete, estimates
    --mutants PATTERN ... only these, by mutmut's names, such as "*t_quantile*"
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MUTMUT = Path(sys.executable).with_name("mutmut")
LIBRARY = "otel_evals/_internal"
ESTIMATES = ("bounds", "clusters", "compare", "correction", "estimate", "student", "sums")
PARTS = {
    "sampling": (
        [f"{LIBRARY}/sampling"],
        [
            "tests/unit/sampling",
            "tests/unit/config/test_mistakes.py",
            "tests/unit/evaluate/test_conversations.py",
        ],
    ),
    "accounting": (
        [f"{LIBRARY}/accounting/counters.py", f"{LIBRARY}/accounting/ledger.py"],
        ["tests/unit/accounting", "tests/pipeline/test_boundaries.py", "tests/pipeline/test_exclusions.py"],
    ),
    "complete": (
        [f"{LIBRARY}/gather", "otel_evals_gateway/_internal/trace_gatherer.py"],
        [
            "tests/unit/gather",
            "tests/unit/gateway/test_trace_gatherer.py",
            "tests/unit/pipeline/test_steps.py",
            "tests/pipeline/test_long_runs.py",
        ],
    ),
    "estimates": (
        [f"{LIBRARY}/statistics/{name}.py" for name in ESTIMATES],
        [f"tests/unit/statistics/test_{name}.py" for name in ESTIMATES if name != "clusters"],
    ),
}
"""Sources and their tests."""


def main() -> int:
    """Mutate the chosen parts; return 0, as the score is for people to read."""
    parser = argparse.ArgumentParser(prog="dev.py mutate", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--mutants", nargs="+", default=[])
    chosen = parser.parse_args()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # a mutant's bytecode would be taken for the original's
    for part in chosen.only:
        with tempfile.TemporaryDirectory() as folder:
            mutate(part, Path(folder), chosen.mutants)
    return 0


def mutate(part: str, folder: Path, mutants: Sequence[str]) -> None:
    """Run mutmut on one part, in a copy of the repository."""
    sources, tests = PARTS[part]
    archive = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(
        ["tar", "cf", folder / "all.tar", "--null", "-T", "-"], cwd=ROOT, input=archive, check=True
    )
    subprocess.run(["tar", "xf", "all.tar"], cwd=folder, check=True)
    (folder / "all.tar").unlink()
    # mutmut derives module names from paths, and imports only top-level packages from its copy.
    for package in folder.glob("*/otel_evals_*"):
        package.rename(folder / package.name)
    copied = [path.name for path in folder.iterdir()]
    with (folder / "pyproject.toml").open("a") as config:
        config.write(
            f"\n[tool.mutmut]\nsource_paths = {sources}\nalso_copy = {copied}\n"
            # Counts that machines share are tested with a real Redis: tests/interop/test_shared_limits.py.
            'do_not_mutate = ["*/shared_counts.py"]\n'
            f"pytest_add_cli_args_test_selection = {tests}\n"
            'pytest_add_cli_args = ["-n", "0", "-p", "no:cacheprovider"]\n'
        )
    with (folder / "log").open("w") as log:
        subprocess.run([MUTMUT, "run", *mutants], cwd=folder, stdout=log, stderr=log, check=False)
    listed = subprocess.run(
        [MUTMUT, "results", "--all", "true"], cwd=folder, capture_output=True, text=True, check=False
    )
    found = [line.strip().split(": ") for line in listed.stdout.splitlines() if ": " in line]
    outcomes = Counter(outcome for _, outcome in found if outcome != "not checked")
    caught = outcomes["killed"] + outcomes["timeout"]
    tried = sum(outcomes.values())
    if not tried:
        sys.exit(f"{part}: nothing was tried:\n{(folder / 'log').read_text()[-2_000:]}")
    print(
        f"== {part}: {caught} of {tried} changes are found, {caught / tried:.0%}: {dict(outcomes)}",
        flush=True,
    )
    for name, outcome in found:
        if outcome in ("survived", "no tests", "suspicious"):
            shown = subprocess.run(
                [MUTMUT, "show", name], cwd=folder, capture_output=True, text=True, check=False
            )
            print(f"\n{outcome}: {name}\n{shown.stdout}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
