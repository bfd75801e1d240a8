"""Who may ask the page: requests for another host, of another origin or without the token get nothing.

A page of another origin that resolves its own name to this machine (DNS rebinding) sends its own name as
Host, and is refused by it.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "everview-token"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, reached from itself only.

    >>> [is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass
class RequestGuard:
    """Let a request through to the application, or answer it here. Without a token, only on loopback."""

    app: ASGIApp
    token: str | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = self._refusal(scope)
        await (self.app if refused is None else refused)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that is not let through; None if it is."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.token is None and not is_loopback(_without_port(host)):
            return PlainTextResponse("this server answers to localhost only\n", 421)
        if not _is_same_origin(headers, host):
            return PlainTextResponse("requests of other origins are refused\n", 403)
        if self.token is None:
            return None
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        given = asked.pop("token", [""])[0]
        if scope["path"] == "/" and given and self._fits(given):
            rest = urlencode(asked, doseq=True)
            answer = RedirectResponse(f"/?{rest}" if rest else "/", 303)
            answer.set_cookie(COOKIE, given, httponly=True, samesite="strict", path="/")
            return answer
        kind, _, value = headers.get("authorization", "").partition(" ")
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        if (kind.lower() == "bearer" and self._fits(value.strip())) or self._fits(cookie):
            return None
        return PlainTextResponse(
            "a token is needed: open /?token=…, or send it as Authorization: Bearer …\n",
            401,
            {"WWW-Authenticate": "Bearer"},
        )

    def _fits(self, given: str) -> bool:
        assert self.token is not None
        return hmac.compare_digest(given.encode(), self.token.encode())


def _without_port(host: str) -> str:
    """Return the name in a Host header.

    >>> [_without_port(h) for h in ("localhost:80", "[::1]:80", "127.0.0.1", "")]
    ['localhost', '::1', '127.0.0.1', '']
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_same_origin(headers: Headers, host: str) -> bool:
    """Return whether a request comes from the page, a program, or a typed address."""
    origin = headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return False
    return headers.get("sec-fetch-site", "none") in ("none", "same-origin") or (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )
