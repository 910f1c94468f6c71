"""Sends export requests to the next OTLP/HTTP endpoint, and reads its answers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from io import BytesIO

import aiohttp

from otel_evals.sdk.util import retry_after
from otel_evals_gateway._internal.receiver.answers import PROTOBUF, ExportAnswer, read_partial_success

_logger = logging.getLogger(__name__)
_CONNECTIONS = 32
_AGAIN = (429, 502, 503, 504)
_AGAIN_SECONDS = 1.0
"""Seconds after which to send again if the next endpoint names no time."""
_IN_ONE_GO = 2**20
"""Bytes of a body above which aiohttp wants to stream it."""
_MOST_ANSWER = 64 * 1024


class Forwarder:
    """A client of the next endpoint on one event loop, with a timeout of `seconds`."""

    def __init__(self, url: str, headers: Mapping[str, str], seconds: float) -> None:
        self._url = url
        self.problem: str | None = None
        """Why the endpoint cannot be reached, and what senders get; None if it can."""
        self._headers = dict(headers)
        self._seconds = seconds

    async def send(
        self, signal: str, body: bytes, content_type: str = PROTOBUF, encoding: str = ""
    ) -> ExportAnswer:
        """Send a body unchanged; return the endpoint's answer. Never raises."""
        headers = {**self._headers, "Content-Type": content_type}
        if encoding:
            headers["Content-Encoding"] = encoding
        try:
            # A large body as bytes would block the loop while it is copied.
            data = BytesIO(body) if len(body) > _IN_ONE_GO else body
            # A redirect could carry headers elsewhere, and most turn the request into one without a body.
            async with self._session.post(
                f"{self._url}/v1/{signal}", data=data, headers=headers, allow_redirects=False
            ) as response:
                if _is_elsewhere(response):
                    return self._not_reached(f"it answers {response.status}, but not as OTLP does")
                answer = await response.content.read(_MOST_ANSWER)
                self._reached()
                return self._read(signal, response, answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return self._not_reached(type(error).__name__)

    async def look(self) -> None:
        """Find out if an endpoint that could not be reached can be, by a request without spans."""
        if self.problem is not None:
            await self.send("traces", b"")

    def _reached(self) -> None:
        if self.problem is not None:
            self.problem = None
            _logger.warning("forward: %s can be reached again", self._url)

    def _not_reached(self, why: str) -> ExportAnswer:
        if self.problem is None:
            self.problem = f"{self._url} cannot be reached ({why}): senders get status 503 and send again"
            _logger.error("forward: %s", self.problem)
        problem = f"the next endpoint cannot be reached: {why}"
        return ExportAnswer(503, problem, retry_after=_AGAIN_SECONDS)

    def _read(self, signal: str, response: aiohttp.ClientResponse, body: bytes) -> ExportAnswer:
        status = response.status
        if 200 <= status < 300:
            return read_partial_success(body, signal, response.content_type)
        wait = retry_after(response.headers)
        problem = f"the next endpoint answered {status}"
        # Only these statuses allow the sender to repeat; others are final, as OTLP says.
        again = None if status not in _AGAIN else _AGAIN_SECONDS if wait is None else wait
        return ExportAnswer(status, problem, retry_after=again)

    async def close(self) -> None:
        await self._session.close()

    @cached_property
    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=self._seconds),
        )


def _is_elsewhere(response: aiohttp.ClientResponse) -> bool:
    """Return True for a redirect, or a success with a web page: no OTLP endpoint took the request."""
    return 300 <= response.status < 400 or (response.ok and "html" in response.content_type)
