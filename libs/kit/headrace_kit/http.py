"""Small pieces of HTTP that every service serves: errors of one shape, the admin token, health and metrics."""

import hmac
from collections.abc import Awaitable, Callable, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace_kit import tracing
from headrace_kit.errors import Rejected, Retryable

Check = Callable[[], Awaitable[str | None]]
"""None while well, else why not in one sentence."""


def error_body(
    code: str, message: str, field: str | None = None, kind: str = "invalid_request_error"
) -> dict[str, object]:
    """OpenAI's error shape, which every client library shows to its user."""
    return {"error": {"message": message, "type": kind, "param": field, "code": code}}


def error_response(error: Rejected | Retryable) -> JSONResponse:
    if isinstance(error, Rejected):
        headers = {"x-should-retry": "false"} if error.status == 409 else None
        return JSONResponse(error_body(error.code, error.message, error.field), error.status, headers)
    return JSONResponse(error_body("unavailable", str(error), kind="server_error"), 503, {"Retry-After": "2"})


async def on_rejected(_: Request, error: Exception) -> Response:
    """Exception handler for Starlette and FastAPI apps: register it for Rejected and for Retryable."""
    assert isinstance(error, Rejected | Retryable)
    return error_response(error)


class AdminToken:
    """ASGI middleware: everything but health and metrics needs the admin token. Also enters the caller's trace."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            tracing.enter(headers.get(b"traceparent", b"").decode("latin-1"))
            if not is_open(scope["path"]) and not hmac.compare_digest(
                headers.get(b"authorization", b""), self._expected
            ):
                refusal = JSONResponse(
                    error_body("unauthorized", "this is internal: send Authorization: Bearer $HEADRACE_ADMIN_TOKEN"),
                    401,
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def is_open(path: str) -> bool:
    return path.startswith("/health/") or path == "/metrics"


def health_routes(checks: Mapping[str, Check], alive: Callable[[], str | None]) -> list[Route]:
    """`live`: the process moves. `ready`: and what it needs answers. `metrics`: Prometheus."""

    async def live(_: Request) -> Response:
        problem = alive()
        return JSONResponse(
            {"status": "ok"} if problem is None else {"status": "stuck", "because": problem},
            200 if problem is None else 503,
        )

    async def ready(_: Request) -> Response:
        answers = {name: await check() for name, check in checks.items()}
        well = all(a is None for a in answers.values())
        return JSONResponse(
            {"status": "ok" if well else "waiting", "checks": {k: v or "ok" for k, v in answers.items()}},
            200 if well else 503,
        )

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return [Route("/health/live", live), Route("/health/ready", ready), Route("/metrics", metrics)]
