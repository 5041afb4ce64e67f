"""What the feedback and reward tests share: settings for a database, facts, a started service, a wait."""

import asyncio
import contextlib
import time
from datetime import UTC, datetime

import httpx2

from headrace_kit.clock import new_uuid7
from headrace_kit.settings import DatabaseSettings, KafkaSettings, PlatformSettings, ProcessSettings, TopicSettings
from headrace_schemas import InferenceCompleted, PolicyChanged, PolicySpec
from headrace_schemas.ids import episode_id, inference_id
from headrace_schemas.traffic import EngineFacts, Usage

TOKEN = "a-token-for-tests-only"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def platform(database_url: str, prefix: str = "headrace", kafka: KafkaSettings | None = None) -> PlatformSettings:
    return PlatformSettings(
        kafka=kafka or KafkaSettings(bootstrap="127.0.0.1:1"),
        topics=TopicSettings(prefix=prefix),
        database=DatabaseSettings(url=database_url),
        process=ProcessSettings(admin_token=TOKEN),
    )


@contextlib.asynccontextmanager
async def started(service):
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


@contextlib.asynccontextmanager
async def client(service, **headers):
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=service.app),
        base_url="http://service",
        headers={"authorization": f"Bearer {TOKEN}", **headers},
        timeout=60,
    ) as http:
        yield http


async def until(check, seconds: float = 20.0):
    """The first true answer of `check`, sync or not."""
    end = time.monotonic() + seconds
    while True:
        answer = check()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.03)


def an_episode() -> str:
    return episode_id(new_uuid7())


def an_inference(episode: str | None = None, **given) -> InferenceCompleted:
    episode = episode or an_episode()
    fields = {
        "inference_id": inference_id(episode, new_uuid7()),
        "episode_id": episode,
        "occurred_at": NOW,
        "policy": "support",
        "policy_version": 3,
        "adapter_digest": "a" * 64,
        "messages": ({"role": "user", "content": "Where is my kettle?"},),
        "completion": "Your kettle is on its way.",
        "prompt_token_ids": (1, 2, 3),
        "completion_token_ids": (4, 5, 6, 7),
        "logprobs": (-0.1, -0.2, -0.3, -0.4),
        "engine": EngineFacts(base_model="base"),
        "state": "completed",
        "finish_reason": "stop",
        "usage": Usage(prompt_tokens=3, completion_tokens=4),
        "latency_s": 0.2,
    }
    return InferenceCompleted(**(fields | given))


def a_policy(revision: int = 1, policy: str = "support", reward: dict | None = None) -> PolicyChanged:
    spec = PolicySpec.model_validate(
        {
            "policy": policy,
            "base_model": "base",
            "reward": reward or {"parts": [{"name": "user", "kind": "feedback"}]},
            "gate": {"suite": "private"},
        }
    )
    return PolicyChanged(occurred_at=NOW, policy=policy, revision=revision, digest=spec.digest(), spec=spec.canonical())
