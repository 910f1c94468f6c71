"""Replaces personal data that has a form: addresses of email, telephone numbers, payment cards and IBANs."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

from otel_evals._internal.redaction.secrets import replaced, search
from otel_evals._internal.util.installed import extra

# Possessive where parts could be divided in several ways: no text takes more than its length.
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}")
_NUMBER = re.compile(r"(?<![\w.])\d(?:[ -]?\d){11,18}(?![\w.]\d)")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{1,4}+){3,9}+(?![A-Za-z0-9])")
_PHONE = re.compile(r"(?<![\w+])\+\d{1,3}(?:[ ./-]{0,2}+(?:\(\d{1,4}\)|\d{1,4}+)){2,6}+(?!\w)")


def redact_pii(text: str) -> str:
    """Replace email addresses, telephone numbers with a country code, payment cards and IBANs.

    Cards and IBANs are checked by their digits. Names and postal addresses have no form: write a function
    of your own for those.

    Raises:
        ConfigError: python-stdnum is not installed.
    """
    spans: list[tuple[int, int]] = []
    for pattern, check in (
        (_EMAIL, None),
        (_PHONE, None),
        (_NUMBER, _checker("luhn")),
        (_IBAN, _checker("iban")),
    ):
        spans += [
            match.span()
            for match, _, _ in search(pattern, text)
            if check is None or check.is_valid(re.sub("[ -]", "", match[0]))
        ]
    return replaced(text, spans)


@cache
def _checker(name: str) -> Any:
    with extra("text", "redact"):
        return import_module(f"stdnum.{name}")
