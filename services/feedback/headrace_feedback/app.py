"""The feedback service, wired. The only place that constructs its adapters."""

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace_feedback import api
from headrace_feedback.settings import FeedbackSettings
from headrace_kit.bus import Bus
from headrace_kit.clock import Clock
from headrace_kit.database import Database
from headrace_kit.errors import Rejected, Retryable
from headrace_kit.http import AdminToken, error_body, on_rejected
from headrace_kit.service import Service
from headrace_kit.settings import PlatformSettings


def build(
    settings: FeedbackSettings, platform: PlatformSettings, *, bus: Bus | None = None, clock: Clock | None = None
) -> Service:
    """A feedback service that is not started yet."""
    if bus is None:
        from headrace_kit.kafka import KafkaBus

        bus = KafkaBus(platform.kafka, "headrace-feedback")
    database = Database(platform.database.url.get_secret_value(), "feedback", platform.database.pool_size)
    service = Service("feedback", bus=bus, database=database, prefix=platform.topics.prefix, clock=clock)
    app = FastAPI(
        title="Headrace feedback",
        description="What people and programs say of answers. A 2xx means that it is durable.",
        docs_url=None,
        redoc_url=None,
        exception_handlers={Rejected: on_rejected, Retryable: on_rejected, HTTPException: _on_http},
    )
    app.include_router(api.routes(service, settings))
    app.router.routes.extend(service.health())
    service.app = AdminToken(app, platform.process.admin_token.get_secret_value())
    return service


async def _on_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "invalid")
    return JSONResponse(error_body(code, str(error.detail)), error.status_code, error.headers)
