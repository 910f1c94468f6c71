"""The same spans have the same scores, under the same ids, wherever they are scored."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.json_format import MessageToJson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from otel_evals import Evaluation, Rule, Run, Score, Scorer, scorer
from otel_evals.destinations import read_jsonl
from otel_evals.scorers import answered, classifier, grounded_in_tools, tool_error_rate
from otel_evals.testing import run_evals
from tests.behaviour.app import App
from tests.behaviour.commands import otel_evals_command
from tests.support import PYTHONPATH
from tests.support.agents import agent_run, body
from tests.support.auto_judge import AutoJudge
from tests.support.gateway_process import GatewayProcess, post
from tests.support.waits import eventually

HERE = "python:tests.behaviour.test_same_everywhere"
RULES: list[Any] = [
    "grounded_in_tools",
    {"scorer": "tool_call_accuracy", "options": {"expected_tool": "lookup_order"}},
    {"scorer": "keyword_coverage", "sample": "ratio(0.5)"},
    {"scorer": f"{HERE}:judged"},
]
Told = tuple[str, str, int, Any]


def judged() -> Scorer:
    """A scorer that asks a judge."""
    return classifier(AutoJudge(), question="Is it so?", classes={"yes": 1.0, "no": 0.0})


@scorer(version="1", inline=True)
def turns(run: Run) -> Score:
    return Score(value=len(run.turns) / 10, explanation=" | ".join(turn.input or "" for turn in run.turns))


def told(evaluations: Iterable[Evaluation]) -> set[Told]:
    found = set()
    for each in evaluations:
        value = each.outcome.value if isinstance(each.outcome, Score) else each.reason
        found.add((each.evaluation_id, each.scorer_id, each.revision, value))
    return found


def written(records: Iterable[Any]) -> set[Told]:
    """The same, of records in a file."""
    return {
        (e["evaluation_id"], e["scorer"], e["revision"], e["reason"] if e["value"] is None else e["value"])
        for record in records
        for e in record["evaluations"]
    }


@pytest.fixture(scope="module")
def lived() -> tuple[list[ReadableSpan], set[Told]]:
    """The spans of an application, and the scores that it gave them."""
    app = App(*RULES, span_attributes=False, evaluation_spans="off")
    for number in range(20):
        answer = f"Order {number} arrives on 2026-{number % 3 + 10}-25."
        app.run(question=f"Where is order {number}?", answer=answer)
    expected = told(app.settle())
    app.pipeline.shutdown()
    assert 60 < len(expected) < 80
    assert len({value for *_, value in expected}) > 1
    return list(app.exported.get_finished_spans()), expected


@pytest.mark.parametrize("form", ["protobuf", "json", "json lines", "gzip", "stdin"])
def test_a_file_has_the_scores_of_the_application(
    lived: tuple[list[ReadableSpan], set[Told]], form: str, tmp_path: Path
) -> None:
    spans, expected = lived
    (config := tmp_path / "otel-evals.yaml").write_text(yaml.safe_dump({"rules": RULES}))
    text = MessageToJson(encode_spans(spans), indent=None).encode()
    middle = len(spans) // 2
    lines = b"\n".join(
        MessageToJson(encode_spans(part), indent=None).encode() for part in (spans[:middle], spans[middle:])
    )
    data = {"protobuf": body(spans), "json lines": lines, "gzip": gzip.compress(text)}.get(form, text)
    (file := tmp_path / "spans").write_bytes(data)
    source = "-" if form == "stdin" else file
    options = ("--config", config, "--jsonl", tmp_path / "scores.jsonl", "--json")
    code, printed = otel_evals_command("score", source, *options, stdin=text)
    assert code == 0, printed
    assert written(read_jsonl(tmp_path / "scores.jsonl")) == expected


def test_a_gateway_has_the_scores_of_the_application(
    lived: tuple[list[ReadableSpan], set[Told]], tmp_path: Path
) -> None:
    spans, expected = lived
    environment = {"PYTHONPATH": PYTHONPATH}
    with GatewayProcess(tmp_path, RULES, {"quiet": 0.5}, environment) as gateway:
        for start in range(0, len(spans), 7):
            assert post(f"{gateway.endpoint}/v1/traces", body(spans[start : start + 7]))[0] == 200
        eventually(lambda: len(written(gateway.records())) == len(expected))
        assert written(gateway.records()) == expected


@pytest.fixture
def app() -> App:
    return App(*scorers())


@pytest.fixture
def otel_evals_tracer_provider(app: App) -> Any:
    """Where the fixture `scored` finds the spans of a test."""
    return app.provider


def scorers() -> list[Any]:
    return [grounded_in_tools(), answered(), tool_error_rate(), judged()]


@pytest.mark.parametrize("answer", ["It arrives on 2026-11-25.", "It arrives on 2026-12-31 and costs $99."])
def test_run_evals_and_pytest_have_the_scores_of_the_application(answer: str, app: App, scored: Any) -> None:
    """One run inside `run_evals`, one in the test itself; the application scores both."""

    def target(text: str) -> None:
        agent_run(app.tracer, question=text, answer=answer)

    result = run_evals([{"input": "When?"}], target, scorers(), tracer_provider=app.provider, progress=False)
    target("When?")
    in_evals = told(result.items[0].evaluations)
    in_pytest = told(evaluation for each in scorers() for evaluation in scored(each).evaluations)
    assert in_evals | in_pytest == told(app.settle())
    assert len(in_evals) == len(in_pytest) == len(scorers())
    assert not in_evals & in_pytest


def test_conversations_in_a_file_have_the_scores_and_revisions_of_the_application(tmp_path: Path) -> None:
    """One of them paused for longer than `idle`."""
    rule = {"scorer": f"{HERE}:turns", "scope": "conversation", "idle": 0.5}
    app = App(rule, span_attributes=False, evaluation_spans="off")
    app.say("c1", "one")
    app.await_rule("turns@conversation", lambda found: found.scored == 1)
    app.say("c1", "two")
    app.say("c2", "three")
    app.await_rule("turns@conversation", lambda found: found.scored == 3)
    expected = told(app.settle())
    assert sorted(revision for _, _, revision, _ in expected) == [1, 1, 2]
    (config := tmp_path / "otel-evals.yaml").write_text(yaml.safe_dump({"rules": [rule]}))
    (file := tmp_path / "spans").write_bytes(body(app.exported.get_finished_spans()))
    scores = tmp_path / "scores.jsonl"
    code, printed = otel_evals_command("score", file, "--config", config, "--jsonl", scores)
    assert code == 0, printed
    assert written(read_jsonl(scores)) == expected


@pytest.mark.parametrize(
    ("rules", "options", "code", "says"),
    [
        (["answered"], ["--fail-under", "0.9"], 0, "answered"),
        (["grounded_in_tools"], ["--fail-under", "0.9"], 1, "grounded_in_tools"),
        (["grounded_in_tolls"], [], 2, "did you mean 'grounded_in_tools'?"),
        ([{"scorer": "answered", "sample": "ratio(2)"}], [], 2, "rules[0].sample"),
    ],
)
def test_the_exit_code_tells_ci_what_to_do(
    lived: tuple[list[ReadableSpan], set[Told]],
    rules: list[Any],
    options: list[str],
    code: int,
    says: str,
    tmp_path: Path,
) -> None:
    (config := tmp_path / "otel-evals.yaml").write_text(yaml.safe_dump({"rules": rules}))
    (file := tmp_path / "spans").write_bytes(body(lived[0]))
    found, printed = otel_evals_command("score", file, "--config", config, *options)
    assert (found, says in printed) == (code, True), printed


def test_a_file_without_a_run_is_an_error(tmp_path: Path) -> None:
    (file := tmp_path / "spans.json").write_text(json.dumps({"resourceSpans": []}))
    code, printed = otel_evals_command("score", file, "--scorer", "answered")
    assert code == 1, printed


def test_rules_in_code_and_in_yaml_are_the_same() -> None:
    """`configure` takes objects, names and mappings; the ids of evaluations do not tell which."""
    found = []
    for rule in (answered(), Rule(answered()), "answered", {"scorer": "answered"}):
        app = App(rule, tracing={"id_generator": Numbered()})
        app.run()
        found.append(told(app.settle()))
    assert found[0]
    assert all(each == found[0] for each in found)


class Numbered:
    """Ids that count up from one."""

    def __init__(self) -> None:
        self._last = 0

    def generate_span_id(self) -> int:
        self._last += 1
        return self._last

    def generate_trace_id(self) -> int:
        return 7

    def is_trace_id_random(self) -> bool:
        return True
