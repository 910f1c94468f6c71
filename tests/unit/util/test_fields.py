"""Users' dataclasses and msgspec structs become the same plain values, wherever values are made plain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from otel_evals._internal.redaction.redactor import redacted
from otel_evals._internal.scorers.kit.fingerprint import fingerprint
from otel_evals._internal.util.plain import as_text, field_values, plain_value
from otel_evals.destinations import plain
from otel_evals_instrumentation._internal.decorators.serialization import attribute_value


@dataclass
class AsDataclass:
    name: str
    more: Any = None


class AsStruct(msgspec.Struct):
    name: str
    more: Any = None


KINDS = pytest.mark.parametrize("kind", [AsDataclass, AsStruct])


@KINDS
def test_the_fields_of_an_instance_are_told(kind: Callable[..., Any]) -> None:
    assert field_values(kind("a", [1])) == {"name": "a", "more": [1]}
    assert field_values(kind) is None
    assert field_values({"name": "a"}) is None


@KINDS
@pytest.mark.parametrize("make", [plain, plain_value])
def test_it_becomes_its_fields_at_any_depth(kind: Callable[..., Any], make: Callable[[Any], Any]) -> None:
    expected = {"name": "a", "more": [{"name": "b", "more": None}]}
    assert make(kind("a", [kind("b")])) == expected


@KINDS
def test_a_decorated_functions_result_is_its_json(kind: Callable[..., Any]) -> None:
    assert attribute_value(kind("a", {"b": 1})) == '{"name": "a", "more": {"b": 1}}'


@KINDS
def test_secrets_in_it_are_redacted_and_the_original_stays(kind: Callable[..., Any]) -> None:
    secret = "sk-proj-" + "a1B2" * 12
    original = kind("key " + secret, (kind(secret),))
    safe = redacted(original)
    assert type(safe) is type(original)
    assert secret not in as_text(plain_value(safe))
    assert secret in original.name


@KINDS
def test_a_captured_one_is_part_of_a_scorers_fingerprint(kind: Callable[..., Any]) -> None:
    assert fingerprint(kind("a")) == fingerprint(kind("a"))
    assert fingerprint(kind("a")) != fingerprint(kind("b"))
