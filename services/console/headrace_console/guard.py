"""Who may look: the Host header is on a list (else a foreign page could rebind its own name to this address), the token
is known where one is set, and the answer may load nothing from anywhere else.
"""

import hashlib
import hmac
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace_kit.http import is_open

COOKIE = "headrace_console"
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Guard:
    """ASGI middleware around everything; health and metrics stay open, as with every service."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], token: str | None) -> None:
        self._app = app
        self._hosts = hosts
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_open(scope["path"]):
            await self._app(scope, receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent[name] = value
                if not scope["path"].startswith("/static/"):
                    sent["cache-control"] = "no-store"
            await send(message)

        refusal = self._refuse(scope, headers)
        await (refusal or self._app)(scope, receive, guarded)

    def _refuse(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        host = host_name(headers.get("host", ""))
        if host not in self._hosts:
            return PlainTextResponse(
                f"The console does not answer under the name {host[:100]!r}: add it to CONSOLE_ALLOWED_HOSTS.\n", 421
            )
        if self._token is None or _cookie(headers.get("cookie", "")) == _remembered(self._token):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        given = dict(query).get("token", "")
        if hmac.compare_digest(given.encode(), self._token.encode()):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            answer = RedirectResponse(scope["path"] + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(COOKIE, _remembered(self._token), httponly=True, samesite="strict", max_age=30 * 86_400)
            return answer
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(bearer.encode(), self._token.encode()):
            return None
        return PlainTextResponse("The console needs its token: open /?token=… with the value of CONSOLE_TOKEN.\n", 401)


def host_name(header: str) -> str:
    """The name in a Host header, without port and brackets, in lower case."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def _remembered(token: str) -> str:
    """What the cookie holds: not the token itself."""
    return hashlib.sha256(f"headrace console {token}".encode()).hexdigest()
