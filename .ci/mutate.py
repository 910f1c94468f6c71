"""Change the code in many places, one at a time, and count the changes that no test finds.

`python3 dev.py mutate` does so for the parts whose errors users would hardly notice: which runs are sampled,
how they are counted, when a trace is complete, and the estimates. It prints each part's score and survivors.

    --only PART ...       one or more of: sampling, accounting, complete, estimates
    --mutants PATTERN ... only these, by mutmut's names, such as "*t_quantile*"
    --sample N            N random changes of each part
    --seed TEXT           another sample
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MUTMUT = Path(sys.executable).with_name("mutmut")
LIBRARY = "otel_evals/_internal"
ESTIMATES = ("bounds", "clusters", "compare", "estimate", "student", "sums")
PARTS = {
    "sampling": (
        [f"{LIBRARY}/sampling"],
        [
            "tests/unit/sampling",
            "tests/unit/config/test_mistakes.py",
        ],
    ),
    "accounting": (
        [f"{LIBRARY}/accounting/counters.py", f"{LIBRARY}/accounting/ledger.py"],
        ["tests/unit/accounting", "tests/pipeline/test_boundaries.py", "tests/behaviour/test_accounting.py"],
    ),
    "complete": (
        [f"{LIBRARY}/gather"],
        [
            "tests/unit/gather",
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
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", default="")
    chosen = parser.parse_args()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # a mutant's bytecode would be taken for the original's
    for part in chosen.only:
        with tempfile.TemporaryDirectory() as folder:
            prepare(part, Path(folder))
            mutants = chosen.mutants
            if chosen.sample:
                # mutmut makes the changes before it looks for the named ones, and stops as there are none.
                run_mutmut(Path(folder), "run", "none")
                names = sorted(outcomes_of(Path(folder)))
                mutants = random.Random(part + chosen.seed).sample(names, min(chosen.sample, len(names)))
            run_mutmut(Path(folder), "run", *mutants)
            report(part, Path(folder))
    return 0


def prepare(part: str, folder: Path) -> None:
    """Copy the repository, and configure mutmut for one part."""
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


def run_mutmut(folder: Path, *command: str) -> str:
    """Run a mutmut command and return its output."""
    with (folder / "log").open("a") as log:
        done = subprocess.run(
            [MUTMUT, *command], cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, check=False
        )
        log.write(done.stdout)
    return done.stdout


def outcomes_of(folder: Path) -> dict[str, str]:
    """Return the outcome of each change, by mutmut's names."""
    lines = run_mutmut(folder, "results", "--all", "true").splitlines()
    return dict(line.strip().split(": ") for line in lines if ": " in line)


def report(part: str, folder: Path) -> None:
    """Print the score, and the changes that no test finds."""
    outcomes = {name: outcome for name, outcome in outcomes_of(folder).items() if outcome != "not checked"}
    counts = Counter(outcomes.values())
    if not outcomes:
        sys.exit(f"{part}: nothing was tried:\n{(folder / 'log').read_text()[-2_000:]}")
    caught, tried = counts["killed"] + counts["timeout"], len(outcomes)
    print(
        f"== {part}: {caught} of {tried} changes are found, {caught / tried:.0%}: {dict(counts)}", flush=True
    )
    for name, outcome in outcomes.items():
        if outcome in ("survived", "no tests", "suspicious"):
            print(f"\n{outcome}: {name}\n{run_mutmut(folder, 'show', name)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
