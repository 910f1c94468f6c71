"""Configuration files: environment variables, durations, conditions, resolvers, as the objects they mean."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

import otel_evals
from otel_evals import Config, context, load_config
from otel_evals._internal.config.loader import build_config, section_names
from otel_evals._internal.config.options import ConfigOptions
from otel_evals._internal.config.yaml_file import YamlFile
from otel_evals.errors import ConfigError
from otel_evals.model import Operation, OperationKind, Run, SpanRecord
from otel_evals.scorers import with_examples
from otel_evals.testing import read_labels

BUILTIN = {"scorer": "hallucination", "options": {"model": "openai/gpt-5-mini"}}


def values(tmp_path: Path, text: str, **environment: str) -> Any:
    (path := tmp_path / "evals.yaml").write_text(text, encoding="utf-8")
    read = YamlFile(path, environment)
    assert not read.errors
    return read.values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "word"),
        ("${env:A}", "word"),
        ("${NUMBER}", 7),
        ('"${NUMBER}"', "7"),
        ("${NUMBER}s", "7s"),
        ("a-${A}-${NUMBER}", "a-word-7"),
        ("${NONE:-other}", "other"),
        ("${NONE:-5}", 5),
        ("${NONE:-}", None),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}", None),
        ("$$5 and $${A}", "$5 and ${A}"),
        ("$A", "$A"),
        ("'^a$'", "^a$"),
        ("${LINES}", "a\nb: 1"),
        ("${LIST}", "[1, 2]"),
    ],
)
def test_variables_are_put_in_as_the_collector_does(tmp_path: Path, text: str, value: Any) -> None:
    environment = {"A": "word", "NUMBER": "7", "EMPTY": "", "LINES": "a\nb: 1", "LIST": "[1, 2]"}
    assert values(tmp_path, f"key: {text}\n", **environment) == {"key": value}


def test_keys_and_aliases_are_read_once(tmp_path: Path) -> None:
    text = "a: &x {k: $$$$}\nb: *x\nc: {<<: *x, d: 1}\n${A}: 1\n"
    read = values(tmp_path, text, A="no")
    assert read == {"a": {"k": "$$"}, "b": {"k": "$$"}, "c": {"k": "$$", "d": 1}, "${A}": 1}


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\x85\u2028\u2029"), max_size=60))
def test_no_variable_becomes_more_than_one_value(
    tmp_path_factory: pytest.TempPathFactory, value: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.yaml"
    path.write_text("a: ${X}\nb: 'x${X}'\n", encoding="utf-8")
    read = YamlFile(path, {"X": value})
    assert set(read.values) == {"a", "b"}
    assert read.values["b"] == f"x{value}"
    assert not isinstance(read.values["a"], dict | list)


def test_a_file_means_what_objects_mean(tmp_path: Path) -> None:
    (path := tmp_path / "evals.yaml").write_text(
        """
rules:
  - scorer: answered
    when: {agent_name: [support, sales], tenant.id: acme, attributes: {environment: prod}, models: gpt-5}
    timeout: 1m30s
  - scorer: hallucination
    options:
      model: openai/gpt-5-mini
      get_context: combine(tool_results(tools=['search']), documents(top=5), static('In euros.'))
hold: 500ms
limits: {max_age: 2h}
"""
    )
    config = load_config(path)
    assert (config.hold, config.limits.max_age, config.rules[0].timeout) == (0.5, 7_200.0, 90.0)
    combined = context.combine(
        context.tool_results(tools=["search"]), context.documents(top=5), context.static("In euros.")
    )
    assert config.rules[1].scorer.get_context == combined  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("tool_results", context.tool_results()),
        ("documents(top=3)", context.documents(top=3)),
        ("tool_results(['check_refund'])", context.tool_results(["check_refund"])),
        ("evidence", context.evidence()),
        ("static('a', 'b')", context.static("a", "b")),
        ("attribute('app.policy')", context.attribute("app.policy")),
        ({"tool_results": ["check_refund"]}, context.tool_results(["check_refund"])),
        ({"documents": {"top": 3}}, context.documents(top=3)),
        ({"documents": None}, context.documents()),
        (["tool_results", {"static": "a"}], context.combine(context.tool_results(), context.static("a"))),
        ("conversation(last=3)", context.conversation(last=3)),
        ("combine(evidence(), static('a'))", context.combine(context.evidence(), context.static("a"))),
        (f"python:{__name__}:nothing", None),
    ],
)
def test_every_way_to_write_a_resolver(written: Any, meant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if meant is None:
        written, meant = "python:otel_evals.context:tool_results", context.tool_results
    options = {**BUILTIN["options"], "get_context": written}  # type: ignore[dict-item]
    (rule,) = build_config([{"scorer": "hallucination", "options": options}]).rules
    assert rule.scorer.get_context == meant  # type: ignore[attr-defined]


def test_a_rubric_has_its_own_prompt_and_the_context_of_one_tool(tmp_path: Path) -> None:
    path = tmp_path / "evals.yaml"
    path.write_text(
        """
