"""Feedback comes in on the gateway's origin, with the app's key, and goes to the feedback service."""

from urllib.parse import quote

import aiohttp
from yarl import URL

from headrace_kit import tracing
from headrace_schemas import KeyChanged
from headrace_serving.asgi import Call
from headrace_serving.core.refusal import Refusal

_PASSED_ON = ("content-type", "idempotency-key")
_PASSED_BACK = ("content-type", "retry-after", "x-should-retry")


def kind_of(key: KeyChanged) -> str:
    """What sort of app holds the key: one that also asks for answers is a server, the rest only gives feedback."""
    return "server" if "inference" in key.scopes or "evaluate" in key.scopes else "feedback"


class FeedbackRelay:
    """The feedback service's answer comes back as it is; where it cannot be reached, a 503 with Retry-After."""

    def __init__(self, url: str, admin_token: str, timeout_s: float, max_body_bytes: int) -> None:
        self._url = url.rstrip("/")
        self._token = admin_token
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._max_body_bytes = max_body_bytes

    async def relay(self, call: Call, key: KeyChanged, session: aiohttp.ClientSession, request_id: str) -> None:
        body = await call.body(self._max_body_bytes)
        headers = {
            "authorization": f"Bearer {self._token}",
            "x-headrace-project": key.project,
            "x-headrace-key-kind": kind_of(key),
            "x-request-id": request_id,
            "traceparent": tracing.current(),
            "accept-encoding": "identity",
            **{name: call.headers[name] for name in _PASSED_ON if name in call.headers},
        }
        # The server has decoded the path: as it came it could not say `?`, `#` or `..` to the feedback service.
        url = URL(self._url + quote(call.path), encoded=True)
        try:
            async with session.request(
                call.method, url, data=body or None, headers=headers, timeout=self._timeout
            ) as response:
                answer = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Refusal(
                503,
                "feedback_unavailable",
                f"feedback cannot be taken at the moment ({type(error).__name__}): send it again",
                kind="server_error",
                headers=(("retry-after", "2"),),
            ) from error
        back = [
            (name.encode(), response.headers[name].encode("latin-1"))
            for name in _PASSED_BACK
            if name in response.headers
        ]
        await call.start(
            response.status,
            [*back, (b"content-length", b"%d" % len(answer)), (b"x-request-id", request_id.encode())],
        )
        await call.write(answer, more=False)
