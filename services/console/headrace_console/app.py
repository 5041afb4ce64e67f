"""The console, wired. The only place that constructs its adapters."""

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from headrace_console import dead_letters, handlers
from headrace_console.drawing import Drawing
from headrace_console.guard import Guard
from headrace_console.pages import Pages
from headrace_console.settings import ConsoleSettings
from headrace_kit.bus import Bus
from headrace_kit.clock import Clock
from headrace_kit.database import Database
from headrace_kit.errors import Rejected, Retryable
from headrace_kit.http import on_rejected
from headrace_kit.service import Service
from headrace_kit.settings import PlatformSettings


def build(
    settings: ConsoleSettings, platform: PlatformSettings, *, bus: Bus | None = None, clock: Clock | None = None
) -> Service:
    """A console that is not started yet."""
    if bus is None:
        from headrace_kit.kafka import KafkaBus

        bus = KafkaBus(platform.kafka, "headrace-console")
    database = Database(platform.database.url.get_secret_value(), "console", platform.database.pool_size)
    service = Service("console", bus=bus, database=database, prefix=platform.topics.prefix, clock=clock)
    handlers.register(service.consumer)
    service.tasks["dead-letters"] = lambda: dead_letters.run(service, settings.dead_letters_every_s)
    pages = Pages(database, service.clock, Drawing(), settings.refresh_s)
    app = Starlette(
        routes=[
            *pages.routes(),
            Mount("/static", StaticFiles(packages=[("headrace_console", "static")])),
            *service.health(),
        ],
        exception_handlers={Rejected: on_rejected, Retryable: pages.on_unavailable},
    )
    service.app = Guard(app, settings.hosts(), settings.token.get_secret_value() if settings.token else None)
    return service
