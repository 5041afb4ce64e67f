"""E1 and E2: what the consumer costs beside a bare loop, and what idempotent rows cost beside COPY.

E1: the same records, on the same broker, read (a) by a bare `getmany` + JSON decode, which remembers nothing and can
lose or repeat anything, and (b) by the consumer with inbox and offset in PostgreSQL. Events per CPU-second of the
reading process. E2: the same rows into PostgreSQL by COPY, by the ledger's one statement per batch, and row by row
through the ORM's unit of work; rows per second of wall time.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import asyncpg
import orjson
from aiokafka import AIOKafkaConsumer
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_kit import ledger
from headrace_kit.create_topics import create
from headrace_kit.database import Database, kit_tables
from headrace_kit.kafka import KafkaBus
from headrace_kit.records import Record, encode, payload_hash
from headrace_kit.service import Service
from headrace_kit.settings import KafkaSettings, TopicSettings
from headrace_kit.work import Work
from headrace_local import parts
from headrace_local.bench.report import BenchReport, Row, ratio
from headrace_schemas import FeedbackRecorded, topic_of

SCHEMA = "bench"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Say = Callable[[str], None]


def _event(number: int) -> FeedbackRecorded:
    return FeedbackRecorded(
        occurred_at=NOW,
        recorded_at=NOW,
        feedback_id=f"fb-{number:09d}",
        revision=1,
        sequence=number,
        correlation_id=f"order-{number % 997}",
        metric_name="accepted",
        value=number % 3 == 0,
        comment="Could be shorter; the last sentence says nothing.",
    )


async def _tables(database: Database) -> None:
    from sqlalchemy import MetaData

    tables = MetaData()
    kit_tables(tables)
    async with database.engine.begin() as connection:
        await connection.execute(text(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"))
        await connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
        await connection.run_sync(tables.create_all)


async def _bare_loop(bootstrap: str, topic: str, events: int) -> float:
    """CPU seconds to read and decode all of them."""
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    seen, started = 0, time.process_time()
    while seen < events:
        for batch in (await consumer.getmany(timeout_ms=500, max_records=500)).values():
            for record in batch:
                orjson.loads(record.value)
                seen += 1
    spent = time.process_time() - started
    await consumer.stop()
    return spent


async def _our_consumer(kafka: KafkaSettings, prefix: str, database: Database, events: int, group: str) -> float:
    """CPU seconds for the same through the consumer: decoded, validated, remembered, offset moved."""
    await _tables(database)
    service = Service(group, bus=KafkaBus(kafka, group), database=database, prefix=prefix)
    service.closers.clear()
    seen, done = 0, asyncio.Event()

    async def handle(event: FeedbackRecorded, work: Work) -> None:
        nonlocal seen
        seen += 1
        if seen >= events:
            done.set()

    service.consumer.on(FeedbackRecorded, handle)
    await service.start()
    started = time.process_time()
    await done.wait()
    spent = time.process_time() - started
    await service.stop()
    return spent


async def _rows(database: Database, dsn: str, count: int) -> dict[str, float]:
    """Rows per second of the three ways, each into a fresh schema."""
    records, events = [], []
    for number in range(count):
        event = _event(number)
        out = encode(event, topic="t", source="bench", recorded_at=NOW)
        records.append(Record("t", 0, number, out.key, out.value, out.headers))
        events.append(event)
    rates = {}

    await _tables(database)
    connection = await asyncpg.connect(dsn)
    rows = [("t", "default", e.event_id(), payload_hash(r.value or b"")) for e, r in zip(events, records, strict=True)]
    started = time.perf_counter()
    await connection.copy_records_to_table(
        "inbox", schema_name=SCHEMA, records=rows, columns=["topic", "project", "event_id", "hash"]
    )
    rates["copy"] = count / (time.perf_counter() - started)
    await connection.close()

    await _tables(database)
    started = time.perf_counter()
    for at in range(0, count, 500):
        async with database.begin() as session:
            await ledger.unseen(session, records[at : at + 500], events[at : at + 500])
            await ledger.advance(session, ("t", 0), at or None, at + 500)
    rates["ledger"] = count / (time.perf_counter() - started)

    await _tables(database)
    few = count // 20
    started = time.perf_counter()
    for at in range(few):
        async with database.begin() as session:
            await _one_row(session, records[at], events[at])
    rates["row by row"] = few / (time.perf_counter() - started)
    return rates


async def _one_row(session: AsyncSession, record: Record, event: FeedbackRecorded) -> None:
    await ledger.unseen(session, [record], [event])


async def _measure(bootstrap: str, dsn: str, broker: str, events: int, rounds: int, say: Say) -> list[Row]:
    kafka = KafkaSettings(bootstrap=bootstrap, idempotence=broker == "kafka")
    prefix = f"bench{int(time.time())}"
    await create(kafka, TopicSettings(prefix=prefix))
    bus = KafkaBus(kafka, "bench-producer")
    await bus.start()
    topic = topic_of(FeedbackRecorded).name(prefix)
    for at in range(0, events, 1000):
        await bus.publish([encode(_event(n), topic=topic, source="bench") for n in range(at, min(at + 1000, events))])
    await bus.stop()
    database = Database(dsn, SCHEMA)
    bare, ours, copied, kept, single = [], [], [], [], []
    for number in range(rounds):
        bare.append(events / await _bare_loop(bootstrap, topic, events))
        ours.append(events / await _our_consumer(kafka, prefix, database, events, f"bench-{number}"))
        rates = await _rows(database, dsn, 10_000)
        copied.append(rates["copy"])
        kept.append(rates["ledger"])
        single.append(rates["row by row"])
        say(
            f"round {number + 1} of {rounds}: consumer {ours[-1]:,.0f}, bare loop {bare[-1]:,.0f} events per CPU-second"
        )
    await database.close()
    arms = {"consumer": median(ours), "bare getmany + decode": median(bare)}
    stored = {"copy": median(copied), "ledger": median(kept), "row by row": median(single)}
    return [
        ratio(f"E1.{broker}", ours, bare, 0.6, "events per CPU-second ÷ a bare loop's", arms),
        ratio("E2.vs_copy", kept, copied, 0.5, "durable idempotent rows per second ÷ COPY's", stored),
        ratio("E2.vs_row_by_row", kept, single, 10.0, "durable idempotent rows per second ÷ row by row", stored),
    ]


def run(broker: str = "embedded", events: int = 20_000, rounds: int = 5, say: Say = print) -> BenchReport:
    """Start a broker and a PostgreSQL of its own, measure, stop them. `broker`: embedded or kafka."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        start = parts.embedded_broker if broker == "embedded" else parts.apache_kafka
        with start(place / "broker") as bootstrap, parts.postgres(place / "postgres") as dsn:
            return BenchReport("events", asyncio.run(_measure(bootstrap, dsn, broker, events, rounds, say)))
