"""The consumer: effects, outbox, inbox and offset in one transaction; the offset in Postgres is the truth.

A batch is tried whole; where it fails, its records are taken one by one, so that one bad record costs only itself:
`Rejected` goes to the dead letters and is passed, `Retryable` backs off and then pauses the partition, anything else is
a bug that stops the partition and says so.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from headrace_kit import ledger, tracing
from headrace_kit.bus import Assignment, Bus, Partition
from headrace_kit.clock import Clock
from headrace_kit.database import Database
from headrace_kit.errors import Fenced, Rejected, Retryable
from headrace_kit.outbox import Relay
from headrace_kit.records import Record, by_partition, dead_letter, decode
from headrace_kit.telemetry import HANDLING, PAUSED, RECORDS, STOPPED
from headrace_kit.work import Work
from headrace_schemas import Event, Topic, topic_of

log = structlog.get_logger()

Handler = Callable[[Any, Work], Awaitable[None]]
"""(event, work) → None. Replay-safe; raises Rejected or Retryable; touches nothing but `work`."""


@dataclass(slots=True)
class _Subscription:
    topic: Topic
    handler: Handler
    expected: dict[Partition, int | None] = field(default_factory=dict)
    """The next offset by Postgres; None where it has none yet, absent where it was not asked."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Positioning and handling take turns: clients hand out records while they still tell of an assignment."""


