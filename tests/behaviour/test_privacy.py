"""What was said leaves redacted or, without content capture, not at all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from otel_evals import NotScored, Rule, Run, Score, sampling, scorer
from otel_evals.destinations import InMemoryDestination
from otel_evals.errors import ConfigError, DestinationError
from otel_evals.judges import ScriptedJudge
from otel_evals.scorers import PromptStep, Scorer, step_scorer
from tests.behaviour.app import App
from tests.support.destinations import destination
from tests.support.recording_server import recording_server

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3


EMAIL = "ada.lovelace@example.org"
CARD = "4111 1111 1111 1111"
QUESTION = f"I am {EMAIL}, my key is {KEY}, my card {CARD}. Where is my order?"
ANSWER = f"Your key {KEY} works, {EMAIL}; the card {CARD} was charged."


@scorer(version="1")
def quotes_output(run: Run) -> Score:
    return Score(value=1.0, label=f"{run.output}"[:60], explanation=f"it says {run.output}")


@scorer(version="1")
def explains(run: Run) -> Score:
    return Score(value=1.0, label="said", explanation=f"it says {run.output}")


@scorer(version="1")
def fails(run: Run) -> float:
    raise ValueError(f"cannot read {run.output}")


def said_of(spans: Iterable[ReadableSpan]) -> str:
    """What was written on evaluation spans, or by us on the application's."""
    attributes = [
        f"{key}={value}"
        for span in spans
        for key, value in (span.attributes or {}).items()
        if span.name.startswith("evaluate") or key.startswith("otel_evals")
    ]
    return repr(attributes) + repr([span.status.description for span in spans])


def everything_that_leaves(folder: Path, **options: Any) -> dict[str, str]:
    """One run, scored by code, by a failure and by a judge; what left, by the way that it took."""
    judge = ScriptedJudge({"generate_reason": f"the answer repeats {KEY} of {EMAIL} with {CARD}"})
    asking = (
        step_scorer("asking", judge=judge)
        .generate_score(lambda params: 1.0)
        .generate_reason(PromptStep(schema=str, prompt="Why?\n\n$input\n\n$output"))
    )
    scored = InMemoryDestination()
    with recording_server() as server:
        destinations = [
            scored,
            {"jsonl": {"path": folder / "scored.jsonl"}},
            {"results": {"path": folder / "results.db"}},
            destination("langfuse", server.url),
        ]
        app = App(
            quotes_output, fails, asking, destinations=destinations, evaluation_spans="same_trace", **options
        )
        app.run(question=QUESTION, answer=ANSWER, result={"token": KEY, "to": EMAIL})
        app.settle()
        app.pipeline.shutdown()
    spans = app.exported.get_finished_spans()
    assert KEY in str([span.attributes for span in spans]), "what the application recorded is its own"
    written = b"".join(path.read_bytes() for path in folder.glob("results.db*"))
    return {
        "judges": "".join(request.prompt for request in judge.requests),
        "judged spans": said_of([span for span in spans if not span.name.startswith("evaluate")]),
        "evaluation spans": said_of([span for span in spans if span.name.startswith("evaluate")]),
        "events": repr([dict(event.attributes) for event in app.events()]),
        "files": (folder / "scored.jsonl").read_text(encoding="utf-8"),
        "results store and page": written.decode(errors="replace"),
        "destinations over HTTP": "".join(request.raw.decode() for request in server.requests),
        "destinations of the user's own": repr(scored.runs),
    }


def shout(text: str) -> str:
    return text.replace("works", "[WORKS]")


def broken(text: str) -> str:
    raise RuntimeError("no model here")


@pytest.mark.parametrize(
    ("options", "gone", "kept"),
    [
        ({}, [KEY], [EMAIL, CARD]),
        ({"redact": ["secrets", "pii"]}, [KEY, EMAIL, CARD], []),
        ({"redact": [shout]}, ["works"], [KEY, EMAIL, "[WORKS]"]),
        ({"redact": "python:tests.behaviour.test_privacy:shout"}, ["works"], [KEY, EMAIL, "[WORKS]"]),
        ({"redact": "off"}, [], [KEY, EMAIL, CARD]),
        ({"redact": broken}, [KEY, EMAIL, CARD, "repeats", "it says"], []),
    ],
    ids=["by default", "personal data", "a function", "a path to one", "nothing", "a function that fails"],
)
def test_every_way_out_goes_through_the_hook(
    options: dict[str, Any], gone: list[str], kept: list[str], tmp_path: Path
) -> None:
    for way, said in everything_that_leaves(tmp_path, **options).items():
        assert len(said) > 50, way
        assert not [text for text in gone if text in said], way
        assert all(text in said for text in kept), way


def test_a_key_in_an_agent_s_name_is_in_no_metric() -> None:
    app = App(explains)
    app.run(agent=f"support {KEY}")
    app.settle()
    points = app.points("otel_evals.score")
    assert [point.attributes["gen_ai.agent.name"] for point in points] == ["support [redacted]"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("secret", "did you mean 'secrets'"),
        ("presidio", "python:package.module:function"),
        ("python:nowhere.at_all:f", "cannot be imported"),
        (5, "must be a name or a function"),
        (["secrets", None], "must be a name or a function"),
    ],
)
def test_what_the_option_does_not_take_is_said(value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=r"redact: ") as raised:
        App(quotes_output, redact=value)
    assert says in str(raised.value)


def test_without_content_capture_scores_leave_and_texts_do_not() -> None:
    app = App(explains, evaluation_spans="same_trace", capture_content=False)
    app.run(answer="Dear Jane.")
    left = app.settle(), [dict(event.attributes) for event in app.events()]
    assert "Jane" not in str(left) + said_of(app.exported.get_finished_spans())
    assert app.span().attributes["otel_evals.score.explains"] == 1.0


def test_without_content_capture_labels_and_reasons_are_redacted() -> None:
    key = "AKIA" + "A1B2" * 4
    app = App(
        scorer(lambda run: Score(value=1.0, label=key), id="labels", version="1"),
        scorer(lambda run: NotScored(reason=key), id="reasons", version="1"),
        capture_content=False,
    )
    app.run()
    assert key not in str((app.settle(), app.pipeline.stats(), app.span().attributes))


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
