"""The consumer against real brokers and a real PostgreSQL, and the same scenarios on the bus in memory."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, func, insert, select, text

from headrace_kit.create_topics import create
from headrace_kit.database import Database, kit_tables
from headrace_kit.errors import Rejected, Retryable
from headrace_kit.kafka import KafkaBus
from headrace_kit.records import Outgoing, encode
from headrace_kit.service import Service
from headrace_kit.settings import TopicSettings
from headrace_kit.testing import MemoryBroker, MemoryBus
from headrace_schemas import FeedbackRecorded, topic_of

TABLES = MetaData()
kit_tables(TABLES)
SEEN = Table("seen", TABLES, Column("n", Integer, primary_key=True, autoincrement=True), Column("event_id", Text))
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def feedback(number: int, comment: str = "") -> FeedbackRecorded:
    return FeedbackRecorded(
        occurred_at=NOW,
        recorded_at=NOW,
        feedback_id=f"fb{number}",
        revision=1,
        sequence=number,
        correlation_id="same-key",
        metric_name="accepted",
        value=True,
        comment=comment,
    )


class World:
    """A bus (either kind), a database, and a service on them."""

    def __init__(self, kind: str, prefix: str, url: str, kafka=None) -> None:
        self.kind, self.prefix, self.url, self.kafka = kind, prefix, url, kafka
        self.broker = MemoryBroker()
        self.topic = topic_of(FeedbackRecorded).name(prefix)
        self.failures: dict[str, Exception] = {}
        self.calls: list[str] = []

    async def prepare(self) -> None:
        database = Database(self.url, "probe")
        async with database.engine.begin() as connection:
            await connection.execute(text("CREATE SCHEMA IF NOT EXISTS probe"))
            await connection.run_sync(TABLES.create_all)
        await database.close()
        if self.kafka:
            await create(self.kafka, TopicSettings(prefix=self.prefix))

    def bus(self):
        return KafkaBus(self.kafka, "probe") if self.kafka else MemoryBus(self.broker)

    def service(self) -> Service:
        service = Service("probe", bus=self.bus(), database=Database(self.url, "probe"), prefix=self.prefix)
        service.consumer.PAUSE_S = 0.3

        async def handle(event, work):
            self.calls.append(event.event_id())
            if event.feedback_id in self.failures:
                raise self.failures[event.feedback_id]
            await work.session.execute(insert(SEEN).values(event_id=event.event_id()))

        service.consumer.on(FeedbackRecorded, handle)
        return service

    async def send(self, *records: Outgoing) -> None:
        bus = self.bus()
        await bus.start()
        await bus.publish(records)
        await bus.stop()

    def record(self, event: FeedbackRecorded) -> Outgoing:
        return encode(event, topic=self.topic, source="test")

    async def seen(self) -> list[str]:
        database = Database(self.url, "probe")
        async with database.begin() as session:
            rows = (await session.execute(select(SEEN.c.event_id).order_by(SEEN.c.n))).scalars().all()
        await database.close()
        return list(rows)

    async def dead(self) -> list[dict[str, str]]:
        bus = self.bus()
        await bus.start()
        reader = await bus.read_all(f"{self.topic}.dlq")
        found = []
        while not await reader.at_end():
            found += await reader.read(0.2)
        await reader.close()
        await bus.stop()
        return [{k: v.decode("latin-1") for k, v in r.headers} | {"value": r.value} for r in found]

    async def until(self, condition, seconds: float = 30.0) -> None:
        for _ in range(int(seconds / 0.05)):
            if await condition():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"not reached: seen {await self.seen()}, calls {self.calls}")

    def saw(self, count: int):
        async def check() -> bool:
            return len(await self.seen()) >= count

        return check


@pytest.fixture(params=["memory", "embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def world(request, database_url, topic_prefix):
    from headrace_kit.settings import KafkaSettings

    kafka = None
    if request.param != "memory":
        bootstrap = request.getfixturevalue("embedded" if request.param == "embedded" else "apache")
        kafka = KafkaSettings(bootstrap=bootstrap, idempotence=request.param == "kafka")
    world = World(request.param, topic_prefix, database_url, kafka)
    await world.prepare()
    return world


async def test_bad_records_go_to_the_dead_letters_and_their_neighbours_are_handled(world):
    good = [world.record(feedback(n)) for n in range(3)]
    bad_header = Outgoing(good[0].topic, good[0].key, world.record(feedback(90)).value, (("note", b"\xff\xfe"),))
    not_json = Outgoing(good[0].topic, good[0].key, b"not json", ())
    unknown = Outgoing(good[0].topic, good[0].key, b'{"schema_version": 999}', ())
    nan = json.loads(good[0].value) | {"value": 1}
    not_finite = Outgoing(
        good[0].topic, good[0].key, json.dumps(nan).replace('"value": 1', '"value": NaN').encode(), ()
    )
    await world.send(good[0], bad_header, not_json, good[1], unknown, not_finite, good[2])
    service = world.service()
    await service.start()
    await world.until(world.saw(3))

    async def dead() -> bool:
        return len(await world.dead()) >= 4

    await world.until(dead)
    await service.stop()
    assert await world.seen() == ["fb0.1", "fb1.1", "fb2.1"]
    letters = await world.dead()
    assert [d["headrace-dlq-code"] for d in letters] == ["header_not_utf8", "not_json", "unknown_major", "not_json"]
    assert letters[1]["value"] == b"not json"
    assert letters[0]["note"] == b"\xff\xfe".decode("latin-1")


async def test_an_event_that_comes_twice_has_one_effect_and_another_content_is_a_conflict(world):
    await world.send(
        *[world.record(feedback(1)) for _ in range(3)], world.record(feedback(1, "other")), world.record(feedback(2))
    )
    service = world.service()
    await service.start()
    await world.until(world.saw(2))
    await service.stop()
    assert await world.seen() == ["fb1.1", "fb2.1"]
    if world.kind == "memory":
        return
    service = world.service()
    await service.start()

    async def one_letter() -> bool:
        return len(await world.dead()) == 1

    await world.until(one_letter)
    await service.stop()
    letters = await world.dead()
    # The trace differs from record to record, the payload does not: the same fact is no conflict.
    assert [d["headrace-dlq-code"] for d in letters] == ["conflict"]


async def test_a_rejected_record_costs_only_itself_and_a_bug_stops_its_partition(world):
    world.failures = {"fb1": Rejected("nonsense", "it makes no sense"), "fb3": ZeroDivisionError("a bug")}
    await world.send(*[world.record(feedback(n)) for n in range(5)])
    service = world.service()
    await service.start()
    await world.until(world.saw(2))

    async def stopped() -> bool:
        return service.alive() is not None

    await world.until(stopped)
    assert await world.seen() == ["fb0.1", "fb2.1"]
    assert "bug" in (service.alive() or "")
    await service.stop()
    world.failures = {}
    service = world.service()
    await service.start()
    await world.until(world.saw(4))
    await service.stop()
    assert await world.seen() == ["fb0.1", "fb2.1", "fb3.1", "fb4.1"]


async def test_what_is_away_pauses_the_partition_and_nothing_is_lost_or_dead(world):
    world.failures = {"fb1": Retryable("the store is away")}
    await world.send(*[world.record(feedback(n)) for n in range(3)])
    service = world.service()
    service.consumer.TRIES = 2
    await service.start()
    await world.until(world.saw(1))
    await asyncio.sleep(1.0)
    assert await world.seen() == ["fb0.1"]
    world.failures = {}
    await world.until(world.saw(3))
    await service.stop()
    assert await world.seen() == ["fb0.1", "fb1.1", "fb2.1"]


async def test_the_offset_in_postgres_is_the_truth_after_a_restart(world):
    await world.send(*[world.record(feedback(n)) for n in range(4)])
    for _ in range(2):
        service = world.service()
        await service.start()
        await world.until(world.saw(4))
        await service.stop()
    await world.send(world.record(feedback(4)))
    service = world.service()
    await service.start()
    await world.until(world.saw(5))
    await service.stop()
    assert world.calls.count("fb0.1") == 1
    assert await world.seen() == [f"fb{n}.1" for n in range(5)]


async def test_what_a_transaction_publishes_arrives_once_it_committed_and_not_before(world):
    service = world.service()
    await service.start()
    with pytest.raises(ZeroDivisionError):
        async with service.unit_of_work() as work:
            work.publish(feedback(7))
            raise ZeroDivisionError
    async with service.unit_of_work() as work:
        work.publish(feedback(8))
    await world.until(world.saw(1))
    await service.stop()
    assert await world.seen() == ["fb8.1"]
    database = Database(world.url, "probe")
    async with database.begin() as session:
        assert await session.scalar(select(func.count()).select_from(TABLES.tables["outbox"])) == 0
    await database.close()
