"""The engine in a process of its own: the application sees what it sees with the engine on a thread."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals import ConfigError, Pipeline, Rule, Run, Stats, sampling, scorer
from otel_evals._internal.config.loader import build_config
from otel_evals.testing import InMemoryDestination
from tests.support.traffic import agent_run

SUPPORT = str(Path(__file__).parents[1] / "support")


@scorer
def answered(run: Run) -> bool:
    return bool(run.output)


@scorer
def moody(run: Run) -> float:
    """Does what the question asks for."""
    question = run.input or ""
    if "raise" in question:
        raise KeyError("order")
    if "sleep" in question:
        time.sleep(60)
    if "warn" in question:
        logging.getLogger("my.scorer").warning("odd question in %d", os.getpid())
    return 1.0


class App:
    """Providers, and a pipeline whose engine is elsewhere; use as a context manager."""

    def __init__(self, folder: Path, *rules: Any, **options: Any) -> None:
        self.file = folder / "scores.jsonl"
        options = {"grace": 0.02, "destinations": [{"jsonl": {"path": str(self.file)}}], **options}
        config = build_config(rules, isolation="process", **options)
        self.exported, self.events = InMemorySpanExporter(), InMemoryLogRecordExporter()
        self.metrics = InMemoryMetricReader()
        self.provider, self.loggers = TracerProvider(), LoggerProvider()
        self.loggers.add_log_record_processor(SimpleLogRecordProcessor(self.events))
        self.meters = MeterProvider([self.metrics])
        self.pipeline = Pipeline(
            config, tracer_provider=self.provider, logger_provider=self.loggers, meter_provider=self.meters
        )
        self.loggers.add_log_record_processor(self.pipeline.log_records)
        self.provider.add_span_processor(self.pipeline.spans)
        self.provider.add_span_processor(SimpleSpanProcessor(self.pipeline.hold(self.exported)))
        self.tracer = self.provider.get_tracer("tests.app")

    def run(self, **options: Any) -> int:
        return agent_run(self.tracer, **options)

    def flush(self) -> bool:
        return self.pipeline.force_flush(20_000)

    def spans(self, name: str) -> list[Any]:
        return [s for s in self.exported.get_finished_spans() if s.name == name]

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.provider.shutdown()
        self.loggers.shutdown()
        self.meters.shutdown()


def ends(stats: Stats, rule: str) -> dict[str, int]:
    counters = stats.rules[rule]
    return {"scored": counters.scored, **counters.not_scored, **counters.failed, **counters.dropped}


def until(condition: Any, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_outcomes_come_back_in_every_form(tmp_path: Path) -> None:
    """Span attributes, evaluation spans and events, metrics and destinations: all as from a thread."""
    rule = Rule(answered, sample=sampling.ratio(1))
    with App(tmp_path, rule, moody, evaluation_spans="same_trace") as app:
        trace_id = app.run()
        app.run(question="raise")
        assert app.flush()
        assert app.pipeline.stats().check() == []
        assert ends(app.pipeline.stats(), "moody") == {"scored": 1, "KeyError": 1}
        app.provider.force_flush()
        roots, evaluations = app.spans("invoke_agent support"), app.spans("evaluate answered")
        assert [r.attributes["otel_evals.score.answered"] for r in roots] == [1.0, 1.0]
        assert {e.parent.span_id for e in evaluations} == {r.context.span_id for r in roots}
        assert {e.context.trace_id for e in evaluations} == {r.context.trace_id for r in roots}
        assert len(app.spans("chat m")) == 2
        events = [e.log_record for e in app.events.get_finished_logs()]
        assert (
            sorted(e.attributes["gen_ai.evaluation.name"] for e in events) == ["answered"] * 2 + ["moody"] * 2
        )
        assert {e.trace_id for e in events} == {r.context.trace_id for r in roots}
        assert "otel_evals.score" in str(app.metrics.get_metrics_data())
        assert len(app.lines()) == 2
        assert "answered" in str(app.pipeline.explain(trace_id))
        assert app.pipeline.health().ok
        assert app.pipeline.destination_stats()["jsonl"].exported == 2
        pid = app.pipeline.engine.pid
        assert pid != os.getpid()
    assert pid is not None
    until(lambda: not psutil.pid_exists(pid))


def test_what_spans_and_log_records_hold_arrives_as_it_was(tmp_path: Path) -> None:
    """Events, lists, odd values and content in log records, also those that only pickle can carry."""

    class Word(str):
        __slots__ = ()

    @scorer(id="seen")
    def seen(run: Run) -> bool:
        root = run.root
        assert root is not None
        (event,) = root.span.events
        assert dict(event.attributes) == {"n": 1, "list": ("a", "b")}
        assert root.span.attributes["word"] == "w"
        assert root.span.attributes["numbers"] == (1, 2.5)
        assert root.span.resource["service.name"].startswith("unknown_service")
        assert root.span.scope_name == "tests.app"
        return True

    def during(span: Any) -> None:
        span.add_event("noted", {"n": 1, "list": ["a", "b"]})
        span.set_attribute("numbers", [1, 2.5])
        span.set_attribute("word", Word("w"))

    with App(tmp_path, seen) as app:
        app.run(during=during)
        assert app.flush()
        assert ends(app.pipeline.stats(), "seen") == {"scored": 1}


@pytest.mark.slow
def test_the_death_of_the_engine_is_noticed_counted_and_mended(tmp_path: Path) -> None:
    """kill -9 with evaluations under way: they are counted, their spans leave, later runs are scored."""
    with App(tmp_path, Rule(moody, concurrency=4), hold=30) as app:
        app.run()
        assert app.flush()
        for _ in range(6):
            app.run(question="sleep")
        until(lambda: app.pipeline.stats().rules["moody"].pending == 6)
        pid = app.pipeline.engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: len(app.spans("invoke_agent support")) == 7, 2.0)
        until(lambda: app.pipeline.engine.pid not in (None, pid))
        assert app.pipeline.engine.deaths == 1
        app.run()
        assert app.flush()
        stats = app.pipeline.stats()
        assert ends(stats, "moody") == {"scored": 2, "process_died": 6}
        assert stats.seen == stats.eligible == 8
        assert stats.check() == []
        assert stats.losses == {}


@pytest.mark.slow
def test_with_a_store_nothing_is_lost_when_the_engine_dies(tmp_path: Path) -> None:
    """The evaluations under way are left in the store; the next process takes them up and scores them."""

    @scorer(id="second_try", version="1")
    def second_try(run: Run) -> float:
        marker = tmp_path / run.trace_id
        if not marker.exists():
            marker.touch()
            time.sleep(60)
        return 1.0

    rule = Rule(second_try, concurrency=4)
    with App(tmp_path, rule, store=tmp_path / "store.db", store_lease=1.0, hold=30) as app:
        for _ in range(3):
            app.run()
        until(lambda: app.pipeline.stats().rules["second_try"].pending == 3)
        until(lambda: len(list(tmp_path.glob("?" * 32))) == 3)
        until(lambda: app.pipeline.stats().store.written == 3)
        time.sleep(0.5)  # by then the rules' decision is in the file too
        assert app.pipeline.engine.pid is not None
        os.kill(app.pipeline.engine.pid, signal.SIGKILL)
        until(lambda: app.pipeline.stats().rules["second_try"].scored == 3, 30)
        stats = app.pipeline.stats()
        assert stats.check() == []
        assert stats.losses == {}
        counters = stats.rules["second_try"]
        assert (counters.sampled, counters.stored, counters.resumed) == (3, 3, 3)
        assert (counters.dropped, counters.failed) == ({}, {})


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP")
def test_an_engine_that_stands_still_never_stops_the_application(tmp_path: Path) -> None:
    """The pipe fills up; the application goes on, spans leave after their hold, leaving is done in time."""
    with App(tmp_path, answered, hold=0.2) as app:
        app.run()
        assert app.flush()
        pid = app.pipeline.engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        longest = 0.0
        for _ in range(300):
            began = time.monotonic()
            app.run(answer="long " * 500)
            longest = max(longest, time.monotonic() - began)
        assert longest < 3, "a pipe that is full is never emptied again"
        assert app.pipeline.health().status == "stalled"
        began = time.monotonic()
        assert not app.pipeline.force_flush(300)
        app.pipeline.shutdown(500)
        assert time.monotonic() - began < 4
        stats = app.pipeline.stats()
        assert stats.check() == []
        assert 3 * stats.seen + stats.losses["span_shutdown"] == 3 * 301
        app.provider.force_flush()
        assert len(app.spans("invoke_agent support")) == 301
    until(lambda: not psutil.pid_exists(pid))


def test_spans_that_die_with_the_engine_are_counted(tmp_path: Path) -> None:
    """Spans of unfinished runs are lost with the process, and named."""
    with App(tmp_path, answered, grace=30) as app:
        app.run()
        until(lambda: app.pipeline.health().thread_alive)
        pid = app.pipeline.engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: app.pipeline.stats().losses == {"span_process_died": 3})
        app.provider.force_flush()
        assert len(app.spans("invoke_agent support")) == 1
        assert app.pipeline.stats().check() == []


@pytest.mark.slow
def test_the_books_balance_to_the_unit_however_often_the_engine_dies(tmp_path: Path) -> None:
    """Killed again and again under traffic: every run is counted once, every span leaves, nothing doubles."""
    with App(tmp_path, Rule(moody, concurrency=4), Rule(answered, sample=0.5), hold=30) as app:
        killed: set[int] = set()
        for number in range(400):
            app.run(question="raise" if number % 7 == 0 else "ask")
            time.sleep(0.01)
            pid = app.pipeline.engine.pid
            if number % 100 == 60 and pid is not None and pid not in killed:
                killed.add(pid)
                os.kill(pid, signal.SIGKILL)
        assert app.flush()
        stats = app.pipeline.stats()
        app.provider.force_flush()
        assert killed
        assert app.pipeline.engine.deaths == len(killed)
        assert stats.check() == []
        assert 3 * stats.seen + stats.losses.get("span_process_died", 0) == 3 * 400
        assert sum(rule.pending for rule in stats.rules.values()) == 0
        assert len(app.spans("invoke_agent support")) == 400
        events = [e.log_record.attributes for e in app.events.get_finished_logs()]
        ids = [event["otel_evals.evaluation.id"] for event in events]
        assert (
            len(ids)
            == len(set(ids))
            == sum(rule.scored + rule.failed.get("KeyError", 0) for rule in stats.rules.values())
        )


def test_leaving_with_a_hanging_scorer_keeps_to_its_time(tmp_path: Path) -> None:
    """What is not scored in time is counted as dropped; the span still leaves."""
    with App(tmp_path, moody) as app:
        app.run(question="sleep")
        until(lambda: app.pipeline.stats().rules["moody"].pending == 1)
        began = time.monotonic()
        app.pipeline.shutdown(1_000)
        assert time.monotonic() - began < 3
        assert ends(app.pipeline.stats(), "moody") == {"scored": 0, "shutdown": 1}
        assert app.pipeline.stats().check() == []
        app.provider.force_flush()
        assert len(app.spans("invoke_agent support")) == 1


def test_log_records_of_the_engine_reach_the_applications_logging(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with App(tmp_path, moody) as app:
        app.run(question="warn")
        assert app.flush()
        assert f"odd question in {app.pipeline.engine.pid}" in caplog.text


def test_what_cannot_be_sent_is_named_when_it_is_configured() -> None:
    """A destination that lives in this process cannot be in the other one."""
    with pytest.raises(ConfigError, match=r"^destinations\[0\]: with isolation='process' it cannot be sent"):
        Pipeline(build_config([answered], [InMemoryDestination()], isolation="process"))


def test_nothing_is_started_before_there_is_something_to_score(tmp_path: Path) -> None:
    with App(tmp_path, answered) as app:
        with app.tracer.start_as_current_span("GET /"):
            pass
        assert app.flush()
        assert app.pipeline.engine.pid is None
        assert app.pipeline.health().status == "idle"


PROGRAM = """
import os, signal, sys, time
import otel_evals
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from otel_evals import Rule, scorer
from traffic import agent_run

