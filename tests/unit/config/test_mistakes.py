"""Every mistake in a configuration is told when it is built: the field, what is wrong, and what mends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_evals import Rule, Run, Scorer, configure, install, load_config, sampling, scorer
from otel_evals._internal.config.loader import build_config
from otel_evals.errors import ConfigError
from otel_evals.scorers import answered, grounded_in_tools, hallucination


def is_polite(run: Run) -> bool:
    return "please" in (run.output or "")


@scorer
def two_parameters(run: Run, other: str) -> bool:
    return bool(other)


@scorer
def no_parameter() -> bool:  # type: ignore[misc]
    return True


class Length(Scorer):
    id = "length"
    version = "1"

    async def score(self, run: Run) -> Any:
        return None


class Blocking:
    name = "blocking"

    def export(self, batch: Any) -> None: ...

    def shutdown(self) -> None: ...


def rule(**fields: Any) -> Callable[[], Any]:
    return lambda: build_config([{"scorer": "answered", **fields}])


def options(name: str, **given: Any) -> Callable[[], Any]:
    return lambda: build_config([{"scorer": name, "options": given}])


def judged(**given: Any) -> Callable[[], Any]:
    return options("hallucination", **{"model": "openai/gpt-5-mini", **given})


MISTAKES: dict[str, tuple[Callable[[], Any], str, str, str]] = {
    # what is wrong: how it is made, the field, the mistake, the fix
    "rule in code": (
        lambda: build_config(rule=[answered()]),
        "rule",
        "unknown option",
        "did you mean 'rules'?",
    ),
    "undecorated": (
        lambda: Rule(is_polite),
        "scorer",
        "is_polite is a plain function",
        "write @scorer above it",
    ),
    "undecorated, bare": (
        lambda: build_config([is_polite]),
        "rules[0]",
        "plain function",
        "scorer(is_polite)",
    ),
    "lambda": (lambda: Rule(lambda run: 1.0), "scorer", "plain function", "@scorer"),  # type: ignore[arg-type,return-value]
    "uncalled": (lambda: Rule(grounded_in_tools), "scorer", "was not called", "write grounded_in_tools()"),
    "uncalled, bare": (lambda: build_config([hallucination]), "rules[0]", "not called", "hallucination()"),
    "class": (lambda: Rule(Length), "scorer", "Length is a class", "call it, as in Length()"),
    "name in code": (lambda: Rule("anwered"), "scorer", "no scorer 'anwered'", "did you mean 'answered'?"),
    "too many parameters": (
        lambda: Rule(two_parameters),
        "scorer two_parameters",
        "(run",
        "one parameter, the run",
    ),
    "no parameter": (lambda: Rule(no_parameter), "scorer no_parameter", "takes ()", "one parameter, the run"),
    "unknown scorer": (
        lambda: build_config(["grounded_in_tool"]),
        "rules[0].scorer",
        "there is no scorer 'grounded_in_tool'",
        "did you mean 'grounded_in_tools'?",
    ),
    "import without prefix": (
        lambda: build_config(["os:getcwd"]),
        "rules[0].scorer",
        "there is no scorer 'os:getcwd'",
        "write python:os:getcwd",
    ),
    "import of nothing": (
        lambda: build_config(["python:no_such_module:x"]),
        "rules[0].scorer",
        "cannot be imported",
        "No module named 'no_such_module'",
    ),
    "import without a name": (
        lambda: build_config(["python:os"]),
        "rules[0].scorer",
        "'python:os'",
        "python:package.module:name",
    ),
    "rule option": (rule(smaple="always()"), "rules[0].smaple", "unknown option", "did you mean 'sample'?"),
    "scorer option": (
        options("tool_call_accuracy", expected_tol="search"),
        "rules[0].options.expected_tol",
        "unknown option",
        "did you mean 'expected_tool'?",
    ),
    "scorer without options": (
        options("answered", strict=True),
        "rules[0].options.strict",
        "unknown option",
        "known: refusals",
    ),
    "missing option": (options("hallucination"), "rules[0].options.model", "is missing", "no default"),
    "text for a flag": (
        lambda: build_config(["answered"], [{"jsonl": {"path": "x", "content": "no"}}]),
        "destinations[0].jsonl.content",
        "must be true or false",
        "not str",
    ),
    "judge option": (
        judged(model={"model": "openai/x", "max_token": 5}),
        "rules[0].options.model.max_token",
        "unknown option",
        "'max_tokens'?",
    ),
    "options of an object": (
        lambda: build_config([{"scorer": answered(), "options": {"a": 1}}]),
        "rules[0].options",
        "require a scorer",
        "given by name",
    ),
    "sampler by or": (
        rule(sample="ratio(0.1) or errors()"),
        "rules[0].sample",
        "'ratio(0.1) or errors()'",
        "combine with | (either) and & (both)",
    ),
    "or in code": (
        lambda: Rule(answered(), sample=sampling.ratio(0.1) or sampling.errors()),
        "sample",
        "ratio(0.1) is used with `or`",
        "| (either)",
    ),
    "and in code": (
        lambda: Rule(answered(), sample=sampling.errors() and sampling.ratio(0.1)),
        "sample",
        "errors() is used with",
        "& (both)",
    ),
    "not in code": (lambda: not sampling.errors(), "sample", "errors() is used with", "combine with |"),
    "sampler": (
        rule(sample="often()"),
        "rules[0].sample",
        "there is no sampler 'often'",
        "known: above",
    ),
    "rate": (rule(sample=1.5), "rules[0].sample", "ratio(1.5)", "between 0 and 1"),
    "field of runs": (
        rule(when={"agent": "x"}),
        "rules[0].when.agent",
        "no field 'agent'",
        "did you mean 'agent_",
    ),
    "attribute without dot": (
        rule(when={"environment": "prod"}),
        "rules[0].when.environment",
        "no field 'environment'",
        "`attributes: {environment: ...}`",
    ),
    "when of nothing": (rule(when={}), "rules[0].when", "is empty", "leave it out"),
    "when of an empty list": (
        rule(when={"agent_name": []}),
        "rules[0].when.agent_name",
        "an empty list",
        "name at least one value",
    ),
    "duration": (rule(timeout="soon"), "rules[0].timeout", "got 'soon'", "a duration such as 5s"),
    "no time at all": (rule(timeout=0), "rules[0].timeout", "greater than 0", "got 0"),
    "idle without conversation": (rule(idle="10m"), "rules[0].idle", "scope='conversation'", "leave it out"),
    "resolver": (
        judged(get_context="tool_result"),
        "rules[0].options.get_context",
        "there is no resolver 'tool_result'",
        "did you mean 'tool_results'?",
    ),
    "examples in no file": (
        judged(examples="/nowhere.jsonl"),
        "rules[0].options.examples",
        "/nowhere.jsonl",
        "cannot be read",
    ),
    "resolver's option": (
        judged(get_context="documents(tops=5)"),
        "rules[0].options.get_context.tops",
        "unknown option",
        "did you mean 'top'?",
    ),
    "resolver's option in a mapping": (
        judged(get_context={"documents": {"tops": 5}}),
        "rules[0].options.get_context.documents.tops",
        "unknown option",
        "did you mean 'top'?",
    ),
    "resolver in text": (
        judged(get_context="documents("),
        "rules[0].options.get_context",
        "'documents(' is not a resolver",
        "for example 'documents(top=5)'",
    ),
    "same id twice": (
        lambda: build_config(["answered", "answered"]),
        "rules[1].scorer",
        "is the id of rules[0] too",
        "another id",
    ),
    "text for a number": (
        options("repeated_calls", loop_from="3"),
        "rules[0].options.loop_from",
        "must be a whole number",
        "not str",
    ),
    "number for a text": (
        options("includes", text=5),
        "rules[0].options.text",
        "must be text, not int",
        "put it in quotes",
    ),
    "true for the text of a mapping": (
        options("classifier", model="openai/gpt-5-mini", question="Polite?", classes={True: 1, False: 0}),
        "rules[0].options.classes",
        "must be a mapping of texts",
        "not bool: put it in quotes",
    ),
    "rules not in a list": (lambda: build_config("answered"), "rules", "must be a list", "not str"),
    "destination": (lambda: build_config([], ["consle"]), "destinations[0]", "no destination", "'console'?"),
    "destination's option": (
        lambda: build_config([], [{"jsonl": {"pth": "x"}}]),
        "destinations[0].jsonl.pth",
        "unknown option",
        "did you mean 'path'?",
    ),
    "destination's missing option": (
        lambda: build_config([], ["jsonl"]),
        "destinations[0].jsonl.path",
        "is missing",
        "no default",
    ),
    "destination that blocks": (
        lambda: build_config([], [Blocking()]),
        "destinations[0]",
        "Blocking.export is not async",
        "write `async def export`",
    ),
    "destination's class": (
        lambda: build_config([], [Blocking]),
        "destinations[0]",
        "is a class",
        "call it, as in Blocking()",
    ),
    "not a destination": (
        lambda: build_config([], [object()]),
        "destinations[0]",
        "not a dest",
        "has no `name`",
    ),
    "folder of a file": (
        lambda: build_config([], [{"jsonl": {"path": "/no/such/folder/x"}}]),
        "destinations[0].jsonl.path",
        "the folder '/no/such/folder' does not exist",
        "create it first",
    ),
    "journal's folder": (
        lambda: build_config(journal="/no/such/folder/journal"),
        "journal",
        "the folder '/no/such/folder' does not exist",
        "create it first",
    ),
    "text as a condition": (
        lambda: build_config([Rule(answered(), when="agent_name == 'shop'")]),
        "when",
        "must be a mapping such as {'agent_name': 'support'}, or a function of the run",
        "not \"agent_name == 'shop'\"",
    ),
    "journal that is a file": (
        lambda: build_config(journal=__file__),
        "journal",
        f"{__file__!r} is a file",
        "name a folder",
    ),
    "option": (lambda: build_config(holdd=3), "holdd", "unknown option", "did you mean 'hold'?"),
    "option of configure": (
        lambda: configure(rules=[answered()], holdd=3),  # type: ignore[call-arg]
        "holdd",
        "unknown option",
        "did you mean 'hold'?",
    ),
    "value of an option": (
        lambda: build_config(limits={"queue_size": 0}),
        "limits.queue_size",
        "greater than 0",
        "got 0",
    ),
    "secret in a value of the wrong type": (
        lambda: build_config(journal={"headers": ["x-api-key: hunter2-Blue"]}),
        "journal",
        "not a valid path",
        "x-api-key: [redacted]",
    ),
    "no file": (
        lambda: install("/no/such/file.yaml"),
        "/no/such/file.yaml",
        "cannot be read",
        "No such file",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_field_and_its_fix(name: str) -> None:
    make, field, mistake, fix = MISTAKES[name]
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.field == field
    assert mistake in str(caught.value)
    assert fix in str(caught.value)


def file(folder: Path, text: str) -> Path:
    (path := folder / "evals.yaml").write_text(text, encoding="utf-8")
    return path


MANY = """\
rules:
  - grounded_in_tool
  - scorer: hallucination
    options: {modle: openai/x, get_context: documents(tops=5)}
    sample: ratio(0.05) or errors()
    when: {agentname: [support, sales], tenant.id: acme}
    timeout: soon
