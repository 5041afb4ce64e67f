"""Evaluation on a real PostgreSQL and the bus in memory, and a gateway that answers what a test tells it to."""

import asyncio
import base64
import contextlib

import httpx2
from pydantic import SecretStr
from registry_world import TOKEN, digest, platform, until
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from headrace_evaluation.app import build
from headrace_evaluation.settings import EvaluationSettings, PlacesSettings
from headrace_kit.migrate import upgrade
from headrace_kit.records import decode, encode
from headrace_kit.testing import FakeClock, MemoryBroker, MemoryBus
from headrace_schemas import (
    AdapterObserved,
    AdapterRegistered,
    EvaluationCompleted,
    PolicyChanged,
    PolicySpec,
    RouteChanged,
    topic_of,
)
from headrace_schemas.base import VersionRef
from headrace_schemas.events import AdapterState, EngineFacts
from headrace_schemas.ids import engine_model

KEY = "hr_evaltest_" + "s" * 43
SECRET = "zebra-umbrella-quasar"
SUITE = {
    "cases": [
        {
            "id": f"{SECRET}-{n}",
            "prompt": f"Where is item {n}? {SECRET}",
            "rule": {"max_words": 5, "must_contain": [SECRET]},
        }
        for n in range(24)
    ],
    "max_tokens": 32,
}
GOOD, POOR = f"Here: {SECRET}", "I would like to tell you a very long story about many other things instead"


class FakeGateway:
    """Answers by version; `trouble` is asked before each answer and may give a response of its own."""

    def __init__(self) -> None:
        self.answers = {0: POOR, 1: GOOD, 2: GOOD}
        self.tokens = {0: 20, 1: 10, 2: 10}
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[dict] = []
        self.keys: set[str] = set()
        self.trouble = lambda version, prompt: None
        self.gate = asyncio.Event()
        self.gate.set()
        self.app = Starlette(routes=[Route("/v1/chat/completions", self._answer, methods=["POST"])])

    async def _answer(self, request: Request) -> JSONResponse:
        body = await request.json()
        self.bodies.append(body)
        self.keys.add(request.headers["authorization"])
        version, prompt = int(body["model"].split("@v")[1]), body["messages"][-1]["content"]
        self.asked.append((body["model"], prompt))
        await self.gate.wait()
        other = self.trouble(version, prompt)
        if other is not None:
            return other
        return self.ok(version)

    def ok(self, version: int, says: int | None = None, headers: dict | None = None) -> JSONResponse:
        return JSONResponse(
            {
                "model": f"support@v{version}",
                "system_fingerprint": digest(version)[:12] if version else "base",
                "choices": [{"message": {"role": "assistant", "content": self.answers[version]}}],
                "usage": {"prompt_tokens": 5, "completion_tokens": self.tokens[version]},
            },
            headers={"x-headrace-version": str(version if says is None else says)} | (headers or {}),
        )


def ref(version: int) -> VersionRef:
    if version == 0:
        return VersionRef(version=0, engine_model="tiny")
    return VersionRef(
        version=version, digest=digest(version), engine_model=engine_model("support", version, digest(version))
    )


class EvaluationWorld:
    def __init__(self, url: str, **settings) -> None:
        self.url, self.settings = url, settings
        self.broker, self.clock, self.gateway = MemoryBroker(), FakeClock(), FakeGateway()
        self.epoch = self.sequence = self.revision = 0

    async def start(self) -> None:
        settings = EvaluationSettings(
            key=SecretStr(base64.urlsafe_b64encode(b"k" * 32).decode()),
            api_key=SecretStr(KEY),
            **{"poll_s": 0.02, "tries": 1, "failures": 3, "lease_s": 90} | self.settings,
        )
        self.service = build(
            settings,
            platform(self.url),
            PlacesSettings(gateway_url="http://gateway"),
            bus=MemoryBus(self.broker),
            clock=self.clock,
            gateway=httpx2.ASGITransport(app=self.gateway.app),
        )
        self.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self.service.app),
            base_url="http://evaluation",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        await self.service.start()

    async def stop(self) -> None:
        await self.http.aclose()
        await self.service.stop()

    async def push(self, suite=None, name: str = "private"):
        return await self.http.put(f"/v1/suites/{name}", json=suite or SUITE, headers={"x-headrace-by": "ada"})

    # ---- what others say
    async def say(self, *events) -> None:
        await MemoryBus(self.broker).publish(
            [encode(e, topic=topic_of(type(e)).name(), source="test", recorded_at=e.occurred_at) for e in events]
        )

    def policy(self, **gate) -> PolicyChanged:
        self.revision += 1
        spec = PolicySpec.model_validate(
            {
                "policy": "support",
                "base_model": "tiny",
                "reward": {"parts": [{"name": "user", "kind": "feedback"}]},
                "gate": {"suite": "private", **gate},
            }
        )
        return PolicyChanged(
            occurred_at=self.clock.now(),
            policy="support",
            revision=self.revision,
            digest=spec.digest(),
            spec=spec.canonical(),
        )

    def registered(self, version: int) -> AdapterRegistered:
        return AdapterRegistered(
            occurred_at=self.clock.now(),
            policy="support",
            base_model="tiny",
            adapter=ref(version),
            parent_version=0,
            run_id=f"run-{version}",
            manifest_digest=digest(1),
            recipe="default",
            recipe_digest=digest(1),
            spec_digest=digest(1),
            policy_digest=digest(1),
        )

    def route(self, *load: int, champion: int = 0) -> RouteChanged:
        self.epoch += 1
        return RouteChanged(
            occurred_at=self.clock.now(),
            policy="support",
            base_model="tiny",
            epoch=self.epoch,
            champion=ref(champion),
            load=tuple(ref(v) for v in load),
        )

    def observed(self, *ready: int) -> AdapterObserved:
        self.sequence += 1
        return AdapterObserved(
            occurred_at=self.clock.now(),
            replica="r1",
            sequence=self.sequence,
            url="http://127.0.0.1:1",
            healthy=True,
            base_model="tiny",
            engine=EngineFacts(base_model="tiny"),
            adapters=tuple(
                AdapterState(
                    policy="support", version=v, digest=digest(v), engine_model=ref(v).engine_model, state="ready"
                )
                for v in ready
            ),
        )

    async def everything(self, *load: int, champion: int = 0, suite=None, **gate) -> None:
        """All that a comparison needs."""
        await self.push(suite)
        await self.say(
            self.policy(**gate),
            self.route(*load, champion=champion),
            *(self.registered(v) for v in load),
            self.observed(*load, champion),
        )

    # ---- what can be seen
    def reports(self) -> list[EvaluationCompleted]:
        return [decode(r, EvaluationCompleted) for r in self.broker.all(topic_of(EvaluationCompleted).name())]

    async def report(self, number: int = 1) -> EvaluationCompleted:
        """The n-th report on the topic."""
        await until(lambda: len(self.reports()) >= number)
        return self.reports()[number - 1]

    async def told(self) -> dict:
        return (await self.http.get("/v1/evaluations", params={"policy": "support"})).json()


@contextlib.asynccontextmanager
async def evaluation(url: str, **settings):
    await upgrade(url, "headrace_evaluation")
    world = EvaluationWorld(url, **settings)
    await world.start()
    try:
        yield world
    finally:
        world.gateway.gate.set()
        await world.stop()
