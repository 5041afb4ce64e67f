"""Following a compacted topic, on the bus in memory and on both brokers."""

import asyncio
from datetime import UTC, datetime

import pytest

from headrace_kit.create_topics import create
from headrace_kit.follower import Follower
from headrace_kit.kafka import KafkaBus
from headrace_kit.records import Outgoing, encode
from headrace_kit.settings import KafkaSettings, TopicSettings
from headrace_kit.testing import MemoryBroker, MemoryBus
from headrace_schemas import RouteChanged, topic_of
from headrace_schemas.base import VersionRef


def route(epoch: int, policy: str = "support") -> RouteChanged:
    return RouteChanged(
        occurred_at=datetime(2026, 1, 1, tzinfo=UTC),
        policy=policy,
        base_model="base",
        epoch=epoch,
        champion=VersionRef(version=epoch, engine_model=f"m{epoch}"),
    )


@pytest.fixture(params=["memory", "embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def make_bus(request, topic_prefix):
    if request.param == "memory":
        broker = MemoryBroker()
        return lambda: MemoryBus(broker)
    kafka = KafkaSettings(bootstrap=request.getfixturevalue("embedded" if request.param == "embedded" else "apache"))
    await create(kafka, TopicSettings(prefix=topic_prefix))
    return lambda: KafkaBus(kafka, "probe")


async def until(condition, seconds=20.0):
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("not reached")


async def test_the_newest_state_per_key_holds_and_a_restart_begins_with_the_copy(make_bus, topic_prefix, tmp_path):
    bus = make_bus()
    await bus.start()
    topic = topic_of(RouteChanged).name(topic_prefix)

    async def send(*events):
        await bus.publish([encode(e, topic=topic, source="test") for e in events])

    await send(route(1), route(3), route(2), route(1, "other"))
    await bus.publish([Outgoing(topic, b"junk", b"not json")])
    changes = []

    async def on_change(event):
        changes.append((event.policy, event.epoch))

    def follower():
        return Follower(
            bus, RouteChanged, topic_prefix, lambda e: e.epoch, copy=tmp_path / "routes.json", on_change=on_change
        )

    first = follower()
    task = asyncio.create_task(first.run())
    await asyncio.wait_for(first.caught_up.wait(), 20)
    assert first.get("support").epoch == 3
    assert first.get("other").epoch == 1
    await send(route(4))
    await until(lambda: first.get("support").epoch == 4)
    await until(lambda: ("support", 4) in changes)
    assert ("support", 2) not in changes
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bus.stop()

    second = follower()  # no bus yet: the copy answers
    assert second.get("support").epoch == 4
    assert not second.caught_up.is_set()
