"""The gateway as the process that runs in production: started without Kafka, killed without warning, started again."""

import asyncio
import contextlib
import os
import signal
import sys

import aiohttp
import pytest

from headrace_kit.create_topics import create
from headrace_kit.kafka import KafkaBus
from headrace_kit.records import decode, encode
from headrace_kit.settings import KafkaSettings, TopicSettings
from headrace_local import ports
from headrace_schemas import InferenceCompleted, topic_of
from headrace_serving.testing import FakeEngine
from tests.integration.serving_world import BASE, SECRET, gateway, key, observed, route

HEADERS = {"authorization": f"Bearer hr_abcdefgh_{SECRET}"}
ASK = {"model": "support", "messages": [{"role": "user", "content": "Where is my parcel?"}]}


@contextlib.asynccontextmanager
async def process(folder, bootstrap, prefix, *, idempotence=False):
    """`python -m headrace_serving gateway`; killed with -9 at the end."""
    port = ports.choose(["gateway"])["gateway"]
    env = os.environ | {
        "HEADRACE_KAFKA_BOOTSTRAP": bootstrap,
        "HEADRACE_KAFKA_IDEMPOTENCE": str(idempotence).lower(),
        "HEADRACE_TOPIC_PREFIX": prefix,
        "HEADRACE_ADMIN_TOKEN": "an-admin-token-of-length",
        "GATEWAY_DATA_DIR": str(folder),
        "GATEWAY_PORT": str(port),
    }
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "headrace_serving", "gateway", env=env)
    try:
        async with asyncio.timeout(30), aiohttp.ClientSession() as http:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    if (await http.get(f"http://127.0.0.1:{port}/health/live")).status == 200:
                        break
                assert child.returncode is None
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGKILL)
        await child.wait()


async def ask(url, count):
    async with aiohttp.ClientSession(headers=HEADERS) as http:

        async def one(n):
            async with http.post(f"{url}/v1/chat/completions", json=ASK | {"stream": n % 2 == 0}) as response:
                assert response.status == 200
                await response.read()
                return response.headers["x-headrace-inference-id"]

        return {await one(n) for n in range(count)}


@pytest.mark.timeout(120)
async def test_what_a_killed_gateway_had_answered_is_published_after_its_restart(
    tmp_path, kafka_settings: KafkaSettings, topic_prefix
):
    topics = TopicSettings(prefix=topic_prefix)
    await create(kafka_settings, topics)
    bus = KafkaBus(kafka_settings, "test")
    await bus.start()
    async with FakeEngine(BASE) as engine:
        async with gateway(tmp_path, route(), key("abcdefgh", "inference"), observed(engine)):
            pass  # leaves its copies of the state
        async with process(tmp_path, "127.0.0.1:1", topic_prefix) as url:  # no Kafka there
            first = await ask(url, 12)
        async with process(tmp_path, kafka_settings.bootstrap, topic_prefix) as url:
            changed = route(epoch=5)
            await bus.publish([encode(changed, topic=topic_of(type(changed)).name(topic_prefix), source="test")])
            second = await ask(url, 4)
            reader = await bus.read_all(topic_of(InferenceCompleted).name(topic_prefix))
            found = []
            async with asyncio.timeout(30):
                while {r.inference_id for r in found} < first | second:
                    found += [decode(record, InferenceCompleted) for record in await reader.read(0.5)]
            await reader.close()
    await bus.stop()
    assert {r.inference_id for r in found} == first | second
    assert all(r.state == "completed" and r.logprobs for r in found)


async def test_a_wrong_setting_is_one_sentence_and_exit_2():
    env = os.environ | {"HEADRACE_ADMIN_TOKEN": "short", "HEADRACE_KAFKA_BOOTSTRAP": "x:1"}
    for arguments, words in ((["gateway"], b"HEADRACE_ADMIN_TOKEN"), (["nothing"], b"gateway | agent")):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headrace_serving", *arguments, env=env, stderr=asyncio.subprocess.PIPE
        )
        _, said = await child.communicate()
        assert child.returncode == 2
        assert words in said
        assert len(said.splitlines()) == 1
