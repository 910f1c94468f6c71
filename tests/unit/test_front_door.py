"""What `import otel_evals` gives: exactly the public names, at next to no cost."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import otel_evals

MODULES = {"context", "sampling", "scorers"}


def in_a_fresh_process(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_the_public_names_are_sorted_and_dir_lists_them() -> None:
    assert otel_evals.__all__ == sorted(otel_evals.__all__)
    assert set(dir(otel_evals)) >= set(otel_evals.__all__)


@pytest.mark.parametrize("name", otel_evals.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    thing = getattr(otel_evals, name)
    assert isinstance(thing, ModuleType) == (name in MODULES)
    assert name == "__version__" or thing.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = otel_evals.nonsense  # type: ignore[attr-defined]  # that is the point


@pytest.mark.parametrize("name", sorted(set(otel_evals.__all__) - MODULES - {"__version__"}))
def test_a_name_means_the_same_whatever_was_imported_before(name: str) -> None:
    """A submodule of the same name, once imported, must not stand in the name's place."""
    for module in [m for m in sys.modules if m.startswith("otel_evals.")]:
        assert not (module == f"otel_evals.{name}" and getattr(otel_evals, name) is sys.modules[module])


def test_importing_the_package_loads_nothing_else_of_it() -> None:
    code = "import sys, otel_evals; print(*sorted(m for m in sys.modules if m.startswith('otel_evals')))"
    assert in_a_fresh_process(code).split() == [
        "otel_evals",
        "otel_evals._internal",
        "otel_evals._internal.util",
        "otel_evals._internal.util.lazy",
        "otel_evals._internal.util.version",
    ]


def test_configuring_a_code_scorer_loads_no_other_scorer_no_judge_and_no_library_for_them() -> None:
    code = (
        "import sys, otel_evals\n"
        "from otel_evals.scorers import answered\n"
        "otel_evals.configure(rules=[answered()])\n"
        "heavy = 'litellm openai httpx typer rich pydantic_ai grpc yaml sqlite3'.split()\n"
        "own = [f'otel_evals._internal.{m}' for m in ('judges.litellm', 'scoring.prompt', 'scorers.bias')]\n"
        "print(*sorted({*heavy, *own} & set(sys.modules)))\n"
        "otel_evals.shutdown()"
    )
    assert in_a_fresh_process(code).split() == []
