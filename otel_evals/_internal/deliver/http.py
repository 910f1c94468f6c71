"""The HTTP client of destinations: bounded in time and size, and silent about keys."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from otel_evals._internal.util.credentials import secrets_of_address, without_credentials
from otel_evals._internal.util.installed import install_hint
from otel_evals._internal.util.options import call_with
from otel_evals._internal.util.plain import read_json
from otel_evals._internal.util.retry import retry_after
from otel_evals.errors import ConfigError, DestinationError

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 4 * 1024 * 1024
"""Size limit of an answer by default."""
_LARGE_TIMES = 6
"""Timeout of a large answer, in timeouts."""
_SHOWN = 200
_CODINGS = ("identity", "gzip", "deflate")
"""Only one of them: nested ones expand a few bytes without bound before they can be counted."""
_KEPT = 64 * 1024
_SHORTEST_SECRET = 6
_REASONS = {401: "unauthorized", 403: "unauthorized", 404: "not_found", 409: "conflict", 413: "too_large"}
_MAY_PASS = {408: "unavailable", 425: "unavailable", 429: "rate_limited"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Options of a destination's HTTP requests.

    Proxies (`HTTPS_PROXY`, `NO_PROXY`, ...) and certificates (`SSL_CERT_FILE`) of the environment apply too.

    Raises:
        ConfigError: the timeout is not positive, or `ca_file` is not there.
    """

    timeout: float = 10.0
    """Seconds that a request may take, from the first byte sent to the last byte received."""
    ca_file: str | None = None
    """PEM file of the certificate authorities to trust, instead of the usual ones."""
    proxy: str | None = field(default=None, repr=False)
    """URL of a proxy."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request."""

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise ConfigError("http.timeout", "must be greater than zero")
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            raise ConfigError("http.ca_file", f"there is no file {self.ca_file}")


