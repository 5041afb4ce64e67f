"""The outbox: what a transaction decided to publish, published after it in batches, removed once all are acked.

One relay at a time per schema (an advisory lock), so that records of one key keep their order. A crash between the
ack and the removal publishes a row again; its `ce_id` is the same, and inboxes know it.
"""

import asyncio
from collections.abc import Sequence

import structlog
from sqlalchemy import MetaData, delete, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_kit.bus import Bus
from headrace_kit.database import Database, kit_tables
from headrace_kit.errors import Retryable
from headrace_kit.records import Outgoing
from headrace_kit.telemetry import PENDING, PUBLISHED

_TABLES = MetaData()
kit_tables(_TABLES)
OUTBOX = _TABLES.tables["outbox"]
BATCH = 500
log = structlog.get_logger()


async def add(session: AsyncSession, records: Sequence[Outgoing]) -> None:
    """Part of the caller's transaction."""
    if records:
        await session.execute(
            insert(OUTBOX),
            [
                {
                    "topic": r.topic,
                    "key": r.key,
                    "value": r.value,
                    "headers": [[k, v.decode("latin-1")] for k, v in r.headers],
                }
                for r in records
            ],
        )


class Relay:
    """Publishes a schema's outbox. `wake` after a commit makes it immediate; it also looks by itself."""

    def __init__(self, database: Database, bus: Bus, every_s: float = 1.0) -> None:
        self._database = database
        self._bus = bus
        self._every_s = every_s
        self._wake = asyncio.Event()

    def wake(self) -> None:
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled. An outage of the database or the broker is waited out."""
        delay = 0.1
        while True:
            try:
                while await self.publish_batch() == BATCH:
                    pass
                delay = 0.1
            except Retryable as error:
                log.warning("outbox waits", error=str(error), again_in_s=delay)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)
                continue
            try:
                async with asyncio.timeout(self._every_s):  # wait_for can swallow a cancellation (Python 3.11)
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def publish_batch(self) -> int:
        """Publish and remove at most BATCH rows; answers how many. 0 where another relay has the turn."""
        async with self._database.begin() as session:
            turn = await session.execute(
                select(func.pg_try_advisory_xact_lock(func.hashtext(text("current_schema() || '.outbox'"))))
            )
            if not turn.scalar_one():
                return 0
            rows = (await session.execute(select(OUTBOX).order_by(OUTBOX.c.id).limit(BATCH))).all()
            PENDING.set(len(rows))
            if not rows:
                return 0
            await self._bus.publish(
                [Outgoing(r.topic, r.key, r.value, tuple((k, v.encode("latin-1")) for k, v in r.headers)) for r in rows]
            )
            await session.execute(delete(OUTBOX).where(OUTBOX.c.id.in_([r.id for r in rows])))
        for row in rows:
            PUBLISHED.labels(row.topic).inc()
        return len(rows)
