"""What was said leaves redacted or, without content capture, not at all."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from otel_evals import Rule, Run, Score, sampling, scorer
from otel_evals.errors import DestinationError
from otel_evals.scorers import Scorer
from tests.behaviour.app import App

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3


@scorer(version="1")
def quotes_output(run: Run) -> Score:
    return Score(value=1.0, label="said", explanation=f"it says {run.output}")


def everything(app: App) -> str:
    """All that left."""
    app.settle()
    left: list[Any] = [app.scored.evaluations, *(dict(event.attributes) for event in app.events())]
    left += [
        dict(span.attributes or {}) for span in app.exported.get_finished_spans() if "evaluate" in span.name
    ]
    left += [{k: v for k, v in app.span().attributes.items() if k.startswith("otel_evals")}]
    return str(left)


def test_secrets_leave_redacted_in_every_way() -> None:
    app = App(quotes_output, evaluation_spans="same_trace")
    app.run(answer=f"The key is {KEY}.")
    text = everything(app)
    assert "it says The key is" in text
    assert KEY not in text


def test_functions_of_ones_own_redact_too() -> None:
    app = App(
        quotes_output, evaluation_spans="same_trace", redact=[lambda text: text.replace("Jane", "[name]")]
    )
    app.run(answer="Dear Jane.")
    text = everything(app)
    assert "it says Dear [name]." in text
    assert "Jane" not in text


def test_without_content_capture_scores_leave_and_texts_do_not() -> None:
    app = App(quotes_output, evaluation_spans="same_trace", capture_content=False)
    app.run(answer="Dear Jane.")
    text = everything(app)
    assert "Jane" not in text
    assert app.span().attributes["otel_evals.score.quotes_output"] == 1.0


def test_without_content_capture_log_lines_quote_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever raises what was said: scorers, conditions, samplers, preparations, destinations."""
    said = "order 1042 of Jane Doe"

    def quotes(run: Run) -> Any:
        raise ValueError(f"cannot judge {run.output}")

    class Echoing:
        name = "echoing"

        async def export(self, batch: Any) -> None:
            raise DestinationError(f"400: {batch[0].run.output}", retryable=False)

        async def shutdown(self) -> None:
            raise ValueError(said)

    class Unready(Scorer):
        id, version = "unready", "1"

        def prepare(self) -> None:
            raise ValueError(said)

        async def score(self, run: Run) -> Any:
            raise ValueError(run.output)

    rules = [
        Rule(scorer(id="raises", version="1")(quotes)),
        Rule(scorer(id="inline", version="1", inline=True)(quotes)),
        Rule(scorer(id="when", version="1")(quotes), when=quotes),
        Rule(scorer(id="sampler", version="1")(quotes), sample=sampling.when(quotes)),
        Rule(Unready()),
    ]
    with caplog.at_level(logging.INFO):
        app = App(*rules, destinations=[Echoing()], capture_content=False)
        app.run(answer=said)
        app.pipeline.force_flush()
        app.pipeline.shutdown()
    assert {"raises", "unready"} <= app.pipeline.stats().rules.keys()
    assert caplog.text.count("ValueError") > 4
    assert said not in caplog.text


ENDS = [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, RecursionError]


@pytest.mark.parametrize("error", ENDS)
def test_a_redaction_that_would_end_a_thread_leaves_nothing_of_the_text(error: type[BaseException]) -> None:
    def odd(text: str) -> str:
        raise error

    @scorer(version="1")
    def explained(run: Run) -> Score:
        return Score(value=1.0, explanation="what was said")

    app = App(explained, redact=[odd])
    app.run()
    (evaluation,) = app.settle()
    assert evaluation.outcome == Score(value=1.0, explanation="[redaction failed]")
    assert app.span().attributes["otel_evals.score.explained.explanation"] == "[redaction failed]"