HttpSettings = HttpOptions | Mapping[str, Any] | None
"""Options of requests, also as a mapping from YAML; None for the defaults."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A server's answer to an accepted request."""

    body: bytes
    url: str

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            DestinationError: it is not JSON.
        """
        try:
            return read_json(self.body)
        except ValueError:
            raise _unexpected(self.url, "something that is not JSON") from None


class HttpClient:
    """Sends requests to one base URL. Redirects are not followed: they could carry a key elsewhere.

    No error contains what is in a header or in the query of an address, since these may be keys.

    Args:
        url: base URL, without a slash at its end.
        headers: sent with every request, next to those of the options.
        http: timeout, proxy, certificates.

    Raises:
        ConfigError: an option is unknown or wrong, or httpx is not installed.
    """

    def __init__(self, url: str, headers: Mapping[str, str], http: HttpSettings = None) -> None:
        if importlib.util.find_spec("httpx") is None:
            raise ConfigError("httpx", f"is not installed: {install_hint('http')}")
        options = http if isinstance(http, HttpOptions) else call_with(HttpOptions, http or {}, "http")
        self.url = url
        self.headers = {**headers, **options.headers}
        addresses = [*secrets_of_address(url), *secrets_of_address(options.proxy)]
        hidden = {*addresses, *map(str, headers.values()), *map(str, options.headers.values())}
        # The longest first: a shorter one may be a part of it.
        self._secrets = sorted(_with_parts(hidden), key=len, reverse=True)
        self._options: HttpOptions = options
        self._client: httpx.AsyncClient | None = None
        self._owner = 0

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        most: int = MOST_BYTES,
    ) -> HttpAnswer:
        """Send a request; the body is written as JSON, and the answer has at most so many bytes.

        Raises:
            DestinationError: the server was not reached in time, or answered with anything but success.
        """
        import httpx

        url = self.url + path
        shown = without_credentials(url)
        seconds = self._options.timeout * (1 if most <= MOST_BYTES else _LARGE_TIMES)
        try:
            with anyio.fail_after(seconds):
                return await self._exchange(method, url, body, params, most)
        except TimeoutError:
            problem = f"{shown} took longer than {seconds:g} s"
            raise DestinationError(problem, retryable=True, reason="timeout") from None
        except (httpx.TransportError, httpx.DecodingError, OSError) as error:
            problem = f"{shown} was not reached: {type(error).__name__} {error}".rstrip()
            # An error of the connection may quote the proxy's address.
            raise DestinationError(self.scrub(problem), retryable=True) from None

    async def close(self) -> None:
        """Close the connections."""
        # A forked child must not close its parent's connections.
        if self._client is not None and self._owner == os.getpid():
            await self._client.aclose()
        self._client = None

    def scrub(self, text: str) -> str:
        """Return a text on one line, shortened and without keys."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= 2 * _SHOWN else line[: 2 * _SHOWN] + "…"

    async def _exchange(
        self, method: str, url: str, body: Any, params: Mapping[str, Any] | None, most: int
    ) -> HttpAnswer:
        content, headers = None, {}
        if body is not None:
            # A lone surrogate, as broken input brings, has no UTF-8 form.
            text = json.dumps(body, ensure_ascii=False, allow_nan=False)
            content, headers = text.encode("utf-8", "replace"), {"content-type": "application/json"}
        request = self._opened().stream(method, url, content=content, params=params, headers=headers)
        url = without_credentials(url)
        async with request as response:
            # httpx would decode any nesting before a byte can be counted.
            if response.headers.get("content-encoding", "identity").strip().lower() not in _CODINGS:
                raise _unexpected(url, "a compression that was not requested")
            received = bytearray()
            async for piece in response.aiter_bytes():
                received += piece
                if len(received) > most:
                    reason = "too_large" if most > MOST_BYTES else "unexpected_answer"
                    problem = f"{url} answered with more than {most} bytes"
                    raise DestinationError(problem, retryable=False, reason=reason)
            self._check(response, url, bytes(received))
            return HttpAnswer(bytes(received), url)

    def _opened(self) -> httpx.AsyncClient:
        import httpx

        if self._client is None or self._owner != os.getpid():  # a forked child needs its own connections
            import ssl

            ca_file, plain = self._options.ca_file, self.url.startswith("http:") and not self._options.proxy
            # Loading the usual authorities takes long, and plain HTTP needs none.
            verify = ssl.create_default_context(cafile=ca_file) if ca_file else not plain
            self._client = httpx.AsyncClient(
                headers={"user-agent": "otel-evals", **self.headers},
                timeout=self._options.timeout,
                follow_redirects=False,
                proxy=self._options.proxy,
                verify=verify,
            )
            self._owner = os.getpid()
        return self._client

    def _check(self, response: httpx.Response, url: str, received: bytes) -> None:
        status = response.status_code
        if 300 <= status < 400:
            there = self.scrub(response.headers.get("location", "nowhere"))
            problem = f"{url} moved to {there}; redirects are not followed, set that address"
            raise DestinationError(problem, retryable=False, reason="redirected", status=status)
        said = self.scrub(received[: 4 * _SHOWN].decode("utf-8", "replace"))[:_SHOWN]
        if not response.is_success:
            raise DestinationError(
                f"{url} answered {status}: {said}",
                retryable=status >= 500 or status in _MAY_PASS,
                retry_after=retry_after(response.headers),
                reason=_MAY_PASS.get(status) or _REASONS.get(status),
                status=status,
                answer=received[:_KEPT],
            )
        # A proxy or login page answers 200 to everything.
        if "html" in response.headers.get("content-type", ""):
            raise _unexpected(url, "a page of HTML, as a login or the wrong address does")


def _with_parts(values: Iterable[str]) -> Iterator[str]:
    """Yield secrets and their parts: of `Bearer x` also x, of `Basic x` also the password in it."""
    for value in values:
        scheme, _, token = value.rpartition(" ")
        found = [value, token]
        if scheme == "Basic":
            with suppress(ValueError):
                found.append(base64.b64decode(token).decode().partition(":")[2])
        yield from (each for each in found if len(each) >= _SHORTEST_SECRET and "/json" not in each)


def _unexpected(url: str, what: str) -> DestinationError:
    return DestinationError(f"{url} answered with {what}", retryable=False, reason="unexpected_answer")
