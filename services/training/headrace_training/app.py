"""The training service, wired. The only place that constructs its adapters."""

import secrets
import socket

from starlette.applications import Starlette

from headrace_kit.bus import Bus
from headrace_kit.clock import Clock
from headrace_kit.database import Database
from headrace_kit.errors import Rejected, Retryable
from headrace_kit.http import AdminToken, on_rejected
from headrace_kit.objects import Objects
from headrace_kit.service import Service
from headrace_kit.settings import PlatformSettings
from headrace_training import api, handlers, scheduler
from headrace_training.process import TrainerProcess
from headrace_training.settings import TrainingSettings
from headrace_training.worker import Worker


def build(
    settings: TrainingSettings,
    platform: PlatformSettings,
    *,
    bus: Bus | None = None,
    objects: Objects | None = None,
    trainer: TrainerProcess | None = None,
    clock: Clock | None = None,
) -> Service:
    """A training service that is not started yet. What is not given is made from the environment."""
    if bus is None:
        from headrace_kit.kafka import KafkaBus

        bus = KafkaBus(platform.kafka, "headrace-training")
    if objects is None:
        from headrace_kit.objects import S3Objects
        from headrace_kit.settings import ObjectSettings

        objects = S3Objects(ObjectSettings())
    if trainer is None:
        from headrace_training.process import SubprocessTrainer
        from headrace_training.settings import ModelSettings

        trainer = SubprocessTrainer(ModelSettings().models_dir)
    database = Database(platform.database.url.get_secret_value(), "training", platform.database.pool_size)
    service = Service("training", bus=bus, database=database, prefix=platform.topics.prefix, clock=clock)
    handlers.register(service.consumer)
    service.tasks["scheduler"] = lambda: scheduler.run(service, settings.look_every_s)
    place = f"{socket.gethostname()}-{secrets.token_hex(4)}"
    for number in range(settings.workers):
        worker = Worker(f"{place}-{number}", service, objects, trainer, settings)
        service.tasks[f"worker-{number}"] = worker.run
    app = Starlette(
        routes=[*api.routes(service), *service.health()],
        exception_handlers={Rejected: on_rejected, Retryable: on_rejected},
    )
    service.app = AdminToken(app, platform.process.admin_token.get_secret_value())
    return service
