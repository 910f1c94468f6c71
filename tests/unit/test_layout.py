"""The layout of the code: tests stand where their module does, names and sizes keep to what was agreed."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median, quantiles

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "otel_evals"
DISTRIBUTIONS = (CORE, ROOT / "instrumentation", ROOT / "exporters")
TESTS = ROOT / "tests"

ELSEWHERE = {
    # Programs, tested as they are run.
    "cli/backends": "unit/cli/test_destinations.py",
    "cli/demo": "unit/cli/test_demo.py",
    "cli/report": "unit/results/test_report.py",
    "cli/monitor": "unit/results/test_alarms.py",
    "cli/results": "unit/results/test_export.py",
    "cli/store": "unit/store/test_table.py",
    "cli/gateway": "pipeline/test_gateway.py",
    "gateway": "pipeline/test_gateway.py",
    "live/alarm_watch": "pipeline/test_alarm_watch.py",
    "live/adoption": "pipeline/test_adoption.py",
    "live/autoconfigure": "pipeline/test_frameworks.py",
    "live/configure": "pipeline/test_leaving.py",
    "live/late_providers": "pipeline/test_adoption.py",
    "live/doctor": "pipeline/test_doctor.py",
    "live/quiet": "pipeline/test_doctor.py",
    "cli/doctor": "pipeline/test_doctor.py",
    "cli/init": "unit/cli/test_scorers.py",
    "live/pipeline": "pipeline/test_live.py",
    "processes": "pipeline/test_isolation.py",
    "cli/summary": "unit/cli/test_score.py",
    # Steps of one algorithm, or of one protocol, tested through its entrance.
    "accounting": "unit/accounting/test_trace_log.py",
    "assembly": "unit/assembly/test_runs.py",
    "config": "unit/config/test_options.py",
    "dialect": "unit/conventions/test_every_convention.py",
    "evals": "unit/evals/test_running.py",
    "export": "unit/export/test_fanout.py",
    "intake/otlp": "unit/intake/test_otlp.py",
    "judge": "unit/judge/test_limits.py",
    "results": "unit/results/test_estimate.py",
    "sampling": "unit/sampling/test_limits.py",
    "replay": "unit/cli/test_replay.py",
    "scorers": "unit/scorers/test_judge_scorers.py",
    "scoring": "unit/scoring/test_steps.py",
    "store": "unit/store/test_table.py",
    "util": "unit/scoring/test_outcome.py",
    # Records and names: what uses them is tested.
    "errors": "unit/test_front_door.py",
    "model": "unit/model/test_record.py",
    "semconv": "unit/attachment/test_records.py",
    "version": "unit/test_packaging.py",
}
"""Modules, and folders with modules, without a test file of their own: where they are tested instead."""

MIRRORED = ("attachment", "engine", "intake", "stages")
"""Folders in which every module has its test file."""


def modules() -> Iterator[str]:
    """Every module of the core, as in `engine/thread`; packages' own files only say what is in them."""
    for path in sorted(CORE.rglob("*.py")):
        if path.name != "__init__.py":
            yield path.relative_to(CORE).with_suffix("").as_posix()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def sources() -> Iterator[Path]:
    for folder in DISTRIBUTIONS:
        yield from sorted(folder.rglob("*.py"))


def mirrored(module: str) -> bool:
    folder, _, name = module.rpartition("/")
    return (TESTS / "unit" / folder / f"test_{name}.py").is_file()


def covered_by(module: str) -> str | None:
    """The entry of `ELSEWHERE` for a module: its own, or that of a folder it stands in."""
    place: str | None = module
    while place and place not in ELSEWHERE:
        place = place.rpartition("/")[0]
    return place or None


def test_every_module_has_its_test_where_it_stands_or_is_listed() -> None:
    assert [module for module in modules() if not mirrored(module) and covered_by(module) is None] == []


@pytest.mark.parametrize("folder", MIRRORED)
def test_the_stages_each_have_tests_of_their_own(folder: str) -> None:
    here = [m for m in modules() if m.startswith(f"{folder}/") and not m.startswith("intake/otlp/")]
    assert len(here) > 1
    assert [module for module in here if not mirrored(module)] == []


@pytest.mark.parametrize("place", ELSEWHERE)
def test_what_is_listed_is_there_and_needs_to_be_listed(place: str) -> None:
    assert (TESTS / ELSEWHERE[place]).is_file()
    assert [module for module in modules() if covered_by(module) == place and not mirrored(module)]


def test_tests_that_mirror_a_module_have_one() -> None:
    """In the folders that are mirrored whole: a test file left behind by a module that moved is found."""
    known = set(modules())
    found = [path for folder in MIRRORED for path in (TESTS / "unit" / folder).rglob("test_*.py")]
    tested = {
        (p.parent / p.stem.removeprefix("test_")).relative_to(TESTS / "unit").as_posix(): p for p in found
    }
    assert {str(p) for name, p in tested.items() if name not in known and name != "intake/otlp"} == set()


def test_no_two_public_classes_share_a_name() -> None:
    where: defaultdict[str, list[str]] = defaultdict(list)
    for path in sources():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in where.items() if len(places) > 1} == {}


def test_a_module_over_300_lines_says_why() -> None:
    long = [p for p in sources() if len(p.read_text(encoding="utf-8").splitlines()) > 300]
    silent = [p for p in long if "Long for one module, because" not in (ast.get_docstring(parsed(p)) or "")]
    assert [str(path.relative_to(ROOT)) for path in silent] == []
    assert len(long) <= 5, "an exception each"


def test_functions_are_short() -> None:
    lengths = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for path in sorted(CORE.rglob("*.py"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    ninetieth = quantiles(lengths, n=10)[-1]
    assert median(lengths) <= 8, Counter(lengths)
    assert ninetieth <= 25, Counter(lengths)


def test_the_root_holds_the_ground_and_nothing_else() -> None:
    ground = [path.stem for path in CORE.glob("*.py") if path.name != "__init__.py"]
    assert len(ground) <= 10, ground
