"""The registry, wired. The only place that constructs its adapters."""

from fastapi import FastAPI

from headrace_kit.bus import Bus
from headrace_kit.clock import Clock
from headrace_kit.database import Database
from headrace_kit.errors import Rejected, Retryable
from headrace_kit.http import AdminToken, on_rejected
from headrace_kit.service import Service
from headrace_kit.settings import PlatformSettings
from headrace_registry import api, handlers, refusals, sweeper
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
        exception_handlers={
            Rejected: on_rejected,
            RouteMovedError: refusals.on_route_moved,
            Retryable: on_rejected,
            **refusals.HANDLERS,
        },
    )
    app.include_router(api.routes(service))
    app.router.routes.extend(service.health())
    service.app = AdminToken(app, platform.process.admin_token.get_secret_value())
    return service
