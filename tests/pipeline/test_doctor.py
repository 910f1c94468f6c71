"""`otel-evals doctor -- program` names what is wrong with a set-up, and the line that fixes it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

import otel_evals
from otel_evals.scorers import answered
from tests.support import PYTHONPATH
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.stub_openai import StubOpenAI
from tests.support.traffic import agent_run

COMMAND = (
    "import sys; sys.argv = ['otel-evals', *sys.argv[1:]]; from otel_evals._internal.cli import main; main()"
)

PROGRAM = """
import sys
import otel_evals
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider, sampling as heads
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from otel_evals import Rule, sampling, scorer
from otel_evals.scorers import answered
from otel_evals._internal.scorers.kit.prompt import PromptStep, ScoreReply
from otel_evals._internal.scorers.kit.steps import step_scorer
from tests.support.traffic import agent_run

def provider(**options):
    made = TracerProvider(**options)
    made.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    return made

@scorer(version="1")
def broken(run):
    return run.nonsense

@scorer(version="1")
def slow(run):
    import time
    time.sleep(0.3)
    return 1.0

def judged(model="openai/stub", **judge):
    asked = PromptStep(prompt="How good is this? $output", schema=ScoreReply)
    return step_scorer("judged", judge={"model": model, **judge}).generate_score(asked)

def run(tracer=None, **options):
    return agent_run(tracer or trace.get_tracer("app"), **options)

