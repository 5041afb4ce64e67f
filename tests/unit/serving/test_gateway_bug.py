"""What a client sees when the gateway itself breaks: an end, never silence."""

import asyncio
from datetime import UTC, datetime

import httpx2
import pytest
from aiohttp import web

from headrace_kit.records import encode
from headrace_kit.settings import KafkaSettings, ProcessSettings, TopicSettings
from headrace_kit.testing import MemoryBroker, MemoryBus
from headrace_schemas import KeyChanged, RouteChanged, topic_of
from headrace_schemas.base import VersionRef
from headrace_schemas.keys import hash_secret
from headrace_serving.app import build_gateway
from headrace_serving.settings import GatewaySettings, PlacesSettings, ServingPlatform

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "s" * 40
BODY = {"model": "support", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
async def ask(tmp_path):
    """Asks a gateway in this process, whose engine answers what `answers` holds last, and notes the paths it saw."""
    answers, paths = [], []

    async def answer(request):
        paths.append(request.raw_path)
        return web.json_response(answers[-1] if answers else {})

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    engine = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    broker = MemoryBroker()
    service = build_gateway(
        GatewaySettings(data_dir=tmp_path, engines=f"m={engine}"),
        ServingPlatform(
            kafka=KafkaSettings(bootstrap="127.0.0.1:1"),
            topics=TopicSettings(),
            process=ProcessSettings(admin_token="an-admin-token-of-length"),
            places=PlacesSettings(feedback_url=engine, models_dir=None),
        ),
        bus=MemoryBus(broker),
    )
    key = KeyChanged(
        occurred_at=NOW,
        prefix="abcdefgh",
        salt="00",
        hash=hash_secret("00", SECRET),
        scopes=("inference", "feedback"),
    )
    base = VersionRef(version=0, engine_model="m")
    route = RouteChanged(occurred_at=NOW, policy="support", base_model="m", epoch=1, champion=base)
    await broker.append([encode(e, topic=topic_of(type(e)).name("headrace"), source="t") for e in (key, route)])
    await service.start()
    transport = httpx2.ASGITransport(app=service.app, raise_app_exceptions=False)
    headers = {"authorization": f"Bearer hr_abcdefgh_{SECRET}"}
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
        async with asyncio.timeout(10):
            while (await client.get("/health/ready")).status_code != 200:
                await asyncio.sleep(0.02)
        client.answers, client.paths = answers, paths
        yield client
    await service.stop()
    await runner.cleanup()


async def test_a_bug_behind_a_request_ends_it_instead_of_leaving_its_client_waiting(ask):
    ask.answers.append({"choices": ["not an object"]})
    async with asyncio.timeout(5):
        answer = await ask.post("/v1/chat/completions", json=BODY)
    assert answer.status_code == 500
    ask.answers.append({"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]})
    assert (await ask.post("/v1/chat/completions", json=BODY)).status_code == 200


async def test_a_body_too_deep_for_the_engine_is_refused_and_not_left_waiting(ask):
    deep = b"[" * 300 + b"]" * 300
    body = b'{"model": "support", "messages": [{"role": "user", "content": ' + deep + b"}]}"
    async with asyncio.timeout(5):
        answer = await ask.post("/v1/chat/completions", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")


@pytest.mark.parametrize("given", ["x%3Fproject=b", "x%23y", "%2e%2e", "a%252Fb"])
async def test_a_feedback_id_cannot_say_another_address_to_the_feedback_service(ask, given):
    await ask.get(f"/v1/feedback/{given}")
    assert len(ask.paths) == 1
    path = ask.paths[0]
    assert path.startswith("/v1/feedback/")
    assert "?" not in path
    assert path.count("/") == 3
    assert not path.lower().endswith("a%2fb")
