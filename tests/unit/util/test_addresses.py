"""What of an address may be told, and what may not."""

from __future__ import annotations

import pytest

from otel_evals._internal.util.credentials import secrets_of_address, without_credentials

ADDRESSES = [
    "https://user:geheim%201@host.example:8443/in/here?token=hidden12&x=y#part",
    "redis://:geheim%201@host.example",
    "https://host.example/in?sig=geheim%201",
    "http://[::1",
    "",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_shown_of_an_address_holds_none_of_its_secrets(address: str) -> None:
    shown = without_credentials(address)
    assert "geheim" not in shown
    assert "hidden12" not in shown
    assert not address.startswith("https://") or shown.startswith("https://host.example")


def test_secrets_are_known_as_they_stand_and_decoded() -> None:
    assert {"geheim%201", "geheim 1", "user", "hidden12"} <= set(secrets_of_address(ADDRESSES[0]))
    assert "geheim%201" in set(secrets_of_address(ADDRESSES[2]))


@pytest.mark.parametrize("address", [None, "", "http://[::1", "https://host.example/in"])
def test_an_address_without_secrets_has_none(address: str | None) -> None:
    assert not {each for each in secrets_of_address(address) if each}
