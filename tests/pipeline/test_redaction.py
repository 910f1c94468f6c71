"""Every way out of the process goes through one hook: secrets are taken out by default, more on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals import Pipeline, Rule, Run, scorer
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.redaction.redactor import Redaction, use_redaction
from otel_evals.destinations import JsonlDestination
from otel_evals.errors import ConfigError
from otel_evals.judges import JudgeReply, JudgeRequest
from otel_evals.model import Score
from otel_evals.scorers import PromptStep, step_scorer
from otel_evals.testing import InMemoryDestination
from otel_evals_exporters.langfuse import LangfuseDestination
from otel_evals_monitor import ResultsDestination
from tests.support.recording_server import recording_server
from tests.support.traffic import agent_run

SECRET = "sk-" + "a1B2" * 10
EMAIL = "ada.lovelace@example.org"
CARD = "4111 1111 1111 1111"
QUESTION = f"I am {EMAIL}, my key is {SECRET}, my card {CARD}. Where is my order?"
ANSWER = f"Your key {SECRET} works, {EMAIL}; the card {CARD} was charged."


@scorer
def quoting(run: Run) -> Score:
    return Score(value=0.5, label=f"{run.output}"[:60], explanation=f"it says {run.output}")


@scorer
def failing(run: Run) -> float:
    raise ValueError(f"cannot read {run.output}")


class Telling:
    """A judge that repeats what it should not."""

    model = "telling"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.prompts.append(request.prompt)
        return JudgeReply(value=f"the answer repeats {SECRET} of {EMAIL} with {CARD}", model=self.model)


def said_of(spans: InMemorySpanExporter, *, ours: bool) -> str:
    """What was written on evaluation spans, or by us on the application's."""
    said: list[Any] = []
    for span in spans.get_finished_spans():
        is_ours = bool((span.attributes or {}).get("otel_evals.internal"))
        if is_ours == ours:
            said += [f"{k}={v}" for k, v in (span.attributes or {}).items() if ours or "otel_evals" in k]
            said += [span.status.description, *(str(e.attributes) for e in span.events)] if ours else []
    return repr(said)


@contextmanager
def everything_that_leaves(folder: Path, **options: Any) -> Iterator[Mapping[str, str]]:
    """One run, scored by code, by a failure and by a judge; what left, by the way that it took."""
    spans, logs, memory = InMemorySpanExporter(), InMemoryLogRecordExporter(), InMemoryDestination()
    provider, loggers = TracerProvider(shutdown_on_exit=False), LoggerProvider(shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(logs))
    judge = Telling()
    asking = (
        step_scorer("asking", judge=judge)
        .generate_score(lambda params: 1.0)
        .generate_reason(PromptStep(schema=str, prompt="Why?\n\n$input\n\n$output"))
    )
    with recording_server() as server:
        rules = [Rule(quoting), Rule(failing), Rule(asking)]
        destinations = [
            memory,
            JsonlDestination(folder / "scored.jsonl"),
            ResultsDestination(folder / "results.db"),
            LangfuseDestination(url=server.url, public_key="pk", secret_key="s"),
        ]
        config = build_config(
            rules, destinations, grace=0.02, evaluation_spans="same_trace", metrics=False, **options
        )
        pipeline = Pipeline(config, tracer_provider=provider, logger_provider=loggers)
        provider.add_span_processor(pipeline.spans)
        provider.add_span_processor(SimpleSpanProcessor(pipeline.hold(spans)))
        try:
            agent_run(provider.get_tracer("app"), QUESTION, ANSWER, result={"token": SECRET, "to": EMAIL})
            assert pipeline.force_flush(100_000)
        finally:
            provider.shutdown()
            use_redaction(Redaction())
        written = b"".join(p.read_bytes() for p in folder.iterdir() if p.name.startswith("results.db"))
        yield {
            "judges": "".join(judge.prompts),
            "judged spans": said_of(spans, ours=False),
            "evaluation spans": said_of(spans, ours=True),
            "events": repr([dict(each.log_record.attributes or {}) for each in logs.get_finished_logs()]),
            "files": (folder / "scored.jsonl").read_text(),
            "results store and page": written.decode(errors="replace"),
            "destinations over HTTP": "".join(r.raw.decode() for r in server.requests),
            "destinations of the user's own": repr(memory.runs),
        }


def shout(text: str) -> str:
    return text.replace("order", "[ORDER]")


def broken(text: str) -> str:
    raise RuntimeError("no model here")


TAKEN_OUT: dict[str, tuple[Any, list[str], list[str]]] = {
    "by default": ("secrets", [SECRET], [EMAIL, CARD]),
    "personal data too": (["secrets", "pii"], [SECRET, EMAIL, CARD], []),
    "by a function of one's own": (shout, [], [SECRET, EMAIL]),
    "nothing": ("off", [], [SECRET, EMAIL, CARD]),
    "everything, where a function fails": (broken, [SECRET, EMAIL, CARD, "repeats", "it says"], []),
}


@pytest.mark.parametrize("case", TAKEN_OUT)
def test_every_way_out_goes_through_the_hook(case: str, tmp_path: Path) -> None:
    redact, gone, kept = TAKEN_OUT[case]
    with everything_that_leaves(tmp_path, redact=redact) as ways:
        assert len(ways) == 8
        for way, said in ways.items():
            assert len(said) > 50, way
            assert not [text for text in gone if text in said], way
            assert all(text in said for text in kept), way


def test_spans_of_the_application_are_never_changed(tmp_path: Path) -> None:
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    config = build_config([Rule(quoting)], grace=0.02, metrics=False)
    pipeline = Pipeline(config, tracer_provider=provider)
    provider.add_span_processor(pipeline.spans)
    provider.add_span_processor(SimpleSpanProcessor(pipeline.hold(exported)))
    agent_run(provider.get_tracer("app"), QUESTION, ANSWER)
    provider.shutdown()
    attributes = [dict(span.attributes or {}) for span in exported.get_finished_spans()]
    assert any(SECRET in str(each.get("gen_ai.output.messages")) for each in attributes)


def own(text: str) -> str:
    return text


@pytest.mark.parametrize(
    ("value", "functions"),
    [
        ("secrets", 1), (["secrets", "pii"], 2), ("off", 0), (False, 0), ([], 0), (own, 1),
        (["secrets", own], 2), ("python:os.path:basename", 1),
    ],
)  # fmt: skip
def test_what_the_option_takes(value: Any, functions: int) -> None:
    assert len(build_config([], redact=value).redact.functions) == functions


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
def test_what_it_does_not_take(value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=r"redact: ") as raised:
        build_config([], redact=value)
    assert says in str(raised.value)
