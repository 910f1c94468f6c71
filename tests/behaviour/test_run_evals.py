"""`run_evals`: what is scored, that failures stay where they are, and what the status says."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from otel_evals import Direction, NotScored, Rule, Run, Score, sampling, scorer
from otel_evals.errors import ConfigError
from otel_evals.testing import EvalsResult, InMemoryDestination, ItemResult, run_evals, run_evals_async
from tests.support.agents import SeededIds, agent_run


@scorer
def polite(run: Run) -> bool:
    """Whether the answer says please."""
    return "please" in (run.output or "")


@scorer(inline=True, scale=None)
def length(run: Run) -> float:
    """How long the answer is."""
    return float(len(run.output or ""))


@scorer
def right(run: Run) -> bool | NotScored:
    """Whether the answer is the expected one."""
    return NotScored(reason="no_truth") if run.ground_truth is None else run.output == run.ground_truth


@scorer
def moody(run: Run) -> bool:
    """Fails on some."""
    if "angry" in (run.input or ""):
        raise RuntimeError("no")
    return True


@scorer(direction=Direction.LOWER)
def rudeness(run: Run) -> float:
    """Lower is better."""
    return 0.25 if "rude" in (run.output or "") else 0.0


def items(*inputs: str, **more: Any) -> list[dict[str, Any]]:
    return [{"input": text, **more} for text in inputs]


def evals(data: Any, target: Any, scorers: Any, **options: Any) -> EvalsResult:
    options.setdefault("tracer_provider", TracerProvider())
    return run_evals(data, target, scorers, progress=False, **options)


def test_a_function_that_leaves_no_spans_is_scored_on_its_input_and_answer() -> None:
    result = evals(items("a", "b please"), lambda text: f"you said {text}", [polite])
    assert [item.scores for item in result.items] == [{"polite": 0.0}, {"polite": 1.0}]
    assert [(i.run.input, i.run.output) for i in result.items if i.run] == [
        ("a", "you said a"),
        ("b please", "you said b please"),
    ]
    assert result.scorers["polite"].mean == 0.5
    assert result.status is None


def test_the_run_that_is_scored_is_the_one_that_the_spans_tell_of() -> None:
    provider = TracerProvider()

    def target(text: str) -> str:
        agent_run(provider.get_tracer("app"), question=text, answer="42, please")
        return "what the function returns is not what the agent said"

    result = evals(items("q"), target, [polite], tracer_provider=provider)
    (item,) = result.items
    assert item.run is not None
    assert (item.run.input, item.run.output) == ("q", "42, please")
    assert [call.name for call in item.run.tool_calls] == ["lookup_order"]
    assert item.scores == {"polite": 1.0}


def test_items_at_once_keep_their_spans_apart_even_inside_somebody_elses_span() -> None:
    provider = TracerProvider()
    tracer = provider.get_tracer("app")

    async def target(text: str) -> None:
        await asyncio.sleep(0.01)
        await asyncio.to_thread(agent_run, tracer, question=text, answer=text)

    with tracer.start_as_current_span("outside"):
        result = evals(items(*"abcdefgh"), target, [polite], tracer_provider=provider, concurrency=8)
        assert trace.get_current_span().get_span_context().is_valid
    assert [item.run.output for item in result.items if item.run] == list("abcdefgh")
    assert len({item.run.trace_id for item in result.items if item.run}) == 8


def test_spans_that_end_after_the_targets_return_are_waited_for() -> None:
    provider = TracerProvider()
    tracer = provider.get_tracer("app")

    def target(text: str) -> str:
        span = tracer.start_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"})
        span.set_attribute("gen_ai.output.messages", json.dumps([{"role": "assistant", "content": "late"}]))
        threading.Timer(0.1, span.end).start()
        return "early"

    (item,) = evals(items("q"), target, [polite], tracer_provider=provider, grace=2.0).items
    assert len(item.runs) == 1


def test_of_several_runs_the_last_is_scored_and_all_are_kept() -> None:
    provider = TracerProvider()

    def target(text: str) -> None:
        for answer in ("first", "second please"):
            agent_run(provider.get_tracer("app"), question=text, answer=answer)

    (item,) = evals(items("q"), target, [polite], tracer_provider=provider).items
    assert [run.output for run in item.runs] == ["first", "second please"]
    assert item.scores == {"polite": 1.0}


def test_an_agent_is_called_by_its_run_method() -> None:
    class Result:
        output = "hello please"

    class Agent:
        async def run(self, text: str) -> Result:
            return Result()

    (item,) = evals(items("q"), Agent(), [polite]).items
    assert item.run is not None
    assert item.run.output == "hello please"


def test_ground_truth_and_metadata_travel_with_the_item(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    known = {"input": "2+2", "ground_truth": "4", "metadata": {"level": 1, "note": "a\u2028b"}}
    path.write_text(json.dumps(known, ensure_ascii=False) + '\n\n{"input": "3+3", "ground_truth": "7"}\n')
    result = evals(path, lambda text: str(eval(text)), [right])
    assert [item.scores["right"] for item in result.items] == [1.0, 0.0]
    assert result.items[0].item.metadata == known["metadata"]


def test_items_may_be_objects() -> None:
    data = [SimpleNamespace(input="4", ground_truth="4")]
    assert evals(data, str, [right]).items[0].scores == {"right": 1}


def test_what_is_no_score_is_counted_and_never_averaged() -> None:
    data = [*items("calm", "angry"), *items("calm", ground_truth="calm")]
    result = evals(data, lambda text: text, [right, moody])
    tally = result.scorers
    assert (tally["right"].mean, tally["right"].scored, tally["right"].not_scored) == (
        1.0,
        1,
        {"no_truth": 2},
    )
    assert (tally["moody"].mean, tally["moody"].scored, tally["moody"].failed) == (
        1.0,
        2,
        {"RuntimeError": 1},
    )


def test_a_target_that_raises_or_hangs_costs_only_its_own_item() -> None:
    async def target(text: str) -> str:
        if text == "raise":
            raise ValueError("broken")
        if text == "hang":
            await asyncio.sleep(60)
        if text == "exit":
            sys.exit(3)
        return text

    result = evals(items("raise", "hang", "exit", "fine"), target, [polite], timeout=0.1)
    assert [item.error for item in result.items] == [
        "ValueError: broken",
        "TimeoutError",
        "SystemExit: 3",
        None,
    ]
    assert [item.run is None for item in result.items] == [True, True, True, False]
    assert (result.errors, result.scorers["polite"].scored) == (3, 1)


def test_a_failed_run_that_left_spans_is_scored_as_it_is_live() -> None:
    provider = TracerProvider()

    def target(text: str) -> None:
        agent_run(provider.get_tracer("app"), answer="please wait")
        raise ValueError("afterwards")

    (item,) = evals(items("q"), target, [polite], tracer_provider=provider).items
    assert item.error == "ValueError: afterwards"
    assert item.scores == {"polite": 1.0}


@pytest.mark.parametrize(
    ("gates", "thresholds", "status"),
    [
        (["polite"], {}, "failed"),
        (["rudeness"], {"polite": 0.9}, "failed"),
        (["rudeness"], {"polite": 0.5}, "passed"),
        ([], {"polite": (0.1, 0.6), "rudeness": 0.1}, "passed"),
        ([], {"polite": (None, 0.4)}, "failed"),
        ([], {"polite": {"min": 0.1, "max": 0.4}}, "failed"),
        (["polite"], {"polite": 0.1}, "failed"),
        ([], {}, None),
    ],
)
def test_the_status_is_the_worst_of_gates_and_thresholds(
    gates: Any, thresholds: Any, status: str | None
) -> None:
    result = evals(items("x", "please"), str, [polite, rudeness], gates=gates, thresholds=thresholds)
    assert result.status == status


def test_a_gate_holds_only_where_nothing_failed() -> None:
    result = evals(items("calm", "angry"), str, [], gates=[moody])
    assert result.scorers["moody"].mean == 1.0
    assert result.status == "failed"
    assert "1 evaluations failed" in (result.requirements[0].problem or "")


def test_a_threshold_on_what_nobody_can_weigh_is_not_met_and_says_why() -> None:
    rule = Rule(polite, sample=sampling.when(lambda run: True))
    result = evals(items("please"), str, [rule], thresholds={"polite": 0.0})
    assert (result.scorers["polite"].scored, result.scorers["polite"].mean) == (1, None)
    assert (result.status, result.requirements[0].problem) == ("failed", "no score has a known probability")


def test_a_threshold_that_nothing_could_be_measured_for_is_not_met() -> None:
    result = evals(items("x"), str, [right], thresholds={"right": 0.0})
    assert (result.status, result.requirements[0].problem) == ("failed", "nothing was scored")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"data": []}, "data"),
        ({"data": [{"question": "x"}]}, "data[0]"),
        ({"data": "/nowhere/data.jsonl"}, "data: /nowhere/data.jsonl"),
        ({"target": "agent"}, "target"),
        ({"scorers": []}, "scorers"),
        ({"gates": ["politeness"]}, "gates"),
        ({"thresholds": {"politeness": 1}}, "thresholds.politeness"),
        ({"thresholds": {"polite": "high"}}, "thresholds.polite"),
        ({"thresholds": {"polite": (0.9, 0.1)}}, "thresholds.polite"),
        ({"thresholds": {"polite": (0.9,)}}, "thresholds.polite"),
        ({"thresholds": {"polite": {"min": 0.1, "maximum": 0.9}}}, "thresholds.polite"),
        ({"concurrency": 0}, "concurrency"),
        ({"tracer_provider": trace.NoOpTracerProvider()}, "tracer_provider"),
    ],
)
def test_what_is_wrong_is_named_before_the_target_is_called(changes: dict[str, Any], field: str) -> None:
    called: list[str] = []
    given = {"data": items("x"), "target": called.append, "scorers": [polite], **changes}
    with pytest.raises(ConfigError) as raised:
        evals(**given)
    assert raised.value.field == field
    assert called == []


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "data.jsonl").write_text('{"input": "a"}\nnonsense\n')
    with pytest.raises(ConfigError) as raised:
        evals(path, str, [polite])
    assert raised.value.field == f"{path}:2"


def test_rules_bring_their_limits_and_scored_runs_go_to_destinations() -> None:
    @scorer
    async def slow(run: Run) -> float:
        await asyncio.sleep(60)
        return 1.0

    memory = InMemoryDestination()
    result = evals(items("a", "b"), str, [Rule(slow, timeout=0.05), polite], destinations=[memory])
    assert result.scorers["slow"].failed == {"timeout": 2}
    assert len(memory.runs) == 2


def test_it_can_be_awaited_and_called_from_a_running_loop() -> None:
    async def main() -> tuple[EvalsResult, EvalsResult]:
        provider = TracerProvider()
        awaited = await run_evals_async(items("a"), str, [polite], tracer_provider=provider, progress=False)
        return awaited, evals(items("a"), str, [polite])

    awaited, blocking = asyncio.run(main())
    assert awaited.scorers == blocking.scorers


def test_progress_is_told_item_by_item() -> None:
    told: list[ItemResult] = []
    result = run_evals(items("a", "b"), str, [polite], progress=told.append, tracer_provider=TracerProvider())
    assert sorted(told, key=lambda r: str(r.output)) == list(result.items)


def test_a_sampled_rule_gives_the_mean_of_all_items_and_the_table_says_how_few_it_rests_on() -> None:
    """Every third run fails and is rude; all of those are scored, of the others a fifth."""
    target = TracerProvider(id_generator=SeededIds(11))

    def fail(span: trace.Span) -> None:
        span.set_status(trace.StatusCode.ERROR)

    def answer(text: str) -> None:
        rude, tracer = int(text) % 3 == 0, target.get_tracer("app")
        agent_run(tracer, answer="no" if rude else "please", during=fail if rude else lambda _: None)

    rule = Rule(polite, sample=sampling.ratio(0.2) | sampling.errors())
    result = evals(items(*map(str, range(150))), answer, [rule], tracer_provider=target, concurrency=1)
    tallied = result.scorers["polite"]
    values = [item.scores["polite"] for item in result.items if item.scores]
    assert sum(values) / len(values) < 0.5
    assert tallied.interval is not None
    assert tallied.interval[0] < 2 / 3 < tallied.interval[1]
    assert tallied.n_effective < tallied.scored == len(values)
    head, row, _ = str(result).splitlines()
    assert "n eff" in head
    assert f"{tallied.n_effective:.0f}" in row.split()


def test_results_are_json_and_a_table(tmp_path: Path) -> None:
    result = evals(items("a", "please"), str, [polite, length], gates=["polite"], thresholds={"length": 1})
    result.write(path := tmp_path / "result.json")
    read = json.loads(path.read_text())
    assert read["status"] == "failed"
    assert read["scorers"]["polite"]["mean"] == 0.5
    assert [e["value"] for e in read["items"][1]["run"]["evaluations"]] == [1.0, 6.0]
    evals(items("my password is hunter2-Blue"), str, [polite]).write(path)
    assert "hunter2" not in path.read_text()
    text = str(result)
    assert "NOT met: the mean 0.5 is below 1" in text
    assert text.splitlines()[-1] == "2 items, 0 failed; failed"


def test_a_scorers_own_traffic_is_no_run_of_the_target() -> None:
    provider = TracerProvider()

    @scorer
    def with_agent(run: Run) -> bool:
        agent_run(provider.get_tracer("app"), answer="the judge's own")
        return run.output == "x"

    result = evals(items("x", "x"), str, [with_agent], tracer_provider=provider, concurrency=1)
    assert [len(item.runs) for item in result.items] == [0, 0]
    assert result.scorers["with_agent"].mean == 1.0


def test_a_score_of_a_run_is_an_evaluation_with_all_that_is_known() -> None:
    (item,) = evals(items("please"), str, [polite]).items
    (evaluation,) = item.evaluations
    assert isinstance(evaluation.outcome, Score)
    assert (evaluation.scorer_version, evaluation.trace_id) == (
        polite.version,
        item.run and item.run.trace_id,
    )
