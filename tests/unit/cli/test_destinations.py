"""`otel-evals destinations list`, and `destinations test` against a server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from otel_evals._internal.cli.app import app
from otel_evals._internal.cli.backends import backend, backend_of_demo, backends, send_spans_to
from otel_evals._internal.config.plugins import build_destination
from otel_evals.errors import ConfigError
from tests.support.destinations import BY_NAME, KEY
from tests.support.recording_server import RecordedRequest, RecordingServer, Reply, recording_server

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
KEYS = {
    "ARIZE_API_KEY": KEY,
    "ARIZE_PROJECT_ID": "p1",
    "BRAINTRUST_API_KEY": KEY,
    "BRAINTRUST_PARENT": "project_name:p",
    "DD_API_KEY": KEY,
    "DT_API_TOKEN": KEY,
    "LANGFUSE_PUBLIC_KEY": "pk",
    "LANGFUSE_SECRET_KEY": KEY,
    "LANGSMITH_API_KEY": KEY,
    "OPIK_API_KEY": KEY,
    "POSTHOG_API_KEY": KEY,
    "WANDB_API_KEY": KEY,
    "WANDB_ENTITY": "e",
    "WANDB_PROJECT": "p",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingServer]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    with recording_server() as server:
        yield server


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def try_out(name: str, server: RecordingServer, *more: str) -> Result:
    return run("destinations", "test", f"{name}={server.url}", "--trace", TRACE, "--span", SPAN, *more)


def test_the_list_has_every_backend_with_its_kind_and_needs() -> None:
    listed = json.loads(run("destinations", "list", "--json").stdout)
    kinds = {each["name"]: each["kind"] for each in listed}
    api = ("phoenix", "langfuse", "mlflow", "datadog", "langsmith", "opik", "arize", "dynatrace", "weave")
    otel = ("azure", "logfire", "braintrust", "posthog")
    local = ("console", "jsonl", "kafka", "memory", "results")
    assert kinds == {
        **dict.fromkeys(api, "api"),
        **dict.fromkeys(otel, "otel"),
        **dict.fromkeys(local, "local"),
    }
    assert all(bool(each["needs"]) == (each["kind"] != "local") for each in listed)
    assert next(each for each in listed if each["name"] == "datadog")["needs"] == ["DD_API_KEY"]


def test_a_marked_score_is_sent_and_read_back(server: RecordingServer) -> None:
    def reply(request: RecordedRequest) -> Reply:
        if request.method == "GET":
            return Reply(body=json.dumps({"name": "otel_evals_test", "value": 1}).encode())
        return Reply(status=202)

    server.reply = reply
    done = try_out("langfuse", server)
    assert done.exit_code == 0, done.output
    assert 'Read back: {"name": "otel_evals_test", "value": 1}' in done.stdout
    number, label = (request.body for request in server.requests[:2])
    assert (number["name"], number["value"], number["traceId"]) == ("otel_evals_test", 1.0, TRACE)
    assert label["value"] == "test"
    assert server.requests[2].path.endswith(number["id"])


def test_phoenix_is_asked_until_it_has_attached_the_score(server: RecordingServer) -> None:
    """It has annotations of others there, and none of ours at first."""

    def reply(request: RecordedRequest) -> Reply:
        if request.path == "/v1/projects":
            return Reply(body=b'{"data": [{"id": "empty"}, {"id": "shop"}], "next_cursor": null}')
        if request.method == "POST":
            return Reply(body=b'{"data": []}')
        if request.path.startswith("/v1/projects/empty/"):
            return Reply(404)
        assert request.query["span_ids"] == [SPAN]
        other = {"span_id": SPAN, "name": "otel_evals_test", "identifier": "by hand"}
        ours = [a for r in server.requests if r.path == "/v1/span_annotations" for a in r.body["data"]]
        asked = [r for r in server.requests if r.path == request.path]
        return Reply(body=json.dumps({"data": [other, *(ours if len(asked) > 1 else ())]}).encode())

    server.reply = reply
    done = try_out("phoenix", server)
    assert done.exit_code == 0, done.output
    assert '"identifier": "otel_evals_test@1"' in done.stdout.partition("Read back: ")[2]


def test_a_destination_without_a_way_to_read_says_so(server: RecordingServer) -> None:
    done = try_out("datadog", server)
    assert done.exit_code == 0
    assert "look for otel_evals_test" in done.stdout


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_what_to_check_is_told_after_a_refusal(name: str, server: RecordingServer) -> None:
    server.reply = lambda request: Reply(403, str(request.headers).encode())
    done = try_out(name, server)
    assert (done.exit_code, KEY in done.output) == (1, False)
    assert "not accepted (unauthorized)" in done.stdout
    assert all(variable in done.stdout.splitlines()[-1] for variable in backends()[name].needs)
    server.reply = lambda request: Reply(302, headers={"Location": "https://elsewhere.example.com"})
    assert f"option url, or {name}=URL" in try_out(name, server).stdout


def test_a_trace_that_is_not_there_is_waited_for_and_named(server: RecordingServer) -> None:
    server.reply = lambda request: Reply(404)
    done = try_out("mlflow", server, "--wait", "3")
    assert done.exit_code == 1
    assert "not accepted (trace_not_found)" in done.stdout
    assert len(server.requests) > 1


def test_a_span_is_sent_first_and_scored(server: RecordingServer) -> None:
    done = run("destinations", "test", f"datadog={server.url}")
    assert done.exit_code == 0, done.output
    assert "Sent a span" in done.stdout
    spans, scores = server.requests
    assert spans.path == "/v1/traces"
    assert (spans.headers["dd-api-key"], scores.headers["dd-api-key"]) == (KEY, KEY)
    (first, _) = scores.body["data"]["attributes"]["metrics"]
    assert bytes.fromhex(f"{int(first['join_on']['span']['span_id']):016x}") in spans.raw


def test_a_span_that_was_refused_is_not_called_sent(server: RecordingServer) -> None:
    server.reply = lambda request: Reply(403)
    done = run("destinations", "test", f"datadog={server.url}")
    assert done.exit_code == 1
    assert f"{server.url}/v1/traces did not take a span" in done.stdout


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DD_API_KEY", raising=False)
    done = run("destinations", "test", "datadog")
    assert (done.exit_code, done.stderr) == (
        2,
        "destinations test datadog.api_key: is missing: give it, or set DD_API_KEY\n",
    )


def test_a_key_that_is_no_text_is_told_without_it() -> None:
    with pytest.raises(ConfigError, match=r"api_key: must be text, not int: put it in quotes") as found:
        build_destination("datadog", {"api_key": 1234567890}, "destinations[0]")
    assert "1234567890" not in str(found.value)


def test_an_unknown_name_is_told_what_there_is() -> None:
    told = run("destinations", "test", "langfus").stderr
    assert told == "destinations test langfus: there is no destination 'langfus'; did you mean 'langfuse'?\n"


def test_trace_and_span_go_together() -> None:
    assert run("destinations", "test", "datadog", "--trace", TRACE).exit_code == 2


def test_a_preset_has_nothing_to_send() -> None:
    assert "reads evaluation events" in run("destinations", "test", "azure").stdout


@pytest.mark.parametrize("name", sorted(backends()))
def test_the_demo_says_what_a_backend_lacks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*KEYS, *(needed for each in backends().values() for needed in each.needs)):
        monkeypatch.delenv(variable, raising=False)
    if name == "phoenix":  # it has a usual address, and needs no key
        assert backend_of_demo(name).name == name
        return
    with pytest.raises(ConfigError, match=rf"^--to {name}") as found:
        backend_of_demo(name)
    assert any(variable in str(found.value) for variable in backends()[name].needs)
    done = run("demo", "--to", name)
    assert (done.exit_code, "Traceback" in done.output) == (2, False)


def test_the_demo_says_that_azure_takes_nothing_by_otlp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPLICATIONINSIGHTS_CONNECTION_STRING", "InstrumentationKey=x")
    with pytest.raises(ConfigError, match="--to azure=http://localhost:4318"):
        backend_of_demo("azure")
    assert backend_of_demo("console").name == "console", "a local destination needs no address"
    assert backend_of_demo("azure=http://localhost:4318").spans_to() == ("http://localhost:4318", {})


@pytest.mark.parametrize("name", sorted(backends()))
def test_every_backend_is_named_with_its_address(name: str, server: RecordingServer) -> None:
    """As `demo --to NAME=URL` does; its spans go to the same server."""
    variables = send_spans_to(backend(f"{name}={server.url}", "--to"))
    address = next(value for key, value in variables.items() if key.endswith("ENDPOINT"))
    assert address.startswith(server.url)
