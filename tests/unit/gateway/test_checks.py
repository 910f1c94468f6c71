"""Configurations of the gateway that cannot work are refused with the reason and the fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otel_evals import Rule
from otel_evals._internal.config.loader import build_config
from otel_evals.errors import ConfigError
from otel_evals.scorers import answered
from otel_evals_gateway._internal.configuration import check
from otel_evals_gateway._internal.options import quiet_seconds
from tests.support.certificates import certificates, needs_openssl


def config(options: dict[str, Any] | None = None, **section: Any) -> Any:
    return build_config([Rule(answered())], [], gateway=section, **(options or {}))


INLINE = {"mode": "inline", "forward": "http://127.0.0.1:5318"}


def test_spans_held_for_less_than_a_trace_takes_to_complete_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"gateway\.quiet.*held for 5 s only"):
        check(config(**INLINE, quiet=5.0))
    check(config(**INLINE, quiet=4.9))
    check(config({"span_attributes": False}, **INLINE, quiet=5.0))


def test_the_default_quiet_leaves_time_for_scores(tmp_path: Path) -> None:
    assert quiet_seconds(config()) == 5.0
    assert quiet_seconds(config(**INLINE)) == 1.0
    assert quiet_seconds(config({"journal": tmp_path / "journal"}, **INLINE)) == 2.0


@pytest.mark.parametrize("address", ["127.0.0.1:4318", "localhost:4318", "0.0.0.0:4318"])
def test_forwarding_to_itself_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="is the gateway itself"):
        check(config(mode="inline", forward="http://127.0.0.1:4318", http=address))


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"forward": "http://127.0.0.1:99999"}, "forward: port out of range"),
        ({"forward": "http://me:secret@127.0.0.1:5318"}, "forward: .* without user"),
        ({"forward": "http://127.0.0.1:5318?a=b"}, "forward: .* without user, query"),
        ({"forward": "http://127.0.0.1:5318/v1/traces"}, "forward: .* and /v1/traces"),
        ({"forward_headers": {"a": "secret\n"}}, "forward_headers: has a value with a line break"),
        ({"http": "http://127.0.0.1:4318"}, "http: must be HOST:PORT"),
    ],
)
def test_an_address_or_header_that_cannot_be_used_is_refused(section: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        check(config(**{**INLINE, **section}))
    assert "secret" not in str(refused.value)


def test_times_may_have_units() -> None:
    assert quiet_seconds(config(quiet="200ms")) == 0.2


@needs_openssl
@pytest.mark.parametrize("missing", ["certificate", "key", "client_ca"])
def test_a_missing_tls_file_is_named(tmp_path: Path, missing: str) -> None:
    certificate, key = certificates(tmp_path)
    files = {"certificate": certificate, "key": key, missing: tmp_path / "nowhere.pem"}
    with pytest.raises(ConfigError, match=rf"gateway\.tls\.{missing}: .*nowhere\.pem"):
        check(config(tls={name: str(path) for name, path in files.items()}))


@needs_openssl
def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    certificate, _ = certificates(tmp_path)
    _, other = certificates(tmp_path, "other")
    with pytest.raises(ConfigError, match=r"^gateway\.tls: .*cannot be used: .*MISMATCH"):
        check(config(tls={"certificate": str(certificate), "key": str(other)}))


def test_conversations_that_a_group_would_cut_up_are_refused() -> None:
    rule = Rule(answered(), scope="conversation")
    with pytest.raises(ConfigError, match=r"rules: .* `gateway\.kafka`: .* a part of a conversation; fix: "):
        check(build_config([rule], [], gateway={"kafka": KAFKA}))


def test_a_journal_beside_kafka_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"journal: cannot be combined with `gateway\.kafka`, .*; fix: "):
        check(config({"journal": tmp_path / "journal"}, kafka=KAFKA))


KAFKA = {"brokers": ["127.0.0.1:9092"]}


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"kafak": KAFKA}, r"gateway\.kafak: unknown option; did you mean 'kafka'\?"),
        (
            {"kafka": {**KAFKA, "topcs": {}}},
            r"gateway\.kafka\.topcs: unknown option; did you mean 'topics'\?",
        ),
        ({"kafka": {**KAFKA, "topics": {"trace": "a"}}}, r"topics\.trace: .*did you mean 'traces'\?"),
        ({"kafka": {**KAFKA, "properties": {"no.such": "1"}, "group": ""}}, r"gateway\.kafka\.group"),
        ({"kafka": {**KAFKA, "topics": {"traces": None}}}, r"gateway\.kafka\.topics: must name a topic"),
        ({"kafka": {**KAFKA, "dead_letters": "otlp_spans"}}, r"gateway\.kafka\.topics: must differ"),
    ],
)
def test_options_of_nested_sections_are_checked_with_their_own_names(section: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check(config(**section))
