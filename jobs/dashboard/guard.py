"""Controls access to the dashboard, which can only be read.

- The Host header must be a known name. Otherwise a foreign name could resolve to this machine, and its pages read ours.
- Browsers hide all responses from pages of other origins, because no response permits them to read it (CORS).
- If there is a token, it has to be presented once; a cookie replaces it until the dashboard is restarted.

All addresses are relative, because a proxy may serve the dashboard under a path of its host, which it removes.
"""

import ipaddress
import secrets
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobs.metrics.endpoint import HEALTH_PATH, READINESS_PATH

_LOGIN = "/login"
_OPEN_TO_ALL = (_LOGIN, "/assets/dashboard.css", HEALTH_PATH, READINESS_PATH)

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Session:
    """The secrets of one dashboard process."""

    def __init__(self, token: str) -> None:
        """Create the secrets; with an empty token, no token is required."""
        self._token = token
        self._value = secrets.token_urlsafe(32)
        self.start = secrets.token_hex(8)
        """The id of this process, by which a page notices that the dashboard was restarted."""

    def accepts_token(self, token: str) -> bool:
        """Return whether a token is correct."""
        return bool(self._token) and secrets.compare_digest(token.encode(), self._token.encode())

    def authorizes(self, scope: Scope, headers: Headers) -> bool:
        """Return whether the browser or program has presented the token."""
        if not self._token:
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        cookie = cookie_parser(headers.get("cookie", "")).get(self._cookie_name(scope), "")
        return (scheme.lower() == "bearer" and self.accepts_token(bearer.strip())) or secrets.compare_digest(
            cookie.encode(), self._value.encode()
        )

    def set_cookie(self, scope: Scope, response: Response) -> None:
        """Set the cookie of a browser that has presented the token; it is sent below the folder of this address."""
        response.set_cookie(self._cookie_name(scope), self._value, httponly=True, samesite="strict", path=None)

    @staticmethod
    def _cookie_name(scope: Scope) -> str:
        """Return the name of the cookie, with the port, because browsers send cookies to all ports of a host."""
        return f"mutation-quota-{(scope.get('server') or ('', 0))[1]}"


class Guard:
    """An ASGI middleware that rejects forbidden requests."""

    def __init__(self, app: ASGIApp, session: Session, hosts: Collection[str]) -> None:
        """Wrap an application; browsers may reach it by these host names and by the address of the connection."""
        self._app = app
        self._session = session
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        answer = self._rejection(scope) or self._app
        await answer(scope, receive, send_with_headers)

    def _rejection(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        if not self._is_ours(headers.get("host", ""), scope):
            return PlainTextResponse(
                "Unknown host name; add it to dashboard.hosts if browsers may use it for the dashboard.\n", 421
            )
        if path not in _OPEN_TO_ALL and not self._session.authorizes(scope, headers):
            return (
                RedirectResponse(_LOGIN[1:], 303) if path == "/" else PlainTextResponse("The token is required.\n", 401)
            )
        return None

    def _is_ours(self, host: str, scope: Scope) -> bool:
        """Return whether a Host header names this machine: a listed name, or the address of the connection."""
        name = _without_port(host).lower()
        if name in self._hosts:
            return True
        try:
            here = ipaddress.ip_address((scope.get("server") or ("", 0))[0])
            return ipaddress.ip_address(name) == (getattr(here, "ipv4_mapped", None) or here)
        except ValueError:
            return False


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
