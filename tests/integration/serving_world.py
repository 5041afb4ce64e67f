"""A gateway and an agent in this process, and the world around them as events."""

import asyncio
import contextlib
import hashlib
from datetime import UTC, datetime

import aiohttp
import openai
import uvicorn

from headrace_kit.records import decode, encode
from headrace_kit.settings import KafkaSettings, ProcessSettings, TopicSettings
from headrace_kit.testing import MemoryBroker, MemoryBus, MemoryObjects
from headrace_schemas import AdapterObserved, InferenceCompleted, KeyChanged, RouteChanged, topic_of
from headrace_schemas.base import VersionRef
from headrace_schemas.ids import engine_model
from headrace_schemas.keys import hash_secret
from headrace_schemas.release import AdapterState
from headrace_schemas.traffic import EngineFacts
from headrace_serving.app import build_agent, build_gateway
from headrace_serving.settings import AgentSettings, GatewaySettings, PlacesSettings, ServingPlatform

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BASE = "fake-base"
SECRET = "s" * 40
FACTS = EngineFacts(base_model=BASE, engine_version="x", dtype="float32", chat_template_hash="t", tokenizer_hash="k")


def ref(version, digest="a"):
    name = f"support@v{version}-{digest * 12}"
    return VersionRef(version=version, digest=digest * 64, object_key="k", size_bytes=1, engine_model=name)


V0 = VersionRef(version=0, engine_model=BASE)


def route(epoch=1, champion=V0, **more):
    return RouteChanged(occurred_at=NOW, policy="support", base_model=BASE, epoch=epoch, champion=champion, **more)


def key(prefix, *scopes, **more):
    return KeyChanged(
        occurred_at=NOW, prefix=prefix, salt="00ff", hash=hash_secret("00ff", SECRET), scopes=scopes, **more
    )


def observed(engine, *refs, sequence=1, replica="r1", healthy=True):
    return AdapterObserved(
        occurred_at=NOW,
        replica=replica,
        sequence=sequence,
        url=engine.url,
        healthy=healthy,
        base_model=BASE,
        engine=FACTS,
        adapters=tuple(
            AdapterState(
                policy="support", version=r.version, digest=r.digest, engine_model=r.engine_model, state="ready"
            )
            for r in refs
        ),
    )


def settings(folder, **more):
    return GatewaySettings(data_dir=folder, **more)


def platform(feedback_url="http://127.0.0.1:9"):
    return ServingPlatform(
        kafka=KafkaSettings(bootstrap="127.0.0.1:1"),
        topics=TopicSettings(),
        process=ProcessSettings(admin_token="an-admin-token-of-length"),
        places=PlacesSettings(feedback_url=feedback_url, models_dir=None),
    )


class RunningGateway:
    """A gateway on a real port, and what it has recorded."""

    def __init__(self, broker, service, url):
        self.broker, self.service, self.url = broker, service, url

    def client(self, prefix="abcdefgh", **more):
        return openai.AsyncOpenAI(
            base_url=f"{self.url}/v1", api_key=f"hr_{prefix}_{SECRET}", max_retries=0, timeout=120, **more
        )

    async def records(self, count=1):
        async with asyncio.timeout(10):
            while len(found := self.broker.all(topic_of(InferenceCompleted).name())) < count:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert len(self.broker.all(topic_of(InferenceCompleted).name())) == len(found)
        return [decode(r, InferenceCompleted) for r in found]

    async def tell(self, *events):
        await self.broker.append([encode(e, topic=topic_of(type(e)).name(), source="test") for e in events])
        await asyncio.sleep(0.15)


@contextlib.asynccontextmanager
async def serving(app):
    """An ASGI app on a free port."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


@contextlib.asynccontextmanager
async def gateway(folder, *events, bus=None, feedback_url="http://127.0.0.1:9", **more):
    broker = MemoryBroker(partitions=1)
    await broker.append([encode(e, topic=topic_of(type(e)).name(), source="test") for e in events])
    service = build_gateway(settings(folder, **more), platform(feedback_url), bus=bus or MemoryBus(broker))
    await service.start()
    try:
        async with serving(service.app) as url:
            async with asyncio.timeout(5), aiohttp.ClientSession() as http:
                while events and (await http.get(f"{url}/health/ready")).status != 200:
                    await asyncio.sleep(0.01)
            yield RunningGateway(broker, service, url)
    finally:
        await service.stop()


class World:
    """A broker, an object store, and what the agent has said."""

    def __init__(self):
        self.broker = MemoryBroker(partitions=1)
        self.objects = MemoryObjects()
        self.epoch = 0

    def put(self, version, data, **changes):
        digest = hashlib.sha256(data).hexdigest()
        object_key = f"adapters/support/{digest}/adapter_model.safetensors"
        self.objects.objects[object_key] = data
        fields = {
            "version": version,
            "digest": digest,
            "object_key": object_key,
            "size_bytes": len(data),
            "engine_model": engine_model("support", version, digest),
            **changes,
        }
        return VersionRef(**fields)

    async def route(self, champion=V0, base=BASE, **more):
        self.epoch += 1
        event = RouteChanged(
            occurred_at=NOW, policy="support", base_model=base, epoch=self.epoch, champion=champion, **more
        )
        await self.broker.append([encode(event, topic=topic_of(RouteChanged).name(), source="test")])

    def reports(self):
        return [decode(r, AdapterObserved) for r in self.broker.all(topic_of(AdapterObserved).name())]

    async def until(self, what, seconds=20.0):
        async with asyncio.timeout(seconds):
            while not (self.reports() and what(self.reports()[-1])):
                await asyncio.sleep(0.01)
        return self.reports()[-1]

    async def state_of(self, ref, *states):
        last = await self.until(
            lambda r: any(a.engine_model == ref.engine_model and a.state in states for a in r.adapters)
        )
        return next(a for a in last.adapters if a.engine_model == ref.engine_model)


@contextlib.asynccontextmanager
async def agent(folder, world, engine, bus=None, **more):
    settings = AgentSettings(
        engine_url=engine.url,
        replica="r1",
        cache_dir=folder,
        **{"poll_s": 0.05, "grace_s": 0.3, "report_s": 5, "engine_timeout_s": 5, **more},
    )
    service = build_agent(settings, platform(), bus=bus or MemoryBus(world.broker), objects=world.objects)
    await service.start()
    try:
        yield service
        assert service.alive() is None
    finally:
        await service.stop()
