"""The HTTP client of destinations: bounded in time and size, and silent about keys."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from otel_evals._internal.util.addresses import secrets_of_address, without_credentials
from otel_evals._internal.util.install_hint import install_hint
from otel_evals._internal.util.json_text import read_json
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
_REASONS = {401: "unauthorized", 403: "unauthorized", 404: "not_found", 409: "conflict", 413: "too_large"}
_MAY_PASS = {408: "unavailable", 425: "unavailable", 429: "rate_limited"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Options of a destination's HTTP requests.

    Proxies (`HTTPS_PROXY`, `NO_PROXY`, ...) and certificates (`SSL_CERT_FILE`) of the environment apply too.

    Raises:
        ConfigError: a number is not positive, or `ca_file` is not there.
    """

    timeout: float = 10.0
    """Seconds that a request may take, from the first byte sent to the last byte received."""
    ca_file: str | None = None
    """PEM file of the certificate authorities to trust, instead of the usual ones."""
    proxy: str | None = field(default=None, repr=False)
    """URL of a proxy."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request."""
    requests_per_second: float = math.inf
    """Rate limit; requests are spaced evenly."""

    def __post_init__(self) -> None:
        for name in ("timeout", "requests_per_second"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"http.{name}", "must be greater than zero")
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            raise ConfigError("http.ca_file", f"there is no file {self.ca_file}")

    @classmethod
    def of(cls, options: HttpOptions | Mapping[str, Any] | None) -> HttpOptions:
        """Return options given as in YAML.

        Raises:
            ConfigError: an option is unknown or wrong.
        """
        if options is None or isinstance(options, HttpOptions):
            return options or cls()
        if unknown := sorted(set(options) - set(cls.__slots__)):
            raise ConfigError(
                f"http.{unknown[0]}", f"there is no such option; known: {', '.join(cls.__slots__)}"
            )
        return cls(**options)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A server's answer to an accepted request."""

    status: int
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
            raise _unexpected(self.url, self.status, "something that is not JSON") from None


class HttpClient:
    """Sends requests to one base URL. Redirects are not followed: they could carry a key elsewhere.

    Args:
        url: base URL, without a slash at its end.
        headers: sent with every request, next to those of the options.
        secrets: texts that no error may contain.
        options: timeouts, proxy, certificates.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], secrets: tuple[str | None, ...], options: HttpOptions
    ) -> None:
        if importlib.util.find_spec("httpx") is None:
            raise ConfigError("httpx", f"is not installed: {install_hint('http')}")
        self.url = url
        self.headers = {**headers, **options.headers}
        given = [*options.headers.values(), *headers.values()]
        hidden = {*secrets, *given, *(value.rpartition(" ")[2] for value in given)}  # of `Bearer x`, also x
        hidden.update(secrets_of_address(url), secrets_of_address(options.proxy))
        self._secrets = sorted((s for s in hidden if s and len(s) >= 6 and "/json" not in s), key=len)[::-1]
        self._options = options
        self._client: httpx.AsyncClient | None = None
        self._owner = 0
        self._free_at = 0.0

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
            await self._wait_for_turn()
            with anyio.fail_after(seconds):
                return await self._exchange(method, url, body, params, most)
        except TimeoutError:
            problem = f"{shown} took longer than {seconds:g} s"
            raise DestinationError(problem, retryable=True, reason="timeout") from None
        except (httpx.TransportError, httpx.DecodingError, OSError) as error:
            problem = f"{shown} was not reached: {type(error).__name__} {error}".rstrip()
            raise DestinationError(self.scrub(problem), retryable=True) from None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None and self._owner == os.getpid():
            await self._client.aclose()
        self._client = None

    def scrub(self, text: str) -> str:
        """Return a text on one line, shortened and without keys."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        return line if len(line) <= 2 * _SHOWN else line[: 2 * _SHOWN] + "…"

    async def _wait_for_turn(self) -> None:
        now = anyio.current_time()
        self._free_at = max(now, self._free_at) + 1.0 / self._options.requests_per_second
        if (wait := self._free_at - 1.0 / self._options.requests_per_second - now) > 0:
            await anyio.sleep(wait)

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
            if response.headers.get("content-encoding", "identity").strip().lower() not in _CODINGS:
                raise _unexpected(url, response.status_code, "a compression that was not requested")
            received = bytearray()
            async for piece in response.aiter_bytes():
                received += piece
                if len(received) > most:
                    problem = f"{url} answered {response.status_code} with more than {most} bytes"
                    raise DestinationError(
                        problem,
                        retryable=False,
                        reason="too_large" if most > MOST_BYTES else "unexpected_answer",
                    )
            self._check(response, url, bytes(received))
            return HttpAnswer(response.status_code, bytes(received), url)

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
            problem = (
                f"{url} answered {status}: moved to {there}; redirects are not followed, set that address"
            )
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
        if "html" in response.headers.get("content-type", ""):
            raise _unexpected(url, status, "a page of HTML, as a login or the wrong address does")


def base_url(given: str, field_name: str, *, without: str = "") -> str:
    """Return a base URL without a slash at its end, and without a path that belongs to another API.

    Raises:
        ConfigError: it is no http URL, or contains a user or password.
    """
    if not re.match(r"https?://[^/\s@]+(/\S*)?$", given):
        shown = re.sub(r"//[^/@]*@", "//***@", given)
        raise ConfigError(field_name, f"{shown!r} is not a URL such as https://example.com")
    return re.sub(rf"({without})?/*$", "", given.rstrip("/"))


def _unexpected(url: str, status: int, what: str) -> DestinationError:
    problem = f"{url} answered {status} with {what}"
    return DestinationError(problem, retryable=False, reason="unexpected_answer", status=status)
