"""The reward service, wired. The only place that constructs its adapters."""

from starlette.applications import Starlette

from headrace_kit.bus import Bus
from headrace_kit.clock import Clock
from headrace_kit.database import Database
from headrace_kit.errors import Rejected, Retryable
from headrace_kit.http import AdminToken, on_rejected
from headrace_kit.service import Service
from headrace_kit.settings import PlatformSettings
from headrace_reward import api, handlers, sweeper
from headrace_reward.settings import RewardSettings


def build(
    settings: RewardSettings, platform: PlatformSettings, *, bus: Bus | None = None, clock: Clock | None = None
) -> Service:
    """A reward service that is not started yet."""
    if bus is None:
        from headrace_kit.kafka import KafkaBus

        bus = KafkaBus(platform.kafka, "headrace-reward")
    database = Database(platform.database.url.get_secret_value(), "reward", platform.database.pool_size)
    service = Service("reward", bus=bus, database=database, prefix=platform.topics.prefix, clock=clock)
    handlers.register(service.consumer)
    service.tasks["sweeper"] = lambda: sweeper.run(service, settings)
    app = Starlette(
        routes=[*api.routes(service), *service.health()],
        exception_handlers={Rejected: on_rejected, Retryable: on_rejected},
    )
    service.app = AdminToken(app, platform.process.admin_token.get_secret_value())
    return service
