"""Sends recorded traffic to an OTLP/HTTP endpoint."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.gateways import post

__all__ = ["send_recording"]


def send_recording(path: Path, url: str) -> None:
    """Post every export request of a file of OTLP/JSON; each must be accepted."""
    for request in _requests_of(path):
        status, answer, _ = post(url, request, "application/json")
        assert status == 200, answer


def _requests_of(path: Path) -> list[bytes]:
    """The export requests of a file: one text, or one per line."""
    text = path.read_text()
    try:
        json.loads(text)
        return [text.encode()]
    except ValueError:
        return [line.encode() for line in text.splitlines() if line.strip()]
