"""The registry, wired. The only place that constructs its adapters."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headrace_kit.bus import Bus
from headrace_kit.clock import Clock
from headrace_kit.database import Database
from headrace_kit.http import AdminToken, error_body
from headrace_kit.service import Service
from headrace_kit.settings import PlatformSettings
from headrace_kit.validation import HANDLERS
from headrace_registry import api, handlers, sweeper
from headrace_registry.moves import RouteMovedError
from headrace_registry.settings import RegistrySettings


def build(
    settings: RegistrySettings, platform: PlatformSettings, *, bus: Bus | None = None, clock: Clock | None = None
) -> Service:
    """A registry that is not started yet."""
    if bus is None:
        from headrace_kit.kafka import KafkaBus

        bus = KafkaBus(platform.kafka, "headrace-registry")
    database = Database(platform.database.url.get_secret_value(), "registry", platform.database.pool_size)
    service = Service("registry", bus=bus, database=database, prefix=platform.topics.prefix, clock=clock)
    handlers.register(service.consumer)
    service.tasks["sweeper"] = lambda: sweeper.run(service, settings)
    app = FastAPI(
        title="Headrace registry",
        docs_url=None,
        redoc_url=None,
        exception_handlers=HANDLERS | {RouteMovedError: _on_route_moved},
    )
    app.include_router(api.routes(service))
    app.router.routes.extend(service.health())
    service.app = AdminToken(app, platform.process.admin_token.get_secret_value())
    return service


async def _on_route_moved(_: Request, error: Exception) -> Response:
    """Somebody else was faster; the caller should look before it tries again."""
    return JSONResponse(error_body("route_changed", f"{error}: look again"), 409, {"x-should-retry": "false"})