destinations:
  - jsonl: {pth: x}
hold: ${OTEL_EVALS_NOT_SET}
holdd: 3
"""


def test_all_mistakes_of_a_file_are_told_at_once_with_line_and_column(tmp_path: Path) -> None:
    path = file(tmp_path, MANY)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    found = [(error.place, error.field) for error in caught.value.errors]
    assert found == [
        (f"{path}:2:5", "rules[0].scorer"),
        (f"{path}:4:15", "rules[1].options.modle"),
        (f"{path}:4:32", "rules[1].options.get_context.tops"),
        (f"{path}:5:5", "rules[1].sample"),
        (f"{path}:6:12", "rules[1].when.agentname"),
        (f"{path}:7:5", "rules[1].timeout"),
        (f"{path}:9:13", "destinations[0].jsonl.pth"),
        (f"{path}:10:7", "${OTEL_EVALS_NOT_SET}"),
        (f"{path}:11:1", "holdd"),
    ]
    assert str(caught.value).startswith("9 mistakes\n")
    assert all(f"{place}: {field}: " in str(caught.value) for place, field in found)


@pytest.mark.parametrize(
    ("text", "place", "field", "says"),
    [
        ("rules: [", "1:9", "the file", "is not YAML"),
        ("a: 1\n  b: 2\n", "2:4", "the file", "is not YAML"),
        ("- a\n", "", "the file", "must be a mapping"),
        ("", "", "the file", "must be a mapping"),
        ("destinations: [console]\n", "1:1", "rules", "nothing would be scored: name at least one"),
        ("rules: []\n", "1:1", "rules", "nothing would be scored"),
        ("hold: 1\nrule: [answered]\n", "2:1", "rule", "unknown option; did you mean 'rules'?"),
        ("rules: [answered]\nhold: 1\nhold: 2\n", "3:1", "hold", "appears twice"),
        ("rules: [answered]\nhold: ${file:x}\n", "2:7", "${file:x}", "must name an environment variable"),
    ],
)
def test_a_mistake_of_the_file_itself_has_its_place(
    tmp_path: Path, text: str, place: str, field: str, says: str
) -> None:
    path = file(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.place.startswith(f"{path}:{place}" if place else str(path))
    assert caught.value.field == field
    assert says in str(caught.value)
