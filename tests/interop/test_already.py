"""Each section about another SDK runs as it stands, with the real library, and so does the README's example.

`python -m tests.interop.test_already` writes what landed into the pages. test_setups.py runs them in either
order.
"""

from __future__ import annotations

import json
import re
import sys

import pytest

from otel_evals.model import SpanRecord
from tests.support.adopted_app import SECTIONS, section
from tests.support.setup_runs import CALLS, PAGES, SCORE, Received, run

VARIABLES = {
    "MLFLOW_USE_DEFAULT_TRACER_PROVIDER": "false",
    "OPTIONS": 'evaluation_spans="same_trace", ',
}


def run_page(page: str, *destinations: str) -> Received:
    environment = "here" if page == "README" else f"already-{page}"
    return run(environment, PAGES, page, "after", *destinations, variables=VARIABLES)


def landed(received: Received) -> str:
    """The first scored trace as it is at the receiver: its spans, their scores, and the events."""
    trace = received.scored[0].trace_id
    spans = [s for s in received.otlp.spans if s.trace_id == trace and s.scope_name != "otel_evals"]
    ids = {s.span_id for s in spans}
    lines: list[str] = []

    def tell(depth: int, of: list[SpanRecord]) -> None:
        for span in sorted(of, key=lambda s: s.start_time):
            lines.append("  " * depth + span.name)
            for key, value in sorted(span.attributes.items()):
                if key.startswith("otel_evals.score.") and not key.endswith(".evaluation_id"):
                    lines.append("  " * depth + f"    {key} = {value}")
            tell(depth + 1, [s for s in spans if s.parent_span_id == span.span_id])

    tell(0, [s for s in spans if s.parent_span_id not in ids])
    names = ("name", "score.value", "score.label")
    events = [log.attributes for log in received.logged if log.trace_id == trace]
    told = [" ".join(f"{n} = {e.get(f'gen_ai.evaluation.{n}')}" for n in names) for e in events]
    lines += [f"event gen_ai.evaluation.result: {each}" for each in sorted(told)]
    return "\n".join(lines) + "\n"


def shown(page: str) -> str:
    """The exported spans that the section shows."""
    return re.findall(r"```text\n(.+?)```", section(page), re.DOTALL)[0]


@pytest.mark.interop
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", sorted(SECTIONS))
def test_a_page_shows_what_lands(page: str) -> None:
    received = run_page(page)
    assert shown(page) == landed(received)
    assert len([s for s in received.otlp.spans if s.name == "evaluate answered"]) == CALLS
    assert "otel_evals.score" in received.metrics
    if page == "azure":
        sent = received.azure.of_type("RemoteDependency")
        assert len({s["trace_id"] for s in sent if SCORE in s["properties"]}) == CALLS


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_with_its_preset_azure_s_own_exporter_writes_scores_as_custom_events() -> None:
    received = run_page("azure", "azure")
    events = received.azure.of_type("Event")
    assert len({e["trace_id"] for e in events}) == CALLS
    for event in events:
        assert event["name"] == "gen_ai.evaluation.result"
        told = event["properties"]
        assert (told["gen_ai.evaluation.name"], told["gen_ai.evaluation.score.label"]) == (
            "answered",
            "answered",
        )
        assert float(told["gen_ai.evaluation.score.value"]) == 1.0
        assert told["gen_ai.agent.name"] == "support"
        assert json.loads(told["internal_properties"])["gen_ai.evaluator.name"] == "answered"
    assert not [m for m in received.azure.of_type("Message") if "gen_ai.evaluation.name" in m["properties"]]


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_with_its_preset_logfire_s_own_exporter_sends_what_logfire_groups_by() -> None:
    received = run_page("logfire", "logfire")
    events = received.logged
    assert len({event.trace_id for event in events}) == CALLS
    judged = {span.span_id for span in received.scored}
    for event in events:
        assert event.span_id in judged
        told = event.attributes
        assert told["gen_ai.evaluation.target"] == "support"
        assert told["gen_ai.evaluation.evaluator_version"] == told["otel_evals.scorer.version"]
        assert (told["gen_ai.evaluation.name"], told["gen_ai.evaluation.score.value"]) == ("answered", 1.0)


@pytest.mark.interop
@pytest.mark.timeout(300)
def test_the_readme_s_example_does_what_the_readme_says() -> None:
    received = run_page("README")
    polite = [s for s in received.otlp.spans if s.attributes.get("otel_evals.score.is_polite") == 0]
    assert len({s.trace_id for s in polite}) == CALLS
    assert len(received.events) == CALLS
    assert "otel_evals.score" in received.metrics
    assert received.printed.count("answered  It arrives on Monday.") == CALLS
    assert received.printed.count("● is_polite") == CALLS


def write() -> None:
    """Write into each page what landed."""
    for page in sys.argv[1:] or sorted(SECTIONS):
        path, old, new = SECTIONS[page][0], section(page), landed(run_page(page))
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(old, old.replace(shown(page), new)), encoding="utf-8")


if __name__ == "__main__":
    write()
