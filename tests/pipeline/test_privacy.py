"""Two pipelines in one process: what one may show or has to remove says nothing about the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from otel_evals import Pipeline, Rule, Run, scorer
from otel_evals._internal.config.loader import build_config
from otel_evals.judges import JudgeReply, JudgeRequest
from otel_evals.model import Score
from otel_evals.scorers import PromptStep, step_scorer
from otel_evals.testing import InMemoryDestination
from tests.support.traffic import agent_run

SECRET = "sk-" + "a1B2" * 10


class Repeating:
    """A judge that repeats its prompt."""

    model = "repeating"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.prompts.append(request.prompt)
        return JudgeReply(value=f"it says {SECRET}", model=self.model)


class Scored:
    """A pipeline of its own, with what left it."""

    def __init__(self, name: str, isolation: str = "thread", **options: Any) -> None:
        self.judge, self.destination = Repeating(), InMemoryDestination()

        def unreadable(run: Run) -> bool:
            raise ValueError(f"{name} cannot read {run.output}")

        asking = (
            step_scorer("asking", judge=self.judge)
            .generate_score(lambda params: 1.0)
            .generate_reason(PromptStep(schema=str, prompt="Why?\n\n$output"))
        )
        rules: list[Any] = [
            Rule(quoting, isolation=isolation),  # type: ignore[arg-type]
            asking,
            Rule(asking_never, when=unreadable),
        ]
        self.pipeline = Pipeline(build_config(rules, [self.destination], grace=0.0, **options))
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self.pipeline.spans)
        self.tracer: Tracer = provider.get_tracer("app")

    @property
    def left(self) -> str:
        """Everything that the destination and the judge were given, as text."""
        runs = self.destination.runs
        return repr([(r.run.output, [e.outcome for e in r.evaluations]) for r in runs]) + repr(
            self.judge.prompts
        )


def ours(text: str) -> str:
    return text.replace(SECRET, "[ours]")


@scorer
def quoting(run: Run) -> Score:
    return Score(value=0.5, explanation=f"it says {run.output}")


@scorer
def asking_never(run: Run) -> float:
    return 1.0


@contextmanager
def two_pipelines(first: Callable[[], Scored], second: Callable[[], Scored]) -> Iterator[list[Scored]]:
    """Both at work, with a run each, in turn."""
    made = [first(), second()]
    try:
        for each in made:
            agent_run(each.tracer, answer=f"The key is {SECRET}.")
            assert each.pipeline.force_flush()
        yield made
    finally:
        for each in made:
            each.pipeline.shutdown()


@pytest.mark.parametrize("strict_first", [True, False])
def test_content_of_a_pipeline_that_captures_none_is_in_no_log_line(
    strict_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its neighbour shows what its own rule raised."""
    caplog.set_level(logging.DEBUG)
    makers = [lambda: Scored("strict", capture_content=False), lambda: Scored("open", redact=False)]
    with two_pipelines(*(makers if strict_first else makers[::-1])):
        pass
    assert f"open cannot read The key is {SECRET}" in caplog.text
    assert "strict cannot read" not in caplog.text


@pytest.mark.parametrize("isolation", ["thread", pytest.param("process", marks=pytest.mark.slow)])
@pytest.mark.parametrize("removing_first", [True, False])
def test_each_pipeline_redacts_by_its_own_functions(removing_first: bool, isolation: str) -> None:
    """Destinations, explanations and judges' prompts; with a scorer in a process of its own too."""
    makers = [
        lambda: Scored("removing", isolation, redact=ours),
        lambda: Scored("open", redact=False),
    ]
    with two_pipelines(*(makers if removing_first else makers[::-1])) as made:
        removing, opened = made if removing_first else made[::-1]
        assert SECRET not in removing.left
        assert removing.left.count("[ours]") >= 4
        assert "[ours]" not in opened.left
        assert opened.left.count(SECRET) >= 4


def test_an_outcome_is_redacted_once() -> None:
    """The second pass over the same explanation would find its own marks."""
    seen: list[str] = []

    def noting(text: str) -> str:
        seen.append(text)
        return text

    with two_pipelines(lambda: Scored("noting", redact=noting), lambda: Scored("open")):
        pass
    assert seen.count(f"it says The key is {SECRET}.") == 1
