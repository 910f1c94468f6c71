"""Other libraries' evaluators as scorers: what they are given, and what becomes of what they return."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from otel_evals import Direction, NotScored, Score
from otel_evals._internal.config.plugins import build_scorer
from otel_evals.errors import ConfigError
from otel_evals.model import Document
from otel_evals.scorers.adapters import deepeval_metric, pydantic_evaluator
from tests.support.runs import a_run, tool
from tests.support.traffic import Live


class TestPydanticEvals:
    @pytest.fixture(autouse=True)
    def installed(self) -> None:
        self.evaluators = pytest.importorskip("pydantic_evals.evaluators")

    def score(self, scorer: Any, *args: Any, **fields: Any) -> Any:
        return asyncio.run(scorer.score(a_run(*args, **fields)))

    def returning(self, value: Any, **options: Any) -> Any:
        @dataclass
        class Says(self.evaluators.Evaluator):  # type: ignore[name-defined, misc]  # imported above, if there
            def evaluate(self, ctx: Any) -> Any:
                return value(ctx) if callable(value) else value

        return pydantic_evaluator(Says(), **options)

    def test_their_own_evaluators_score(self) -> None:
        contains = pydantic_evaluator(self.evaluators.Contains(value="Friday"))
        assert contains.id == "Contains"
        assert self.score(contains).value == 1.0
        missed = self.score(contains, "On Monday.")
        assert (missed.value, missed.label) == (0.0, "false")
        assert "Friday" in missed.explanation

    def test_the_expected_output_is_the_ground_truth(self) -> None:
        equal = pydantic_evaluator(self.evaluators.EqualsExpected())
        assert self.score(equal, "4", ground_truth="4").value == 1.0
        assert self.score(equal, "5", ground_truth="4").value == 0.0

    def test_an_evaluator_sees_the_run(self) -> None:
        seen: list[Any] = []
        self.score(self.returning(lambda ctx: seen.append(ctx) or 0.5), start_time=0, end_time=2_000_000_000)
        (ctx,) = seen
        assert (ctx.inputs, ctx.output, ctx.duration) == (
            "When does order 7 ship?",
            "Order 7 ships on Friday.",
            2,
        )

    def test_an_evaluator_of_spans_sees_the_spans_live(self) -> None:
        matching = self.evaluators.HasMatchingSpan
        called = pydantic_evaluator(matching(query={"name_equals": "execute_tool lookup_order"}), id="called")
        other = pydantic_evaluator(matching(query={"name_equals": "execute_tool other"}), id="other")
        with Live(called, other) as live:
            live.run()
            assert live.flush()
            values = {e.scorer_id: getattr(e.outcome, "value", None) for e in live.scored.evaluations}
        assert values == {"called": 1.0, "other": 0.0}

    @pytest.mark.parametrize(
        ("value", "options", "expected"),
        [
            (True, {}, (1.0, "true")),
            (0.25, {}, (0.25, None)),
            (7, {"scale": 10}, (7.0, None)),
            ("good", {"labels": {"good": 1, "bad": 0}}, (1.0, "good")),
            ({"a": 0.5}, {}, (0.5, None)),
            ({"a": 0.5, "b": 0.75}, {"result": "b"}, (0.75, None)),
        ],
    )
    def test_every_kind_of_result_becomes_a_score(self, value: Any, options: Any, expected: Any) -> None:
        scored = self.score(self.returning(value, **options))
        assert isinstance(scored, Score)
        assert (scored.value, scored.label) == expected

    @pytest.mark.parametrize("value", ["good", {"a": 1, "b": 0}, 2.0, float("nan"), None])
    def test_what_is_no_score_is_an_error_not_a_zero(self, value: Any) -> None:
        with pytest.raises((TypeError, ValueError)):
            self.score(self.returning(value))

    def test_no_output_is_not_scored(self) -> None:
        outcome = self.score(self.returning(True), None)
        assert isinstance(outcome, NotScored)
        assert outcome.reason == "output_not_recorded"

    def test_its_settings_are_part_of_the_version(self) -> None:
        one, same, other = (
            pydantic_evaluator(self.evaluators.Contains(value=text)) for text in ("a", "a", "b")
        )
        assert one.version == same.version != other.version

    def test_a_configuration_names_its_class(self) -> None:
        options = {
            "evaluator": "pydantic_evals.evaluators:Contains",
            "options": {"value": "Friday"},
            "id": "names_the_day",
        }
        built = build_scorer("python:otel_evals.scorers.adapters:pydantic_evaluator", options, "rules[0]")
        assert built.id == "names_the_day"
        assert self.score(built).value == 1.0

    @pytest.mark.parametrize("wrong", ["nowhere:Contains", "pydantic_evals.evaluators:Nothing", len])
    def test_what_is_no_evaluator_is_refused(self, wrong: Any) -> None:
        with pytest.raises(ConfigError):
            pydantic_evaluator(wrong)


class TestDeepEval:
    """Skipped where DeepEval is not installed: it is in no lock of this project."""

    @pytest.fixture(autouse=True)
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "1")
        pytest.importorskip("deepeval.metrics")

    def metric(self, measure: Any) -> Any:
        from deepeval.metrics import BaseMetric

        class Measured(BaseMetric):  # type: ignore[misc]  # untyped here
            async def a_measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float:
                self.score, self.reason = measure(test_case), "because"
                return float(self.score)

            def measure(self, test_case: Any, *args: Any, **kwargs: Any) -> float:
                raise NotImplementedError

            @property
            def __name__(self) -> str:
                return "My Metric"

        return Measured()

    def test_a_metric_is_given_the_run(self) -> None:
        cases: list[Any] = []
        scorer = deepeval_metric(self.metric(lambda case: cases.append(case) or 0.5))
        run = a_run(
            tools=[tool("find", {"a": 1}, arguments={"id": 7})],
            documents=(Document(content="a document"),),
            ground_truth="Friday",
        )
        outcome = asyncio.run(scorer.score(run))
        assert (scorer.id, outcome.value, outcome.explanation) == ("my_metric", 0.5, "because")  # type: ignore[union-attr]  # a score
        (case,) = cases
        assert (case.input, case.actual_output) == (run.input, run.output)
        assert (case.expected_output, case.retrieval_context) == ("Friday", ["a document"])
        assert [(c.name, c.input_parameters, c.output) for c in case.tools_called] == [
            ("find", {"id": 7}, {"a": 1})
        ]

    def test_runs_at_once_do_not_share_a_metric(self) -> None:
        scorer = deepeval_metric(
            self.metric(lambda case: float(case.actual_output)), direction=Direction.LOWER
        )

        async def main() -> list[Any]:
            return await asyncio.gather(*(scorer.score(a_run(f"0.{n}")) for n in range(10)))

        assert [outcome.value for outcome in asyncio.run(main())] == [n / 10 for n in range(10)]

    def test_their_own_metric_in_code_and_one_by_judge(self) -> None:
        from deepeval.metrics import AnswerRelevancyMetric, ExactMatchMetric
        from deepeval.models import DeepEvalBaseLLM

        class Scripted(DeepEvalBaseLLM):  # type: ignore[misc]  # untyped here
            def load_model(self) -> Any:
                return self

            def generate(self, prompt: str, schema: Any = None) -> Any:
                fields = schema.model_fields
                if "statements" in fields:
                    return schema(statements=["It ships on Friday.", "I like cats."])
                if "verdicts" in fields:
                    return schema(verdicts=[{"verdict": "yes"}, {"verdict": "no", "reason": "cats"}])
                return schema(reason="half of it is beside the point")

            async def a_generate(self, prompt: str, schema: Any = None) -> Any:
                return self.generate(prompt, schema)

            def get_model_name(self) -> str:
                return "scripted"

        exact = deepeval_metric(ExactMatchMetric())
        assert asyncio.run(exact.score(a_run("4", ground_truth="4"))).value == 1.0  # type: ignore[union-attr]  # a score
        assert isinstance(asyncio.run(exact.score(a_run("4"))), NotScored)
        judged = asyncio.run(deepeval_metric(AnswerRelevancyMetric(model=Scripted())).score(a_run()))
        assert isinstance(judged, Score)
        assert (judged.value, judged.explanation) == (0.5, "half of it is beside the point")


def test_a_library_that_is_missing_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pydantic_evals.evaluators", None)
    with pytest.raises(ConfigError, match=r"pip install pydantic-evals"):
        pydantic_evaluator(object())


def test_the_adapters_themselves_import_neither_library() -> None:
    import subprocess
    import sys

    libraries = "{'pydantic_evals', 'deepeval'}"
    code = f"import sys, otel_evals.scorers.adapters; assert not {libraries} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
