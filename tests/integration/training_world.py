"""A training service on a real PostgreSQL, with a bus and an object store in memory."""

import asyncio
import hashlib
import time
from datetime import UTC, datetime

from headrace_kit.migrate import upgrade
from headrace_kit.records import encode
from headrace_kit.settings import DatabaseSettings, KafkaSettings, PlatformSettings, ProcessSettings, TopicSettings
from headrace_kit.testing import MemoryBroker, MemoryBus, MemoryObjects
from headrace_schemas import CheckpointSaved, PolicyChanged, PolicySpec, RouteChanged, TrajectoryScored, topic_of
from headrace_schemas.base import VersionRef
from headrace_schemas.events import Directive, EngineFacts
from headrace_training.app import build
from headrace_training.settings import TrainingSettings
from headrace_training.store import Store
from headrace_training.testing import FakeTrainer

NOW = datetime(2026, 1, 2, tzinfo=UTC)
BASE = VersionRef(version=0, engine_model="tiny")


def policy(events=4, revision=1, **train) -> PolicyChanged:
    spec = PolicySpec.model_validate(
        {
            "policy": "support",
            "base_model": "tiny",
            "train": {"trigger": {"events": events}, **train},
            "reward": {"parts": [{"name": "user", "kind": "feedback"}]},
            "gate": {"suite": "private"},
        }
    )
    return PolicyChanged(
        occurred_at=NOW, policy="support", revision=revision, digest=spec.digest(), spec=spec.canonical()
    )


def route(epoch=1, champion=BASE, **fields) -> RouteChanged:
    return RouteChanged(occurred_at=NOW, policy="support", base_model="tiny", epoch=epoch, champion=champion, **fields)


def trajectory(number, revision=1, correction=None, **fields) -> TrajectoryScored:
    given = dict(
        occurred_at=NOW,
        trajectory_id=f"chatcmpl-{number}",
        revision=revision,
        episode_id=f"ep-{number}",
        policy="support",
        policy_version=0,
        prompt_token_ids=(1, 2, number),
        completion_token_ids=(3, 4),
        logprobs=(-1.0, -1.0),
        engine=EngineFacts(base_model="tiny"),
        reward=float(number % 2),
        spec_digest="5" * 64,
        directives=(Directive(kind="correction", text=correction),) if correction else (),
    )
    return TrajectoryScored(**{**given, **fields})


class World:
    """What outlives a service: the bus, the objects, the database."""

    def __init__(self, url: str, work_dir, trainer=None, lease_s: float = 1.0) -> None:
        self.url, self.broker, self.objects = url, MemoryBroker(), MemoryObjects()
        self.trainer = trainer or FakeTrainer()
        self.settings = TrainingSettings(work_dir=work_dir, lease_s=lease_s, look_every_s=0.02)

    async def prepare(self):
        await upgrade(self.url, "headrace_training")

    def service(self, trainer=None, settings=None):
        platform = PlatformSettings(
            kafka=KafkaSettings(bootstrap="nowhere:9092"),
            topics=TopicSettings(),
            database=DatabaseSettings(url=self.url),
            process=ProcessSettings(admin_token="0123456789abcdef"),
        )
        return build(
            settings or self.settings,
            platform,
            bus=MemoryBus(self.broker),
            objects=self.objects,
            trainer=trainer or self.trainer,
        )

    async def send(self, *events) -> None:
        await self.broker.append([encode(e, topic=topic_of(type(e)).name("headrace"), source="test") for e in events])

    def checkpoints(self) -> list[CheckpointSaved]:
        return [
            CheckpointSaved.model_validate_json(r.value)
            for r in self.broker.all(topic_of(CheckpointSaved).name("headrace"))
        ]

    def dead_letters(self) -> list[str]:
        found = self.broker.all(topic_of(TrajectoryScored).dead_letters("headrace"))
        return [r.header("headrace-dlq-code") for r in found]

    async def until(self, check, within=15.0):
        """What `check` answers once it is true (a function or a coroutine function)."""
        end = time.monotonic() + within
        while True:
            result = check()
            result = await result if asyncio.iscoroutine(result) else result
            if result:
                return result
            assert time.monotonic() < end, "it never came true"
            await asyncio.sleep(0.02)

    async def runs(self, service):
        async with service.unit_of_work() as work:
            return await Store(work.session).runs(None, 50)

    async def standing(self, service, event=None):
        async with service.unit_of_work() as work:
            return await Store(work.session).standing(PolicySpec.model_validate((event or policy()).spec), work.now)


class running:
    """`async with running(service):`"""

    def __init__(self, *services) -> None:
        self.services = services

    async def __aenter__(self):
        for service in self.services:
            await service.start()
        return self.services[0]

    async def __aexit__(self, *_):
        for service in self.services:
            await service.stop()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
