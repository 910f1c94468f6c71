"""Access to the page: allowed hosts, the token, and protection of forms."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from otel_evals.errors import ConfigError

_COOKIE = "otel_evals_token"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Access:
    """Accepts or refuses requests, and sets headers that prevent scripts other than the page's own file."""

    def __init__(self, token: str | None, host: str) -> None:
        """Set the token, which is required for a host other than localhost."""
        if token is None and not is_loopback(host):
            raise ConfigError(
                "--token", f"is required to listen on {host}: anyone who reaches it can read conversations"
            )
        if token is not None and len(token) < 12:
            raise ConfigError("--token", "must have at least 12 characters")
        self._token = token or ""
        self.csrf = secrets.token_urlsafe(24)
        """Token in every form; a request that changes data must contain it."""

    async def __call__(
        self, request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Handle a request as middleware."""
        response = self._refused(request) or await call_next(request)
        response.headers.update(_HEADERS)
        return response

    def forged(self, request: Request, csrf: str) -> bool:
        """Return True if another site sent the form."""
        origin = request.headers.get("origin")
        # Not every client sends Origin; without it, the form's token decides alone.
        elsewhere = origin is not None and origin.partition("://")[2] != request.headers.get("host")
        # Encoded, since `compare_digest` refuses texts that are not ASCII.
        return elsewhere or not hmac.compare_digest(csrf.encode(), self.csrf.encode())

    def _refused(self, request: Request) -> Response | None:
        if not self._token:
            # Refuse other host names, which another site may point at this machine (DNS rebinding).
            name = re.sub(r":\d*$", "", request.headers.get("host", "")).lower()
            return None if is_loopback(name) else PlainTextResponse("this page is served on localhost", 403)
        given = request.query_params.get("token", "")
        if self._is_token(given):
            # Takes the token out of the address, which browsers keep in their history.
            response = RedirectResponse(request.url.path, 303)
            response.set_cookie(_COOKIE, given, httponly=True, samesite="strict")
            return response
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(request.cookies.get(_COOKIE, "")) or self._is_token(bearer):
            return None
        return PlainTextResponse("open this page with ?token=...", 401)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())
