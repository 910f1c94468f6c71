"""Configuration: code and YAML make the same, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_evals import Config, Rule, load_config
from otel_evals._internal.config.loader import build_config
from otel_evals.errors import ConfigError
from otel_evals.model import OperationKind, Run
from otel_evals.sampling import ratio
from otel_evals.scorers import keyword_coverage, tool_call_accuracy


def write(path: Path, text: str) -> Path:
    target = path / "otel-evals.yaml"
    target.write_text(text, encoding="utf-8")
    return target


def test_yaml_and_code_make_the_same_rules(tmp_path: Path) -> None:
    """Names and options in YAML stand for the objects of code."""
    path = write(
        tmp_path,
        """
rules:
  - scorer: tool_call_accuracy
    options: {expected_tool: search}
    sample: ratio(0.25) | errors()
    review: score < 0.5
    when: {agent_name: support}
    timeout: 5
  - keyword_coverage
destinations: [memory, {jsonl: {path: %s}}]
hold: 3
"""
        % (tmp_path / "scores.jsonl"),
    )
    config = load_config(path)
    first, second = config.rules
    assert first.scorer.version == tool_call_accuracy(expected_tool="search").version
    assert str(first.sample) == "ratio(0.25) | errors()"
    assert first.review == Rule(keyword_coverage(), review="score < 0.5").review
    assert first.timeout == 5.0
    assert second.scorer.id == keyword_coverage().id
    assert [d.name for d in config.destinations] == ["memory", "jsonl"]
    assert config.hold == 3.0
    run = Run(trace_id="1", root_span_id="1", root_kind=OperationKind.AGENT, agent_name="support")
    assert first.when is not None
    assert first.when(run)
    assert not first.when(Run(trace_id="1", root_span_id="1", root_kind=OperationKind.AGENT))


def test_scorers_can_be_given_bare_and_by_import_path() -> None:
    """A bare scorer is a rule that samples everything; a path with a colon is imported."""
    config = build_config([keyword_coverage(), "python:otel_evals.scorers:grounded_in_tools"])
    assert [r.scorer.id for r in config.rules] == ["keyword_coverage", "grounded_in_tools"]
    assert config.ceiling == 1.0


def test_the_ceiling_is_the_highest_rate() -> None:
    """Traces that lose at the highest rate need not be looked at."""
    rules = [
        Rule(keyword_coverage(), sample=ratio(0.1)),
        Rule(tool_call_accuracy(expected_tool="x"), sample=0.3),
    ]
    assert build_config(rules).ceiling == 0.3


@pytest.mark.parametrize(
    ("rules", "field", "says"),
    [
        ([{"scorer": "keyword_coverage", "review": "< 0.5"}], "rules[0].review", "fix: score < 0.5"),
        (
            [{"scorer": "keyword_coverage", "scope": "planet"}],
            "rules[0].scope",
            "'run', 'agent' or 'conversation'",
        ),
        ([{"sample": "always()"}], "rules[0]", "with `scorer`"),
        ([7], "rules[0]", "is not a scorer"),
        ([{"scorer": "python:os:abort"}], "rules[0].scorer", "it was not called"),
        (
            [{"scorer": "python:os:system", "options": {"command": "exit 7"}}],
            "rules[0].scorer",
            "it was not called",
        ),
        (["python:subprocess:Popen"], "rules[0].scorer", "it was not called"),
        (["python:json:dumps"], "rules[0].scorer", "it was not called"),
        (["python:builtins:exit"], "rules[0].scorer", "it was not called"),
        (["python:os:_exit"], "rules[0].scorer", "it was not called"),
        (["python:os:environ.clear"], "rules[0].scorer", "it was not called"),
        (["python:pathlib:Path.cwd"], "rules[0].scorer", "it was not called"),
        (["os:system"], "rules[0].scorer", "there is no scorer"),
        (
            [{"scorer": "os:system", "options": {"command": "exit 7"}}],
            "rules[0].scorer",
            "there is no scorer",
        ),
        (["os.system"], "rules[0].scorer", "there is no scorer"),
    ],
)
def test_a_wrong_rule_is_named(rules: object, field: str, says: str) -> None:
    """The error starts with the path of the field and says how to mend it."""
    with pytest.raises(ConfigError) as caught:
        build_config(rules)  # type: ignore[arg-type]  # wrong on purpose
    assert caught.value.field == field
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("destinations", "field", "says"),
    [
        (["python:os:abort"], "destinations[0]", "it was not called"),
        ([{"python:subprocess:run": {"args": ["true"]}}], "destinations[0]", "it was not called"),
        ([{"os:system": {"command": "exit 7"}}], "destinations[0]", "there is no destination"),
        ([{"jsonl": {}, "memory": {}}], "destinations[0]", "name one destination"),
    ],
)
def test_a_wrong_destination_is_named(destinations: list[object], field: str, says: str) -> None:
    """Destinations are checked when the configuration is built."""
    with pytest.raises(ConfigError) as caught:
        build_config([], destinations)
    assert caught.value.field == field
    assert says in str(caught.value)


def test_a_default_sampler_is_that_of_all_rules_without_one() -> None:
    given = ["answered", {"scorer": "no_tool_errors", "sample": 1}, keyword_coverage(), Rule("no_secrets")]
    config = build_config(given, sample="ratio(0.25)")
    assert [rule.sampling.ceiling for rule in config.rules] == [0.25, 1.0, 0.25, 1.0]
    with pytest.raises(ConfigError, match=r"^sample: "):
        build_config(given, sample="ratio(7)")


def test_defaults_stand() -> None:
    """An empty configuration is valid and scores nothing."""
    assert build_config() == Config()
    assert Config().ceiling == 0.0


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("linked", "linked"),
        ("same_trace", "same_trace"),
        ("off", False),
        ("'off'", False),
        ("false", False),
        ("true", "linked"),
    ],
)
def test_where_evaluation_spans_go_is_said_in_one_word(said: str, meant: object, tmp_path: Path) -> None:
    """YAML reads `off` and `on` as booleans."""
    path = write(tmp_path, f"rules: [answered]\nevaluation_spans: {said}\n")
    assert load_config(path).evaluation_spans == meant


@pytest.mark.parametrize("said", ["on the judged trace", 1, None, ["linked"], 0.0])
def test_no_other_word_is_taken(said: object) -> None:
    with pytest.raises(ConfigError, match="evaluation_spans: must be linked, same_trace or off, not"):
        build_config(evaluation_spans=said)


def test_what_says_that_it_makes_a_scorer_may_be_named() -> None:
    """A scorer, a class of them, or a function that is annotated so; generic types included."""
    for name, options in (
        ("python:otel_evals.scorers:keyword_coverage", {}),
        ("python:otel_evals._internal.scorers.valid_json:valid_json", {"schema": {"type": "object"}}),
        ("python:otel_evals.scorers:hallucination", {"model": "openai/gpt-5-mini"}),
    ):
        config = build_config([{"scorer": name, "options": options}])
        assert config.rules[0].scorer.id
    config = build_config([], ["python:otel_evals._internal.deliver.memory:InMemoryDestination"])
    assert config.destinations[0].name == "memory"
