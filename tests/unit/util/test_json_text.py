"""JSON that others wrote: what is nested too deeply is refused like what is no JSON, in every Python."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.offline.results import read_items
from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.scorers.kit.labels import read_labels
from otel_evals._internal.scorers.text.rows import decode
from otel_evals._internal.util.plain import read_json
from otel_evals.destinations import read_jsonl
from otel_evals.errors import ConfigError

DEPTHS = (501, 985, 5_000, 100_000)
each_depth = pytest.mark.parametrize("depth", DEPTHS)


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def objects(depth: int) -> str:
    return '{"result":' * depth + "1" + "}" * depth


@each_depth
@pytest.mark.parametrize("form", [lists, objects])
def test_deep_json_is_no_json(form: Any, depth: int) -> None:
    for text in (form(depth), form(depth).encode()):
        with pytest.raises(ValueError, match="nested in more than 500 levels"):
            read_json(text)


@pytest.mark.parametrize("form", [lists, objects])
def test_five_hundred_levels_are_read(form: Any) -> None:
    assert read_json(form(500)) == json.loads(form(500))


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_other_json_is_read_as_python_reads_it(value: Any) -> None:
    many = [value, *[[]] * 501]  # more brackets than levels are allowed
    assert read_json(json.dumps(many)) == many


@each_depth
@pytest.mark.parametrize("form", [lists, objects])
@pytest.mark.parametrize("end", ["", "\n{\n}"], ids=["a line", "several lines"])
def test_a_file_of_deep_json_has_no_otlp(form: Any, depth: int, end: str, tmp_path: Path) -> None:
    (file := tmp_path / "deep.json").write_text(form(depth) + end)
    with pytest.raises(ConfigError, match=r"OTLP|JSON"):
        list(read_traces([str(file)]))


@each_depth
def test_deep_lines_are_refused_by_name(depth: int, tmp_path: Path) -> None:
    (file := tmp_path / "deep.jsonl").write_text(lists(depth))
    assert list(read_jsonl(file)) == []
    with pytest.raises(ConfigError, match="line 1: is not JSON"):
        read_labels([lists(depth)])
    with pytest.raises(ConfigError, match=":1: is not JSON"):
        read_items(file)
    assert decode(lists(depth)) == lists(depth)
