"""A registry on a real PostgreSQL and the bus in memory, with what the others would tell it."""

import asyncio
import contextlib
from datetime import datetime

import httpx2
from pydantic import SecretStr

from headrace_kit.migrate import upgrade
from headrace_kit.records import decode, encode
from headrace_kit.settings import DatabaseSettings, KafkaSettings, PlatformSettings, ProcessSettings, TopicSettings
from headrace_kit.testing import FakeClock, MemoryBroker, MemoryBus
from headrace_registry.app import build
from headrace_registry.settings import RegistrySettings
from headrace_schemas import (
    AdapterObserved,
    CheckpointSaved,
    EvaluationCompleted,
    PolicySpec,
    RouteChanged,
    topic_of,
)
from headrace_schemas.events import AdapterState, EngineFacts, GateStatistics, Probe
from headrace_schemas.ids import engine_model

TOKEN = "t" * 24
SPEC = {
    "policy": "support",
    "base_model": "tiny",
    "reward": {"parts": [{"name": "user", "kind": "feedback"}]},
    "gate": {"suite": "private"},
}


def platform(url: str) -> PlatformSettings:
    return PlatformSettings(
        kafka=KafkaSettings(bootstrap="none"),
        topics=TopicSettings(),
        database=DatabaseSettings(url=SecretStr(url)),
        process=ProcessSettings(admin_token=SecretStr(TOKEN)),
    )


def digest(number: int) -> str:
    return f"{number:064x}"


async def until(check, timeout: float = 20.0):
    """The first true answer of `check`."""
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        answer = check()
        answer = await answer if asyncio.iscoroutine(answer) else answer
        if answer:
            return answer
        assert asyncio.get_running_loop().time() < deadline, "it did not come"
        await asyncio.sleep(0.02)


class RegistryWorld:
    def __init__(self, url: str, *, deadline_s: float = 900.0) -> None:
        self.url, self.deadline_s = url, deadline_s
        self.broker, self.clock = MemoryBroker(), FakeClock()
        self.sequence = 0

    async def start(self) -> None:
        self.service = build(
            RegistrySettings(candidate_deadline_s=self.deadline_s, sweep_every_s=0.05),
            platform(self.url),
            bus=MemoryBus(self.broker),
            clock=self.clock,
        )
        self.http = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=self.service.app),
            base_url="http://registry",
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        await self.service.start()

    async def stop(self) -> None:
        await self.http.aclose()
        await self.service.stop()

    # ---- what others say
    async def say(self, *events) -> None:
        await MemoryBus(self.broker).publish(
            [encode(e, topic=topic_of(type(e)).name(), source="test", recorded_at=e.occurred_at) for e in events]
        )

    def checkpoint(self, number: int, **changes) -> CheckpointSaved:
        fields = {
            "occurred_at": self.clock.now(),
            "policy": "support",
            "base_model": "tiny",
            "run_id": f"run-{number}",
            "parent_version": 0,
            "digest": digest(number),
            "object_key": f"adapters/support/{digest(number)}/adapter_model.safetensors",
            "size_bytes": 10,
            "manifest_digest": digest(900 + number),
            "manifest_key": f"manifests/{number}",
            "samples": 32,
            "recipe": "default",
            "recipe_digest": digest(800),
            "spec_digest": digest(801),
            "fencing_token": number,
            "metrics": {"loss": 0.5},
        }
        return CheckpointSaved(**fields | changes)

    def report(self, version: int, verdict: str, *, champion: int = 0, **changes) -> EvaluationCompleted:
        fields = {
            "occurred_at": self.clock.now(),
            "evaluation_id": f"eval-{version}-{champion}-{verdict}",
            "policy": "support",
            "candidate_version": version,
            "candidate_digest": digest(version),
            "champion_version": champion,
            "champion_digest": digest(champion) if champion else "",
            "suite": "private",
            "suite_digest": digest(700),
            "gate_digest": PolicySpec.model_validate(SPEC).gate_digest(),
            "verdict": verdict,
            "because": f"the gate says {verdict}",
            "statistics": GateStatistics(cases=40, candidate=0.8, champion=0.1, e_value=50, e_harm=0.1, alpha=0.05),
            "duration_s": 1.0,
        }
        return EvaluationCompleted(**fields | changes)

    def observed(self, *ready: int, failed: tuple[int, ...] = (), replica: str = "r1", **changes) -> AdapterObserved:
        self.sequence += 1
        probe = Probe(finite=True, differs_from_base=True, seconds=1.0)
        broken = Probe(finite=False, differs_from_base=False, reason="a logprob is not finite")

        def state(number: int, word: str, seen: Probe) -> AdapterState:
            name = engine_model("support", number, digest(number))
            return AdapterState(
                policy="support", version=number, digest=digest(number), engine_model=name, state=word, probe=seen
            )

        fields = {
            "occurred_at": self.clock.now(),
            "replica": replica,
            "sequence": self.sequence,
            "url": "http://127.0.0.1:1",
            "healthy": True,
            "base_model": "tiny",
            "engine": EngineFacts(base_model="tiny"),
            "adapters": (
                *(state(n, "ready", probe) for n in ready),
                *(state(n, "failed", broken) for n in failed),
            ),
        }
        return AdapterObserved(**fields | changes)

    # ---- what can be seen
    def published(self, event):
        return [decode(r, event) for r in self.broker.all(topic_of(event).name())]

    def dead(self, event):
        return self.broker.all(topic_of(event).dead_letters())

    def newest_route(self) -> RouteChanged | None:
        return max(self.published(RouteChanged), key=lambda r: r.epoch, default=None)

    async def apply(self, **changes):
        return await self.http.put("/v1/policies/support", json=SPEC | changes, headers={"x-headrace-by": "ada"})

    async def state_of(self, version: int) -> str | None:
        answer = await self.http.get(f"/v1/versions/support/{version}")
        return answer.json()["state"] if answer.status_code == 200 else None

    async def became(self, version: int, state: str) -> dict:
        async def check():
            return await self.state_of(version) == state

        await until(check)
        return (await self.http.get(f"/v1/versions/support/{version}")).json()

    async def route(self) -> dict:
        return (await self.http.get("/v1/policies/support/route")).json()

    async def settled(self) -> None:
        """Everything that was said has been taken: every group's offset stands at the end of its topics."""

        def done() -> bool:
            groups = {g for g, _ in self.broker.committed}
            return all(
                self.broker.committed.get((f"registry.{t}", (t, p)), 0) >= len(log)
                for (t, p), log in self.broker.logs.items()
                if any(topic_of(e).name() == t for e in (CheckpointSaved, EvaluationCompleted, AdapterObserved))
            ) and bool(groups)

        await until(done)


@contextlib.asynccontextmanager
async def registry(url: str, **options):
    await upgrade(url, "headrace_registry")
    world = RegistryWorld(url, **options)
    await world.start()
    try:
        yield world
    finally:
        await world.stop()


__all__ = ["SPEC", "TOKEN", "RegistryWorld", "datetime", "digest", "platform", "registry", "until"]
