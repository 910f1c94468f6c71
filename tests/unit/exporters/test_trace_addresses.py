"""Where each backend shows a trace: told by the destination, or given as `trace_url`."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest

from otel_evals._internal.cli.backends import backends
from otel_evals._internal.config.plugins import build_destination
from otel_evals._internal.deliver.fanout import link_traces
from otel_evals.destinations import ConsoleDestination
from otel_evals.errors import ConfigError
from otel_evals_exporters.opik import opik_id
from tests.support.destinations import KEY, PROJECT_ID, destination
from tests.support.recording_server import RecordedRequest, Reply, recording_server
from tests.support.scored import SPAN, TRACE, scored_run

RUN_ID = "00000000-0000-0000-00f0-67aa0ba902b7"
ALWAYS = {
    "datadog": f"https://app.datadoghq.com/llm/traces?query=%40trace_id%3A{TRACE}",
    "langfuse": f"http://x/trace/{TRACE}",
    "mlflow": f"http://x/#/experiments/0/traces?selectedEvaluationId=tr-{TRACE}",
    "phoenix": f"http://x/redirects/traces/{TRACE}",
    "posthog": f"http://x/llm-analytics/traces/{TRACE}",
}


@pytest.mark.parametrize("name", sorted(ALWAYS))
def test_a_backend_whose_addresses_have_no_ids_of_its_own_tells_them(name: str) -> None:
    assert destination(name, "http://x").trace_url(TRACE, SPAN) == ALWAYS[name]


def test_posthog_shows_traces_beside_where_it_takes_them() -> None:
    place = destination("posthog", "https://eu.i.posthog.com")
    assert place.trace_url(TRACE, SPAN) == f"https://eu.posthog.com/llm-analytics/traces/{TRACE}"


def reply(request: RecordedRequest) -> Reply:
    sessions = [{"id": PROJECT_ID, "tenant_id": "t-1"}]
    return Reply(body=json.dumps(sessions if request.path.endswith("sessions") else {}).encode())


@pytest.mark.parametrize("name", ["langsmith", "opik"])
def test_what_was_learnt_while_sending_tells_the_address(name: str) -> None:
    scored = scored_run()
    with recording_server() as server:
        server.reply = reply
        place = destination(name, server.url)
        assert place.trace_url(TRACE, SPAN) is None

        async def send() -> None:
            assert [each.error for each in await place.export([scored])] == []
            await place.shutdown()

        anyio.run(send)
        address = place.trace_url(TRACE, SPAN)
    if name == "langsmith":
        assert address == f"{server.url}/o/t-1/projects/p/{PROJECT_ID}/r/{RUN_ID}"
        return
    asked = parse_qs(urlsplit(address).query)
    assert asked["trace_id"] == [str(opik_id(TRACE, (scored.run.start_time or 0) // 1_000_000))]
    assert base64.b64decode(asked["path"][0]).decode() == f"{server.url}/"


def test_langsmith_s_page_is_not_at_its_api() -> None:
    place = destination("langsmith", "https://eu.api.smith.langchain.com", workspace_id="w")
    place._session = PROJECT_ID  # as looked up there
    address = place.trace_url(TRACE, SPAN)
    assert address == f"https://eu.smith.langchain.com/o/w/projects/p/{PROJECT_ID}/r/{RUN_ID}"


@pytest.mark.parametrize("name", sorted(backends()))
def test_every_destination_takes_an_address_instead(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in backends()[name].needs:
        monkeypatch.setenv(variable, "http://x" if variable.endswith(("URI", "ENDPOINT", "_URL")) else KEY)
    place = build_destination(name, {"trace_url": "https://x/{trace_id}?at={span_id}"}, "destinations[0]")
    assert place.trace_url(TRACE, SPAN) == f"https://x/{TRACE}?at={SPAN}"  # type: ignore[attr-defined]
    console = ConsoleDestination()
    link_traces([place, console])
    assert any(f"https://x/{TRACE}" in text for line in console._lines(scored_run()) for text, _ in line)


@pytest.mark.parametrize("wrong", ["https://x/trace", "x/{trace_id}", "https://x/{trace_id}/{org}", 7])
def test_an_address_that_is_none_is_named(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"^destinations\[0\]\.logfire\.trace_url: .* not an http address"):
        build_destination("logfire", {"trace_url": wrong}, "destinations[0]")


def test_a_destination_of_another_kind_takes_none() -> None:
    with pytest.raises(ConfigError, match="trace_url"):
        build_destination("jsonl", {"path": "x", "trace_url": "https://x/{trace_id}"}, "destinations[0]")
