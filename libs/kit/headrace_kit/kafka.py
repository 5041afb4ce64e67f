"""The bus on Kafka: FastStream's broker and aiokafka's consumers, with raw records and our own acknowledgement.

FastStream would decode headers before any of our code runs and skip what it cannot decode, and its acks commit
positions, not offsets. So its parser is replaced by one that reads nothing, its ack policy is MANUAL, and offsets are
stated explicitly after the effect.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError
from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaMessage

from headrace_kit.bus import OnAssigned, OnRecords, Partition
from headrace_kit.errors import Retryable
from headrace_kit.records import Outgoing, Record
from headrace_kit.settings import KafkaSettings

log = structlog.get_logger()
MAX_BYTES = 8 * 1024 * 1024


def record_of(raw: Any) -> Record:
    """Aiokafka's record as ours."""
    return Record(
        topic=raw.topic,
        partition=raw.partition,
        offset=raw.offset,
        key=raw.key,
        value=raw.value,
        headers=tuple((name, value or b"") for name, value in raw.headers),  # Kafka knows a header without a value
        timestamp_ms=raw.timestamp,
    )


class KafkaAssignment:
    """Partitions of one aiokafka consumer. A partition that was revoked meanwhile is left alone."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer

    def _mine(self, partition: Partition) -> TopicPartition | None:
        tp = TopicPartition(*partition)
        return tp if tp in self._consumer.assignment() else None

    def seek(self, partition: Partition, offset: int) -> None:
        if tp := self._mine(partition):
            self._consumer.seek(tp, offset)

    def pause(self, partition: Partition) -> None:
        if tp := self._mine(partition):
            self._consumer.pause(tp)

    def resume(self, partition: Partition) -> None:
        if tp := self._mine(partition):
            self._consumer.resume(tp)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        wanted = {tp: offset for p, offset in offsets.items() if (tp := self._mine(p))}
        if not wanted:
            return
        try:
            await self._consumer.commit(wanted)
        except (KafkaError, IllegalStateError) as error:
            log.warning("offset hint not committed", error=repr(error))


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, subscription: "_Subscription") -> None:
        self._subscription = subscription

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Waits until the batch in flight has ended, so that the next owner finds its offset."""
        async with self._subscription.busy:
            pass

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        await self._subscription.assigned(sorted((tp.topic, tp.partition) for tp in assigned))


class _Subscription:
    def __init__(self, on_records: OnRecords, on_assigned: OnAssigned) -> None:
        self._on_records = on_records
        self._on_assigned = on_assigned
        self.busy = asyncio.Lock()
        self.subscriber: Any = None

    async def assigned(self, partitions: Sequence[Partition]) -> None:
        await self._on_assigned(KafkaAssignment(self.subscriber.consumer), partitions)

    async def parse(self, raw: tuple[Any, ...]) -> KafkaMessage:
        """Reads nothing: decoding is the consumer's, where a bad record can be put aside."""
        return KafkaMessage(body=b"", headers={}, raw_message=raw, consumer=self.subscriber.consumer)

    async def decode(self, message: KafkaMessage) -> Any:
        return message.raw_message

    async def handle(self, raw: Any) -> None:
        async with self.busy:
            await self._on_records(KafkaAssignment(self.subscriber.consumer), [record_of(r) for r in raw])


class _Broker(KafkaBroker):
    async def start(self) -> None:
        """Joins all groups at once: the embedded broker lets each join wait half a session timeout."""
        await self.connect()
        started = await asyncio.gather(*(s.start() for s in self.subscribers), return_exceptions=True)
        for problem in started:
            if isinstance(problem, BaseException):
                raise problem
        self.running = True


class KafkaBus:
    """See bus.Bus."""

    def __init__(self, settings: KafkaSettings, client: str) -> None:
        self._settings = settings
        self._client = client
        self._broker = _Broker(
            settings.bootstrap.split(","),
            client_id=client,
            consumer_only=True,
            allow_auto_create_topics=False,
            apply_types=False,
            graceful_timeout=20.0,
            logger=None,
        )
        self._producer: AIOKafkaProducer | None = None

    def subscribe(self, topic: str, group: str, on_records: OnRecords, on_assigned: OnAssigned) -> None:
        subscription = _Subscription(on_records, on_assigned)
        subscriber = self._broker.subscriber(
            topic,
            group_id=group,
            batch=True,
            max_records=500,
            auto_offset_reset="earliest",
            ack_policy=AckPolicy.MANUAL,
            listener=_Listener(subscription),
            fetch_max_wait_ms=500,
            max_partition_fetch_bytes=MAX_BYTES,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=3_000,
        )
        subscription.subscriber = subscriber
        subscriber(subscription.handle, parser=subscription.parse, decoder=subscription.decode)

    async def start(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._settings.bootstrap.split(","),
            client_id=self._client,
            enable_idempotence=self._settings.idempotence,
            acks="all",
            linger_ms=2,
            max_request_size=MAX_BYTES,
            request_timeout_ms=10_000,
        )
        try:
            await producer.start()
            self._producer = producer
            await self._broker.start()
        except KafkaError as error:
            await producer.stop()
            await self.stop()
            raise Retryable(f"no Kafka at {self._settings.bootstrap}: {error!r}") from error

    async def stop(self) -> None:
        await self._broker.stop()
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()

    async def publish(self, records: Sequence[Outgoing]) -> None:
        if self._producer is None:
            raise Retryable("the bus is not connected")
        try:
            sent = [
                await self._producer.send(r.topic, value=r.value, key=r.key, headers=list(r.headers)) for r in records
            ]
            await asyncio.gather(*sent)
        except KafkaError as error:
            raise Retryable(f"the broker did not acknowledge: {error!r}") from error

    async def read_all(self, topic: str) -> "KafkaStateReader":
        reader = KafkaStateReader(self._settings, topic, self._client)
        await reader.open()
        return reader


class KafkaStateReader:
    """See bus.StateReader."""

    def __init__(self, settings: KafkaSettings, topic: str, client: str) -> None:
        self._topic = topic
        self._consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=settings.bootstrap.split(","),
            client_id=f"{client}-state",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=500,
            max_partition_fetch_bytes=MAX_BYTES,
        )
        self._ends: dict[TopicPartition, int] = {}

    async def open(self) -> None:
        try:
            await self._consumer.start()
            assigned = self._consumer.assignment()  # in no group: every partition there is
            self._ends = await self._consumer.end_offsets(assigned) if assigned else {}
        except BaseException:  # nobody else would end what it started in the background
            await self._consumer.stop()
            raise
        if not assigned:
            await self._consumer.stop()
            raise Retryable(f"the topic {self._topic} does not exist yet")

    async def read(self, timeout_s: float) -> Sequence[Record]:
        batches = await self._consumer.getmany(timeout_ms=int(timeout_s * 1000))
        return [record_of(raw) for records in batches.values() for raw in records]

    async def at_end(self) -> bool:
        for tp, end in self._ends.items():
            if await self._consumer.position(tp) < end:
                return False
        return True

    async def close(self) -> None:
        await self._consumer.stop()