rules:
  - scorer: rubric
    options:
      model: openai/gpt-5-mini
      criteria: [The answer states the refund that the tool returned]
      get_context: {tool_results: [check_refund]}
      prompt: |
        Judge the answer by these criteria: $criteria
        What the tool returned: $context
        The answer: $output
"""
    )
    scorer: Any = load_config(path).rules[0].scorer
    assert scorer.get_context == context.tool_results(["check_refund"])
    assert scorer.steps["analyze"].prompt.startswith("Judge the answer by these criteria: $criteria")
    path.write_text(path.read_text().replace("$context", "$contxt"))
    with pytest.raises(ConfigError, match=r"has the slot \$contxt; did you mean 'context'\?"):
        load_config(path)


def run(**fields: Any) -> Run:
    span = SpanRecord(
        trace_id="1" * 32,
        span_id="1" * 16,
        name="invoke_agent",
        attributes={"tenant.id": "acme", "tags": ("a", "b")},
    )
    root = Operation(kind=OperationKind.AGENT, span=span, convention="test")
    return Run(
        trace_id="1" * 32,
        root_span_id="1" * 16,
        root_kind=OperationKind.AGENT,
        operations=(root,),
        resource={"service.name": "shop", "region": "eu"},
        **fields,
    )


@pytest.mark.parametrize(
    ("when", "met"),
    [
        ({"agent_name": "support"}, True),
        ({"agent_name": ["sales", "support"]}, True),
        ({"agent_name": ["sales"]}, False),
        ({"agent_name": None}, False),
        ({"error": None}, True),
        ({"models": "gpt-5"}, True),
        ({"models": ["gpt-4", "gpt-5"]}, True),
        ({"models": "gpt-4"}, False),
        ({"tenant.id": "acme"}, True),
        ({"tenant.id": ["other", "acme"]}, True),
        ({"tenant.id": "other"}, False),
        ({"service.name": "shop"}, True),
        ({"no.such": "x"}, False),
        ({"attributes": {"region": "eu"}}, True),
        ({"attributes": {"tags": "b"}}, True),
        ({"attributes": {"region": ["us", "ap"]}}, False),
        ({"agent_name": "support", "tenant.id": "other"}, False),
    ],
)
def test_when_takes_fields_attributes_and_lists(when: Any, met: bool) -> None:
    (rule,) = build_config([{"scorer": "answered", "when": when}]).rules
    assert rule.when is not None
    assert bool(rule.when(run(agent_name="support", models=("gpt-5", "gpt-5-mini")))) is met


@pytest.mark.parametrize(
    ("text", "number"),
    [("5s", 5), ("200ms", 0.2), ("1m30s", 90), ("2h", 7_200), ("1d", 86_400), ("3", 3), ("1.5 s", 1.5)],
)
def test_durations(text: str, number: float) -> None:
    assert build_config(limits={"max_age": text}).limits.max_age == pytest.approx(number)


@pytest.mark.parametrize("text", ["", "s", "5", "5x", "-5s", "5s!", "1e3s", "five"])
def test_what_is_no_duration(text: str) -> None:
    if text == "5":
        assert build_config(limits={"max_age": text}).limits.max_age == 5
    else:
        with pytest.raises(ConfigError, match="max_age: write seconds as a number"):
            build_config(limits={"max_age": text})


def test_a_path_can_be_installed(tmp_path: Path) -> None:
    (path := tmp_path / "evals.yaml").write_text("rules: [answered]\n")
    pipeline = otel_evals.install(path, TracerProvider())
    assert [rule.name for rule in pipeline.config.rules] == ["answered"]


def test_configure_has_every_option_with_its_type() -> None:
    """Editors complete what the signature names."""
    typed = typing.get_type_hints(ConfigOptions)
    assert set(typed) == set(Config.__dataclass_fields__) - {
        "rules",
        "destinations",
        "sections",
    } | section_names() | {"sample"}
    defaults = Config()
    for name in typed.keys() - section_names() - {"sample"}:
        hint = typed[name]
        plain = [part for part in (typing.get_args(hint) or (hint,)) if isinstance(part, type)]
        value = getattr(defaults, name)
        assert not plain or isinstance(value, tuple(plain)) or value in typing.get_args(hint), name


def test_examples_in_a_file_are_shown_to_the_judge(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"input": "Where?", "output": "In Rome.", "label": 0}\n', encoding="utf-8")
    plain, shown = (
        build_config([{**BUILTIN, "options": {**BUILTIN["options"], **more}}]).rules[0].scorer
        for more in ({}, {"examples": str(path)})
    )
    (example,) = read_labels(path.read_text("utf-8").splitlines())
    assert shown.version == with_examples(plain, [(example.run, example.label)]).version != plain.version
    path.write_text("{}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"options\.examples: .*labels\.jsonl: line 1\.label"):
        build_config([{**BUILTIN, "options": {**BUILTIN["options"], "examples": str(path)}}])
