"""Files of scores that people or other programs have changed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from otel_evals._internal.cli import runs
from otel_evals._internal.cli.app import app
from otel_evals._internal.cli.scored_records import scored_records
from tests.support.result_records import record

WHOLE, OTHER = record(1, 0.25), record(2, 0.5)
ODD = (
    None,
    [],
    {},
    "",
    "[/]",
    "\x1b[31m",
    "\ud800",
    -1,
    1e308,
    float("nan"),
    True,
    10**400,
    [[1]],
    {"a": None},
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container in a record with each of its keys."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("changed") / "scores.jsonl"


@given(place=st.integers(0, len(list(places(WHOLE))) - 1), odd=st.sampled_from(ODD))
def test_a_changed_record_costs_no_other(file: Path, place: int, odd: Any) -> None:
    changed = json.loads(json.dumps(WHOLE))
    container, key = list(places(changed))[place]
    container[key] = odd
    file.write_text("".join(f"{json.dumps(each)}\n" for each in (changed, OTHER)))
    told = CliRunner().invoke(app, ["explain", OTHER["trace_id"], "--scores", str(file)])
    assert told.exit_code == 0, told.output
    assert "score 0.5" in told.stdout
    assert CliRunner().invoke(app, ["explain", WHOLE["trace_id"], "--scores", str(file)]).exit_code in (
        0,
        1,
        2,
    )
    assert runs._print_trees(scored_records([file], command="runs"), runs._scored_tree) in (1, 2)


def test_a_record_of_another_form_is_named(file: Path) -> None:
    changed = WHOLE | {"evaluations": [WHOLE["evaluations"][0] | {"value": "high"}]}
    file.write_text("".join(f"{json.dumps(each)}\n" for each in (changed, 5, OTHER, changed)))
    told = CliRunner().invoke(app, ["explain", OTHER["trace_id"], "--scores", str(file)])
    assert told.exit_code == 0
    problem = "Expected `float | null`, got `str` - at `$.evaluations[0].value`"
    assert f"otel-evals explain: {file}: 3 lines left out: {problem}" in told.stderr