@scorer
def slow(run) -> float:
    time.sleep(0.1)
    return 1.0

provider = TracerProvider()
trace.set_tracer_provider(provider)
pipeline = otel_evals.configure(
    rules=[Rule(slow, concurrency=30)], destinations=[{"jsonl": {"path": sys.argv[1]}}], isolation="process"
)
class Counting(ConsoleSpanExporter):
    def export(self, spans):
        with open(sys.argv[1] + ".spans", "a") as file:
            file.writelines(f"{s.name} {'otel_evals.score.slow' in s.attributes}\\n" for s in spans)
        return super().export([])
provider.add_span_processor(BatchSpanProcessor(pipeline.hold(Counting())))
for _ in range(20):
    agent_run(trace.get_tracer("app"))
"""


def program(path: Path, ending: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + ending, str(path)],
        env={**os.environ, "PYTHONPATH": SUPPORT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("", id="the end of the program"),
        pytest.param("otel_evals.shutdown()", id="shutdown"),
        pytest.param("provider.shutdown()", id="the provider's shutdown"),
        pytest.param(
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); os.killpg(0, signal.SIGTERM)",
            id="SIGTERM to the whole group, with a handler that exits",
        ),
    ],
)
def test_nothing_is_lost_on_a_clean_way_out(tmp_path: Path, ending: str) -> None:
    """Twenty runs are scored and their spans leave with the scores."""
    process = program(tmp_path / "scores", ending)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert errors == ""
    assert len((tmp_path / "scores").read_text().splitlines()) == 20
    assert (tmp_path / "scores.spans").read_text().count("invoke_agent support True") == 20


MODULE = """
import os
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import Rule, Score, scorer
from otel_evals._internal.live.configure import current
from traffic import agent_run

