"""Records that a client hands out before, or while, it tells of the assignment are not handled from a wrong offset."""

import asyncio
from datetime import UTC, datetime

from sqlalchemy import MetaData, text

from headrace_kit.database import Database, kit_tables
from headrace_kit.errors import Rejected
from headrace_kit.records import Record, encode
from headrace_kit.service import Service
from headrace_kit.testing import MemoryBroker, MemoryBus
from headrace_schemas import FeedbackRecorded, topic_of

TABLES = MetaData()
kit_tables(TABLES)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
TOPIC = topic_of(FeedbackRecorded).name()


class HastyBus(MemoryBus):
    """Keeps what the consumer subscribed with, so that a test decides what comes when."""

    def subscribe(self, topic, group, on_records, on_assigned):
        self.on_records, self.on_assigned = on_records, on_assigned


class Assignment:
    def __init__(self):
        self.sought = []

    def seek(self, partition, offset):
        self.sought.append((partition, offset))

    def pause(self, partition): ...

    def resume(self, partition): ...

    async def commit(self, offsets): ...


def record(number: int) -> Record:
    event = FeedbackRecorded(
        occurred_at=NOW, recorded_at=NOW, feedback_id=f"fb{number}", revision=1, sequence=number,
        correlation_id="c", metric_name="accepted", value=True,
    )  # fmt: skip
    out = encode(event, topic=TOPIC, source="test", recorded_at=NOW)
    return Record(TOPIC, 0, number, out.key, out.value, out.headers)


async def consumer(url, calls):
    bus = HastyBus(MemoryBroker())
    service = Service("probe", bus=bus, database=Database(url, "probe"))

    async def handle(event, work):
        if event.feedback_id == "fb0" and not calls:
            raise Rejected("nonsense", "it makes no sense")
        calls.append(event.feedback_id)
        await asyncio.sleep(0.01)

    service.consumer.on(FeedbackRecorded, handle)
    return service, bus


async def test_a_dead_letter_is_not_handled_again_when_records_come_beside_the_news(database_url):
    database = Database(database_url, "probe")
    async with database.engine.begin() as connection:
        await connection.execute(text("CREATE SCHEMA probe"))
        await connection.run_sync(TABLES.create_all)
    await database.close()
    calls: list[str] = []
    service, bus = await consumer(database_url, calls)
    await bus.on_assigned(Assignment(), [(TOPIC, 0)])
    await bus.on_records(Assignment(), [record(0), record(1)])
    await service.database.close()
    assert calls == ["fb1"]

    service, bus = await consumer(database_url, calls)
    assignment = Assignment()
    everything = [record(0), record(1), record(2)]
    await asyncio.gather(bus.on_records(assignment, everything), bus.on_assigned(assignment, [(TOPIC, 0)]))
    assert calls == ["fb1", "fb2"]
    assert ((TOPIC, 0), 2) in assignment.sought
    await service.database.close()