%s
"""


@dataclass(frozen=True)
class Broken:
    """A set-up that scores nothing, or loses scores; and what it is after the line that fixes it."""

    program: str
    mended: str
    says: str
    fix: str
    environment: dict[str, str] = field(default_factory=dict)
    mended_environment: dict[str, str] = field(default_factory=dict)


ON = """P = provider()
otel_evals.configure(rules=[{rules}], tracer_provider=P, grace=0.02{more})
run(P.get_tracer('app'))"""
SILENT = """chat = {'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm'}
P.get_tracer('app').start_span('chat m', attributes=chat).end()"""


def on(rules: str = "answered()", more: str = "") -> str:
    return ON.format(rules=rules, more=more)


AGENTS = """import agents
agents.set_tracing_disabled(False)
otel_evals.configure(rules=[answered()])
agents.set_default_openai_api('chat_completions')
agents.Runner.run_sync(agents.Agent(name='support', model='stub'), 'Hello?')"""
ON_AGENTS = """import agents
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
OpenAIAgentsInstrumentor().instrument()"""

BROKEN: dict[str, Broken] = {
    "never configured": Broken(
        "run()", on(), "was not configured in the program", "otel_evals.configure(rules=[answered()])"
    ),
    "switched off": Broken(
        on(),
        on(),
        "OTEL_SDK_DISABLED=true disables",
        "unset OTEL_SDK_DISABLED",
        {"OTEL_SDK_DISABLED": "true"},
    ),
    "no rules": Broken(on(""), on("answered()"), "there is no rule", "rules=[answered()]"),
    "no rule samples": Broken(
        on("Rule(answered(), sample=sampling.never())"),
        on("Rule(answered(), sample=sampling.parse('ratio(0.1) | always()'))"),
        "no rule can sample any run: answered never()",
        "sample: ratio(0.1)",
    ),
    "`when` excludes all": Broken(
        on("{'scorer': 'answered', 'when': {'agent_name': 'nobody'}}"),
        on("{'scorer': 'answered'}"),
        "answered: its `when` excluded all of 1 run",
        "correct `when`, or leave it out",
    ),
    "no instrumentation": Broken(
        "P = provider()\notel_evals.configure(rules=[answered()], tracer_provider=P)\n"
        "P.get_tracer('http').start_span('GET /').end()",
        on(),
        "no spans of an agent or a model were seen in traces that a rule may sample, only of http",
        "turn on your framework's instrumentation",
    ),
    "an imported framework without instrumentation": Broken(
        AGENTS,
        AGENTS.replace("import agents", ON_AGENTS),
        "that a rule may sample; OpenAI Agents is imported, but not instrumented",
        "OpenAIAgentsInstrumentor; OpenAIAgentsInstrumentor().instrument()\n",
        {"OPENAI_BASE_URL": "OPEN/v1", "OPENAI_API_KEY": "k"},
        {"OPENAI_BASE_URL": "OPEN/v1", "OPENAI_API_KEY": "k"},
    ),
    "configure raises": Broken(
        on("'answerd'"),
        on("'answered'"),
        "did you mean 'answered'?",
        "configuration: rules[0].scorer",
    ),
    "an error before configure": Broken(
        "1 / 0", on(), "failed before otel-evals was configured, and exited with 1", "correct the error"
    ),
    "another provider": Broken(
        "P = provider()\ntrace.set_tracer_provider(provider())\n"
        "otel_evals.configure(rules=[answered()], tracer_provider=P)\nrun()",
        "trace.set_tracer_provider(provider())\notel_evals.configure(rules=[answered()])\nrun()",
        "the global tracer provider is not the one",
        "tracer_provider=the one that your agent's spans come from",
    ),
    "the agent has another provider": Broken(
        "P, Q = provider(), provider()\ntrace.set_tracer_provider(provider())\n"
        "otel_evals.configure(rules=[answered()], tracer_provider=Q)\n"  # as a cell that is run again
        "otel_evals.configure(rules=[answered()])\nrun(P.get_tracer('app'))",
        "P = provider()\ntrace.set_tracer_provider(provider())\n"
        "otel_evals.configure(rules=[answered()], tracer_provider=P)\nrun(P.get_tracer('app'))",
        "another tracer provider, which is not scored: InMemorySpanExporter, InMemorySpanExporter",
        "configure(tracer_provider=PROVIDER)",
    ),
    "head sampler": Broken(
        "P = provider(sampler=heads.ALWAYS_OFF)\n"
        "otel_evals.configure(rules=[answered()], tracer_provider=P)\nrun(P.get_tracer('app'))",
        "P = provider(sampler=heads.ParentBased(heads.ALWAYS_ON))\n"
        "otel_evals.configure(rules=[answered()], tracer_provider=P)\nrun(P.get_tracer('app'))",
        "its sampler records no trace: AlwaysOffSampler",
        "OTEL_TRACES_SAMPLER=parentbased_always_on",
    ),
    "content off": Broken(
        on().replace("run(P.get_tracer('app'))", SILENT),
        on(),
        "leaves content out",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
    ),
    "failing scorer": Broken(
        on("broken"), on(), "broken fails: 1 evaluation with AttributeError", "traceback"
    ),
    "timeout": Broken(
        on("Rule(slow, timeout=0.1)"),
        on("Rule(slow, timeout=30)"),
        "slow fails: 1 evaluation with timeout",
        "raise the rule's `timeout`",
    ),
    "endpoint": Broken(
        on(),
        on(),
        "OTEL_EXPORTER_OTLP_ENDPOINT: nothing answers at 127.0.0.1",
        "start the server, or correct OTEL_EXPORTER_OTLP_ENDPOINT",
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "CLOSED", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "RECEIVER"},
    ),
    "no key": Broken(
        on("judged()"),
        on("judged(api_key='k', api_base='OPEN/v1')"),
        "openai/stub has no API key",
        "export OPENAI_API_KEY=...",
    ),
    "wrong model": Broken(
        on("judged('nosuch/model')"),
        on("judged(api_key='k', api_base='OPEN/v1')"),
        "JudgeModelError",
        "correct `model`, as in openai/gpt-5-mini",
    ),
    "judge's server": Broken(
        on("Rule(judged(api_key='k', api_base='CLOSED/v1'), attempts=1)"),
        on("judged(api_key='k', api_base='OPEN/v1')"),
        "JudgeUnavailableError",
        "correct `api_base`, or start the judge's server",
    ),
}


def examined(program: str, environment: dict[str, str], addresses: dict[str, str]) -> tuple[int, str]:
    for name, address in addresses.items():
        program = program.replace(f"'{name}", f"'{address}")
        environment = {key: value.replace(name, address) for key, value in environment.items()}
    clean = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY") and not k.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "doctor", "--", "python", "-c", PROGRAM % program],
        env={**clean, "PYTHONPATH": PYTHONPATH, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, done.stdout + ("" if done.stdout else done.stderr)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_set_up_is_named_with_the_line_that_fixes_it(name: str) -> None:
    case = BROKEN[name]
    with socket.socket() as closed, StubOpenAI({"score": 1}) as stub, OtlpReceiver() as receiver:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nothing answers
        open_address = stub.url.rsplit("/v1", 1)[0]
        addresses = {"CLOSED": f"http://127.0.0.1:{closed.getsockname()[1]}", "OPEN": open_address}
        addresses["RECEIVER"] = receiver.endpoint
        code, text = examined(case.program, case.environment, addresses)
        assert case.says in text
        assert case.fix in text
        assert code == 1, text
        code, text = examined(case.mended, case.mended_environment, addresses)
        assert case.says not in text
        assert code == 0, text


def test_the_doctor_of_a_process_says_what_is_fine() -> None:
    provider = TracerProvider()
    otel_evals.configure(rules=[answered()], tracer_provider=provider, grace=0.02)
    agent_run(provider.get_tracer("app"))
    found = otel_evals.doctor()
    assert found.ok, str(found)
    assert "answered: 1 score" in str(found)
    assert json.dumps(found.as_json())


def test_without_a_configuration_the_doctor_says_how_to_begin() -> None:
    found = otel_evals.doctor()
    assert [(each.check, each.status) for each in found.findings] == [("configure", "problem")]


def test_the_mistakes_of_a_file_are_findings(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from otel_evals._internal.cli.app import app

    (path := tmp_path / "evals.yaml").write_text("rules: [answerd]\nholdd: 1\n")
    done = CliRunner().invoke(app, ["doctor", "--config", str(path)])
    assert done.exit_code == 1
    assert "did you mean 'answered'?" in done.output
    assert "did you mean 'hold'?" in done.output
    assert "2 problems" in done.output


SILENT_PROGRAM = """
import threading
%s
import otel_evals
from opentelemetry import trace
from otel_evals.scorers import answered
otel_evals.configure(rules=[answered()], no_traffic_after=%s)
"""
OTHER = "trace.get_tracer('http.server').start_span('GET /').end()\n"
WAIT = "[each.join() for each in threading.enumerate() if each.name == 'otel-evals-no-traffic']"


def logged(imports: str, after: float = 60, then: str = "") -> list[str]:
    """Run a program in a process with its own imports, and return the lines on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", SILENT_PROGRAM % (imports, after) + then],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()