@scorer
def judge(run) -> Score:
    return Score(value=1.0, explanation=f"{len(otel_evals._internal.live.configure.current().config.rules)} rules here")

provider = TracerProvider()
pipeline = otel_evals.configure(
    rules=[Rule(judge, isolation=RULE)], destinations=[{"jsonl": {"path": "scores"}}],
    tracer_provider=provider, isolation=ENGINE, store="store.db",
)
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", [("thread", "process"), ("process", "thread"), ("process", "process")])
def test_a_module_that_configures_and_scores_is_imported_without_harm(
    tmp_path: Path, where: tuple[str, str]
) -> None:
    """The other process imports the module for its scorer; what it configures there stays without effect."""
    text = MODULE.replace("RULE", repr(where[0])).replace("ENGINE", repr(where[1]))
    (tmp_path / "service.py").write_text(text)
    code = (
        "import service; service.agent_run(service.provider.get_tracer('x')); import otel_evals;"
        "assert otel_evals.force_flush(); print(otel_evals.stats().rules['judge'].scored)"
    )
    environment = {**os.environ, "PYTHONPATH": f"{SUPPORT}{os.pathsep}{tmp_path}"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "1\n", done.stderr
    (line,) = (tmp_path / "scores").read_text().splitlines()
    assert "0 rules here" in line


@pytest.mark.slow
def test_the_engine_ends_with_an_application_that_is_killed(tmp_path: Path) -> None:
    process = program(
        tmp_path / "scores", "pipeline.force_flush(); print(pipeline.engine.pid, flush=True); time.sleep(60)"
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert psutil.pid_exists(pid)
    process.kill()
    process.communicate(timeout=10)
    until(lambda: not psutil.pid_exists(pid))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_copy_has_an_engine_of_its_own(tmp_path: Path) -> None:
    """Parent and child each have their runs scored, once; as preforking servers do."""
    ending = """
assert otel_evals.force_flush()
mine = pipeline.engine.pid
pid = os.fork()
if pid == 0:
    for _ in range(5):
        agent_run(trace.get_tracer("child"))
    assert otel_evals.force_flush(10_000)
    assert otel_evals.stats().rules["slow"].scored == 5, otel_evals.stats()
    assert pipeline.engine.pid != mine
    otel_evals.shutdown()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert pipeline.engine.pid == mine
agent_run(trace.get_tracer("app"))
assert otel_evals.force_flush(10_000)
assert otel_evals.stats().rules["slow"].scored == 21
"""
    process = program(tmp_path / "scores", ending)
    _, errors = process.communicate(timeout=40)
    assert process.returncode == 0, errors
    assert len((tmp_path / "scores").read_text().splitlines()) == 26
