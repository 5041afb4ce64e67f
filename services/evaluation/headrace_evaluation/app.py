"""Evaluation, wired. The only place that constructs its adapters."""

import httpx2
from fastapi import FastAPI

from headrace_evaluation import api, handlers
from headrace_evaluation.asking import Asker
from headrace_evaluation.settings import EvaluationSettings, PlacesSettings
from headrace_evaluation.vault import Vault
from headrace_evaluation.worker import Worker
from headrace_kit.bus import Bus
from headrace_kit.clock import Clock
from headrace_kit.database import Database
from headrace_kit.http import AdminToken
from headrace_kit.service import Service
from headrace_kit.settings import PlatformSettings
from headrace_kit.validation import HANDLERS


def build(
    settings: EvaluationSettings,
    platform: PlatformSettings,
    places: PlacesSettings,
    *,
    bus: Bus | None = None,
    clock: Clock | None = None,
    gateway: httpx2.AsyncBaseTransport | None = None,
) -> Service:
    """An evaluation that is not started yet. `gateway`: a transport in place of the network, for tests."""
    if bus is None:
        from headrace_kit.kafka import KafkaBus

        bus = KafkaBus(platform.kafka, "headrace-evaluation")
    database = Database(platform.database.url.get_secret_value(), "evaluation", platform.database.pool_size)
    service = Service("evaluation", bus=bus, database=database, prefix=platform.topics.prefix, clock=clock)
    handlers.register(service.consumer)
    client = httpx2.AsyncClient(
        base_url=places.gateway_url,
        headers={"Authorization": f"Bearer {settings.api_key.get_secret_value()}"},
        timeout=settings.request_timeout_s,
        transport=gateway,
        trust_env=False,
    )
    service.closers.append(client.aclose)
    vault = Vault(settings.key_bytes())
    asker = Asker(client, settings.tries)
    service.tasks["worker"] = Worker(service, settings, vault, asker).run
    app = FastAPI(title="Headrace evaluation", docs_url=None, redoc_url=None, exception_handlers=HANDLERS)
    app.include_router(api.routes(service, vault))
    app.router.routes.extend(service.health())
    service.app = AdminToken(app, platform.process.admin_token.get_secret_value())
    return service