class Consumer:
    """All subscriptions of one service."""

    TRIES = 4
    PAUSE_S = 5.0

    def __init__(self, service: str, bus: Bus, database: Database, relay: Relay, clock: Clock, prefix: str) -> None:
        self._service = service
        self._bus = bus
        self._database = database
        self._relay = relay
        self._clock = clock
        self._prefix = prefix
        self._resuming: set[asyncio.Task[None]] = set()
        self.stopped: dict[Partition, str] = {}
        self.moved_at = clock.monotonic()

    def on(self, event: type[Event], handler: Handler) -> None:
        """One subscriber, one topic, one group, named after the service."""
        topic = topic_of(event)
        subscription = _Subscription(topic, handler)

        async def on_records(assignment: Assignment, records: Sequence[Record]) -> None:
            await self._on_records(subscription, assignment, records)

        async def on_assigned(assignment: Assignment, partitions: Sequence[Partition]) -> None:
            await self._on_assigned(subscription, assignment, partitions)

        name = topic.name(self._prefix)
        self._bus.subscribe(name, f"{self._service}.{name}", on_records, on_assigned)

    def problem(self) -> str | None:
        """None while every partition moves."""
        if not self.stopped:
            return None
        where, why = next(iter(self.stopped.items()))
        return f"partition {where[1]} of {where[0]} is stopped by a bug: {why}"

    # ---- assignment -------------------------------------------------------------------------------------------------
    async def _on_assigned(
        self, subscription: _Subscription, assignment: Assignment, partitions: Sequence[Partition]
    ) -> None:
        async with subscription.turn:
            subscription.expected.clear()
            for partition in partitions:
                try:
                    await self._position(subscription, assignment, partition)
                except Retryable as error:
                    log.warning("offset not readable yet", topic=partition[0], error=str(error))
                    self._pause(subscription, assignment, partition, None)

    async def _position(
        self, subscription: _Subscription, assignment: Assignment, partition: Partition, default: int | None = None
    ) -> None:
        """Seek to the offset in Postgres, or to `default` where it has none, and let the partition flow."""
        async with self._database.begin() as session:
            found = await ledger.position(session, partition)
        subscription.expected[partition] = found
        target = found if found is not None else default
        if target is not None:
            assignment.seek(partition, target)

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._resuming.add(task)
        task.add_done_callback(self._resuming.discard)

    async def close(self) -> None:
        for task in tuple(self._resuming):
            task.cancel()
        await asyncio.gather(*self._resuming, return_exceptions=True)

    # ---- records ----------------------------------------------------------------------------------------------------
    async def _on_records(self, subscription: _Subscription, assignment: Assignment, records: Sequence[Record]) -> None:
        self.moved_at = self._clock.monotonic()
        async with subscription.turn:
            for partition, batch in by_partition(records).items():
                await self._take(subscription, assignment, partition, batch)

    async def _take(
        self, subscription: _Subscription, assignment: Assignment, partition: Partition, batch: list[Record]
    ) -> None:
        if partition in self.stopped:
            return
        if partition not in subscription.expected:  # they came before the news of the assignment
            try:
                await self._position(subscription, assignment, partition)
            except Retryable as error:
                log.warning("offset not readable yet", topic=partition[0], error=str(error))
                self._pause(subscription, assignment, partition, batch[0].offset)
                return
        expected = subscription.expected[partition]
        fresh = [r for r in batch if expected is None or r.offset >= expected]
        if len(fresh) < len(batch):
            # A few after a rebalance; many where a topic was made anew under offsets that an older one left.
            log.warning(
                "records before the stored offset are skipped",
                topic=partition[0],
                partition=partition[1],
                offset=batch[0].offset,
                stored=expected,
                records=len(batch) - len(fresh),
            )
        if not fresh:
            return
        try:
            await self._transaction(subscription, partition, fresh, "batch")
        except Fenced as error:
            log.warning("another consumer moved this partition", topic=partition[0], error=str(error))
            self._pause(subscription, assignment, partition, fresh[0].offset)
            return
        except Exception as error:  # noqa: BLE001 - the records are taken one by one, each with its own end
            if len(fresh) > 1:
                log.info("batch is taken one by one", topic=partition[0], partition=partition[1], error=repr(error))
            for record in fresh:
                if not await self._one(subscription, assignment, partition, record):
                    return
        await assignment.commit({partition: fresh[-1].offset + 1})

    async def _one(
        self, subscription: _Subscription, assignment: Assignment, partition: Partition, record: Record
    ) -> bool:
        """Whether the record is dealt with, so that the next one may be."""
        for attempt in range(1, self.TRIES + 1):
            try:
                await self._transaction(subscription, partition, [record], "record", attempt=attempt)
                return True
            except Rejected as reason:
                try:
                    await self._transaction(
                        subscription, partition, [record], "dead-letter", attempt=attempt, reason=reason
                    )
                    return True
                except (Retryable, Fenced) as error:
                    log.warning("dead letter not written", error=str(error))
                except Exception as bug:  # noqa: BLE001 - loud, and the partition stops
                    self._stop(assignment, partition, record, bug)
                    return False
            except Retryable as error:
                log.warning(
                    "record will be tried again",
                    topic=record.topic,
                    offset=record.offset,
                    error=str(error),
                    attempt=attempt,
                )
            except Fenced:
                break
            except Exception as bug:  # noqa: BLE001 - loud, and the partition stops
                self._stop(assignment, partition, record, bug)
                return False
            if attempt < self.TRIES:
                await asyncio.sleep(0.05 * 4**attempt * random.uniform(0.5, 1.5))  # noqa: S311 - jitter
        self._pause(subscription, assignment, partition, record.offset)
        return False

    def _stop(self, assignment: Assignment, partition: Partition, record: Record, bug: Exception) -> None:
        """Loudly: nothing on this partition is passed over, and the process's health says so."""
        where = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        log.error("a bug stops this partition", exc_info=bug, **where)
        self.stopped[partition] = repr(bug)
        STOPPED.labels(record.topic).set(len(self.stopped))
        assignment.pause(partition)

    def _pause(
        self, subscription: _Subscription, assignment: Assignment, partition: Partition, offset: int | None
    ) -> None:
        """Wait for what is away without leaving the group; nothing goes to the dead letters for an outage."""
        PAUSED.labels(partition[0]).inc()
        assignment.pause(partition)

        async def resume() -> None:
            while True:
                await asyncio.sleep(self.PAUSE_S)
                try:
                    async with subscription.turn:
                        await self._position(subscription, assignment, partition, offset)
                except Retryable as error:
                    log.warning("partition stays paused", topic=partition[0], partition=partition[1], error=str(error))
                except Exception as bug:  # it would stay paused for ever, and nobody would know
                    log.exception("a bug stops this partition", topic=partition[0], partition=partition[1])
                    self.stopped[partition] = repr(bug)
                    return
                else:
                    break
            PAUSED.labels(partition[0]).dec()
            assignment.resume(partition)

        self._later(resume())

    async def _transaction(
        self,
        subscription: _Subscription,
        partition: Partition,
        records: list[Record],
        unit: str,
        *,
        attempt: int = 1,
        reason: Rejected | None = None,
    ) -> None:
        """Effects, inbox, outbox and offset of these records, all or nothing."""
        model = subscription.topic.event
        handled = 0
        started = self._clock.monotonic()
        async with self._database.begin() as session:
            work = Work(session, self._clock, self._service, self._prefix)
            if reason is not None:
                work.publish_raw(
                    dead_letter(
                        records[0], subscription.topic.dead_letters(self._prefix), reason, attempt, self._service
                    )
                )
            else:
                events = [decode(record, model) for record in records]
                for record, event in await ledger.unseen(session, records, events):
                    tracing.enter(record.header("traceparent"))
                    work.cause = record.header("ce_id") or event.event_id()
                    await subscription.handler(event, work)
                    handled += 1
            published = await work.flush()
            await ledger.advance(session, partition, subscription.expected.get(partition), records[-1].offset + 1)
        subscription.expected[partition] = records[-1].offset + 1
        if published:
            self._relay.wake()
        outcome = "dead_letter" if reason else "handled"
        duplicates = 0 if reason else len(records) - handled
        RECORDS.labels(partition[0], outcome).inc(len(records) - duplicates)
        RECORDS.labels(partition[0], "duplicate").inc(duplicates)
        spent = self._clock.monotonic() - started
        HANDLING.labels(partition[0]).observe(spent)
        log.info(
            f"{unit} {outcome}",
            topic=partition[0],
            partition=partition[1],
            offset=records[0].offset,
            records=len(records),
            duplicates=duplicates,
            attempt=attempt,
            duration_s=round(spent, 6),
            **({"code": reason.code, "reason": reason.message} if reason else {}),
        )
