"""Counting dead letters: each dead-letter topic is looked through in turn, one at a time, and never consumed.

A record is known by its position, so that looking again changes nothing.
"""

import asyncio

import structlog
from aiokafka.errors import KafkaError

from headrace_console.core.fold import excerpt
from headrace_console.store import Row, Store
from headrace_kit.errors import Retryable
from headrace_kit.records import Record
from headrace_kit.service import Service
from headrace_schemas import TOPICS

log = structlog.get_logger()
MOST = 20_000
"""Records of one topic that a look takes: who has more knows that something is wrong."""


async def run(service: Service, every_s: float) -> None:
    """Until cancelled. A broker that is away, or a topic that is not there yet, is looked at in the next round."""
    while True:
        for topic in TOPICS:
            await asyncio.sleep(every_s / len(TOPICS))
            name = topic.dead_letters(service.prefix)
            try:
                records = await look(service, name)
                async with service.unit_of_work() as work:
                    await Store(work.session).add_dead_letters([row(topic.name(service.prefix), r) for r in records])
            except (Retryable, KafkaError) as error:
                log.debug("dead letters not looked through", topic=name, error=str(error))


async def look(service: Service, name: str) -> list[Record]:
    """Everything on a topic, up to MOST records."""
    reader = await service.bus.read_all(name)
    found: list[Record] = []
    try:
        while len(found) < MOST and not await reader.at_end():
            found += await reader.read(1.0)
    finally:
        await reader.close()
    return found


def row(topic: str, record: Record) -> Row:
    return {
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "service": excerpt(record.header("headrace-dlq-service") or "", 100),
        "code": excerpt(record.header("headrace-dlq-code") or "", 100),
        "reason": excerpt(record.header("headrace-dlq-reason") or "no reason given"),
    }
