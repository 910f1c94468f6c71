"""Sends export requests on to the next OTLP/HTTP endpoint, and reads its answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import aiohttp

from otel_evals.intake.receiver.answers import JSON, PROTOBUF, ExportAnswer, read_partial_success
from otel_evals.util.retry import retry_after

__all__ = ["Forwarder"]

_CONNECTIONS = 32
_AGAIN = 1.0
"""Seconds after which to send again where the next endpoint names no time."""
_MOST_ANSWER = 64 * 1024


class Forwarder:
    """A client of the next endpoint; to be used on one event loop.

    Args:
        url: its base URL.
        headers: sent with every request.
        seconds: that it may take to answer.
    """

    def __init__(self, url: str, headers: Mapping[str, str], seconds: float) -> None:
        self._url = url
        self._headers = dict(headers)
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, signal: str, body: bytes, content_type: str = PROTOBUF, encoding: str = ""
    ) -> ExportAnswer:
        """Send a body as it is; returns the endpoint's answer. Never raises."""
        headers = {**self._headers, "Content-Type": content_type}
        if encoding:
            headers["Content-Encoding"] = encoding
        try:
            async with self._opened().post(
                f"{self._url}/v1/{signal}", data=body, headers=headers
            ) as response:
                answer = await response.content.read(_MOST_ANSWER)
                return _read(signal, response.status, answer, response.content_type, response.headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            problem = f"the next endpoint cannot be reached: {type(error).__name__}"
            return ExportAnswer(503, problem, retry_after=_AGAIN)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS),
                timeout=aiohttp.ClientTimeout(total=self._seconds),
                auto_decompress=True,
                loop=asyncio.get_running_loop(),
            )
        return self._session


def _read(
    signal: str, status: int, body: bytes, content_type: str, headers: Mapping[str, str]
) -> ExportAnswer:
    if 200 <= status < 300:
        return _json_success(body) if content_type == JSON else read_partial_success(body, signal)
    again = status in (429, 502, 503, 504)
    wait = retry_after(headers) if again else None
    return ExportAnswer(
        status if status >= 400 else 502,
        f"the next endpoint answered {status}",
        retry_after=(wait if wait is not None else _AGAIN) if again else None,
    )


def _json_success(body: bytes) -> ExportAnswer:
    try:
        partial: Any = json.loads(body).get("partialSuccess") or {}
        rejected = sum(int(value) for key, value in partial.items() if key.startswith("rejected"))
        return ExportAnswer(rejected=rejected, message=str(partial.get("errorMessage") or ""))
    except (ValueError, TypeError, AttributeError):
        return ExportAnswer()
