"""The hook's functions: what is taken for personal data, how values are walked, and that time is linear."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.redaction.personal_data import redact_pii
from otel_evals._internal.redaction.redactor import Redaction, redact, redacted, use_redaction
from otel_evals._internal.redaction.secrets import redact_secrets
from otel_evals.destinations import run_record
from otel_evals.model import Media, ScoredRun, ToolCall
from tests.support.runs import a_run
from tests.support.scored import scored_run


@pytest.fixture(autouse=True)
def _default() -> Iterator[None]:
    yield
    use_redaction(Redaction())


@pytest.mark.parametrize(
    "personal",
    [
        "ada@example.org",
        "ada.lovelace+orders@mail.example.co.uk",
        "+44 20 7946 0958",
        "+1 (415) 555-0132",
        "+4915112345678",
        "4111 1111 1111 1111",
        "4111-1111-1111-1111",
        "378282246310005",
        "DE89 3704 0044 0532 0130 00",
        "GB82WEST12345698765432",
        "CH9300762011623852957",
    ],
)
def test_personal_data_of_a_known_form_is_taken_out(personal: str) -> None:
    for text in (f"It is {personal}.", f'{{"to": "{personal}"}}', f"({personal})", personal):
        assert redact_pii(text) == text.replace(personal, "[redacted]"), text


@pytest.mark.parametrize(
    "text",
    [
        "Order 123456789012 arrives on 2026-11-25 at 10:00.",
        "4111 1111 1111 1112 is no card",
        "DE00 3704 0044 0532 0130 00 is no account",
        "3.14159265358979 and 1e-10, v1.2.3+build5",
        "a @ b, @handle, name@localhost",
        "trace 0af7651916cd43dd8448eb211c80319c",
    ],
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert redact_pii(text) == text


@pytest.mark.parametrize(
    "unit",
    [
        "a.",
        "+1",
        "+123456789012345678901234a",
        "1 ",
        "12-34 ",
        "DE89A1 ",
        "GB82WEST1234567890A_",
        "x@y.",
        "@",
        "9",
    ],
)
def test_it_takes_time_linear_in_the_text(unit: str) -> None:
    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        began = time.process_time()
        redact_pii(text)
        return time.process_time() - began

    seconds(1_000)
    assert seconds(400_000) < 20 * max(0.02, seconds(50_000))


def test_ids_stay_and_what_has_no_secret_is_not_copied() -> None:
    run = scored_run()
    assert redacted(run).evaluations is run.evaluations
    assert redacted(run).run.tool_calls is run.run.tool_calls
    use_redaction(Redaction((lambda text: text.upper(),)))
    loud = redacted(run)
    assert loud.run.output == (run.run.output or "").upper()
    assert (loud.run.trace_id, loud.run.root_span_id) == (run.run.trace_id, run.run.root_span_id)
    assert [e.evaluation_id for e in loud.evaluations] == [e.evaluation_id for e in run.evaluations]


def test_of_a_run_only_what_is_asked_for_is_looked_at() -> None:
    seen: list[str] = []
    use_redaction(Redaction((lambda text: seen.append(text) or text.upper(),)))  # type: ignore[func-returns-value]
    given = scored_run().run
    run = redacted(given)
    assert seen == []
    assert run.output == (given.output or "").upper()
    assert seen == [given.output]
    use_redaction(Redaction())
    assert run.agent_name == (given.agent_name or "").upper(), "what held when it was handed out"
    assert run != given
    assert redacted(given) == given
    assert pickle.loads(pickle.dumps(redacted(given))) == given


def test_a_text_in_several_fields_of_a_run_is_looked_at_once() -> None:
    seen: list[str] = []

    def look(text: str) -> str:
        seen.append(text)
        return text

    use_redaction(Redaction((look,)))
    run = redacted(a_run(output="Order 7 ships on Friday."))
    assert run.output_messages[0].text == run.output
    assert seen.count("Order 7 ships on Friday.") == 1


SAID = ["user", "password: hunter2x", "the key is", "sk-" + "a1B2" * 10, "x " * 300, "token", "= 'a1B2c3D4'"]


@given(st.lists(st.sampled_from(SAID), min_size=1, max_size=5), st.booleans())
def test_a_record_of_a_redacted_run_has_its_redacted_texts(texts: list[str], own: bool) -> None:
    """However few searches find out that most texts have no secret."""
    use_redaction(Redaction((redact_secrets,) if own else (lambda text: text.upper(),)))
    calls = tuple(
        ToolCall(name=text, arguments={"q": text, "span_id": text}, result=[text]) for text in texts
    )
    run = a_run(output=texts[0], tools=calls)
    record = run_record(redacted(ScoredRun(run=run, evaluations=())))
    assert record["output"] == redact(texts[0])
    assert [call["name"] for call in record["tool_calls"]] == [*map(redact, texts)]
    assert [call["result"] for call in record["tool_calls"]] == [[redact(text)] for text in texts]
    assert [call["arguments"] for call in record["tool_calls"]] == [
        {redact("q"): redact(text), redact("span_id"): redact(text)} for text in texts
    ]
    assert record["content"] == run.content


def test_values_that_have_no_end_are_cut_off_and_others_left_alone() -> None:
    deep: list[object] = ["sk-" + "a1B2" * 10]
    for _ in range(500):
        deep = [deep]
    assert "a1B2" not in repr(redacted(deep))
    odd = object()
    assert redacted({"a": (1, odd, None, b"x")}) == {"a": (1, odd, None, b"x")}
    assert redacted("x") == redact("x") == "x"


def test_a_function_that_fails_leaves_nothing_of_the_text_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def raises(text: str) -> str:
        raise KeyError("model")

    use_redaction(Redaction((raises,)))
    assert [redact("one"), redact("two")] == ["[redaction failed]"] * 2
    use_redaction(Redaction((lambda text: None,)))  # type: ignore[arg-type,return-value]  # on purpose
    assert redact("three") == "[redaction failed]"
    assert len([r for r in caplog.records if "could not be redacted" in r.message]) == 2


def test_names_of_images_are_redacted_and_bytes_are_not_read() -> None:
    read: list[str] = []

    def note(text: str) -> str:
        read.append(text)
        return text.replace("Ann", "[name]")

    use_redaction(Redaction((note,)))
    media = Media(kind="image", name="Ann.png", digest="sha256:ab", base64="AnnA")
    assert redacted(media) == Media(kind="image", name="[name].png", digest="sha256:ab", base64="AnnA")
    assert "AnnA" not in read


SECRETS = {
    "password": "hunter2x7Q",
    "api_key": "a1B2c3D4e5F6g7H8i9J0k1L2",
    "Authorization": "Digest a1B2c3D4e5F6",
    "cookie": "session=a1B2c3D4e5F6",
    "client-secret": "correct horse",
    "rule": "sk-" + "a1B2" * 10,
    "links": "ghp_" + "a1B2" * 10,
    "digest": "postgresql://me:hunter2x7Q@host/db",
    "children": "password: hunter2x7Q",
    "span_id": "xoxb-1234567890-abcdefghij",
    "pin_token": 1234567890,
}


@pytest.mark.parametrize("key", SECRETS)
def test_a_secret_has_one_fate_as_text_as_json_and_in_a_structure(key: str) -> None:
    """Keys of content that are called like fields of ours protect nothing."""
    secret = SECRETS[key]
    text = json.dumps({"id": 7, key: secret})
    assert str(secret) not in redact(text)
    structures: list[Any] = [
        {key: secret},
        {"deep": [{key: secret}]},
        {key: [secret]},
        {key: {"type": "string", "value": secret}},
        [{"name": key, "value": secret}],
        {"Key": key, "Type": "x", "Value": secret},
        {"value": secret, "type": "x", "name": key},
        [{"key": key, "value": {"stringValue": secret}}],
        {"value": {"stringValue": secret}, "key": key},
        {"key": key, "value": {"arrayValue": {"values": [{"stringValue": secret}]}}},
    ]
    for structure in structures:
        text = json.dumps(structure)
        for quoted in (text, json.dumps({"r": text}), json.dumps([json.dumps({"r": text})])):
            assert str(secret) not in redact(quoted), quoted
        call = ToolCall(name="t", arguments=structure, result=structure, status="ok")
        scored = ScoredRun(run=a_run(tools=(call,)), evaluations=())
        (recorded,) = run_record(redacted(scored))["tool_calls"]
        (read,) = redacted(scored).run.tool_calls
        for told in (
            redacted(structure),
            recorded["arguments"],
            recorded["result"],
            read.arguments,
            read.result,
        ):
            assert str(secret) not in json.dumps(told), told
            assert key in json.dumps(told)
    assert redacted({"id": 7, "colour": "a1B2c3D4e5F6g7H8i9J0k1L2"})["colour"] != "[redacted]"


@pytest.mark.parametrize(
    ("name", "secret"),
    [("x-api-key", SECRETS["api_key"]), ("Password", "hunter2-Blue"), ("cookie", SECRETS["cookie"])],
)
def test_a_secret_goes_that_stands_after_its_name_in_a_list(name: str, secret: str) -> None:
    pairs = {"headers": [[name, secret], ["accept", "text"]], "required": ["password", "username"]}
    call = ToolCall(name="t", arguments=pairs, result=[(name, secret)], status="ok")
    (recorded,) = run_record(redacted(ScoredRun(run=a_run(tools=(call,)), evaluations=())))["tool_calls"]
    gone = {**pairs, "headers": [[name, "[redacted]"], ["accept", "text"]]}
    assert (recorded["arguments"], recorded["result"]) == (gone, [[name, "[redacted]"]])
    text = json.dumps(pairs)
    for quoted in (text, json.dumps({"r": text})):
        assert secret not in redact(quoted)
        assert "username" in redact(quoted)


def test_a_secret_that_is_a_key_is_redacted_and_no_entry_is_lost() -> None:
    keys = ["sk-" + letter * 30 for letter in "ab"]
    assert redacted({keys[0]: 1, keys[1]: 2, "x": 3}) == {"[redacted]": 1, "[redacted]_": 2, "x": 3}