@pytest.mark.slow
def test_an_idle_minute_is_one_warning_with_the_line_for_each_imported_framework() -> None:
    (line,) = logged("import agents, pydantic_ai", 0.1, WAIT)
    assert line.startswith("otel-evals saw no run in 0.1 s: no spans of an agent")
    assert "OpenAI Agents and pydantic-ai are imported, but not instrumented" in line
    assert "OpenAIAgentsInstrumentor().instrument() and pydantic_ai.Agent.instrument_all()" in line


@pytest.mark.slow
def test_a_program_that_ends_within_the_minute_is_warned_too() -> None:
    (line,) = logged("import openai")
    assert line.startswith("otel-evals saw no run before the process ended: no spans of an agent or a model")
    assert "were seen in traces that a rule may sample; the OpenAI client is imported, but not" in line
    assert "OpenAIInstrumentor().instrument()  # " in line
    assert line.endswith("pip install openinference-instrumentation-openai")


@pytest.mark.parametrize(
    "imports",
    ["", pytest.param("import pydantic_ai; pydantic_ai.Agent.instrument_all()", marks=pytest.mark.slow)],
)
def test_an_application_without_traffic_is_not_warned_about(imports: str) -> None:
    assert logged(imports, 0.1, WAIT) == []


@pytest.mark.slow
def test_spans_of_other_libraries_are_named() -> None:
    (line,) = logged("", then=OTHER)
    assert "sample, only of http.server" in line


@pytest.mark.slow
def test_a_run_that_goes_on_is_not_warned_about() -> None:
    begun = "run = trace.get_tracer('app').start_span('a', attributes={'gen_ai.operation.name': 'chat'})\n"
    assert logged("", 0.1, f"{begun}{OTHER}{WAIT}") == []
