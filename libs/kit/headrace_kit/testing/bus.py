"""The bus in memory: partitions, groups, offsets, seek and pause. At least once, ordered per partition."""

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace_kit.bus import OnAssigned, OnRecords, Partition
from headrace_kit.records import Outgoing, Record


@dataclass
class MemoryBroker:
    """What outlives a bus: the logs and the groups' committed offsets. Share one among the services of a test."""

    partitions: int = 3
    logs: dict[Partition, list[Record]] = field(default_factory=dict)
    committed: dict[tuple[str, Partition], int] = field(default_factory=dict)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    def of(self, topic: str) -> list[Partition]:
        return [(topic, n) for n in range(self.partitions)]

    async def append(self, records: Sequence[Outgoing]) -> None:
        for r in records:
            number = zlib.crc32(r.key or b"") % self.partitions
            entries = self.logs.setdefault((r.topic, number), [])
            entries.append(Record(r.topic, number, len(entries), r.key, r.value, r.headers))
        async with self.arrived:
            self.arrived.notify_all()

    def all(self, topic: str) -> list[Record]:
        """Everything on a topic, for assertions."""
        return [r for p in self.of(topic) for r in self.logs.get(p, [])]


class _Member:
    def __init__(self, broker: MemoryBroker, group: str) -> None:
        self._broker = broker
        self._group = group
        self.position: dict[Partition, int] = {}
        self.paused: set[Partition] = set()

    def seek(self, partition: Partition, offset: int) -> None:
        self.position[partition] = offset

    def pause(self, partition: Partition) -> None:
        self.paused.add(partition)

    def resume(self, partition: Partition) -> None:
        self.paused.discard(partition)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        for partition, offset in offsets.items():
            self._broker.committed[self._group, partition] = offset

    def take(self) -> list[Record]:
        batch: list[Record] = []
        for partition, position in self.position.items():
            if partition not in self.paused:
                fresh = self._broker.logs.get(partition, [])[position : position + 100]
                self.position[partition] = position + len(fresh)
                batch += fresh
        return batch


class MemoryBus:
    """See bus.Bus. One member per group and topic: a group with two members is a matter for the real broker."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._wanted: list[tuple[str, str, OnRecords, OnAssigned]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def subscribe(self, topic: str, group: str, on_records: OnRecords, on_assigned: OnAssigned) -> None:
        self._wanted.append((topic, group, on_records, on_assigned))

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(self._consume(*wanted)) for wanted in self._wanted]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def publish(self, records: Sequence[Outgoing]) -> None:
        await self._broker.append(records)

    async def _consume(self, topic: str, group: str, on_records: OnRecords, on_assigned: OnAssigned) -> None:
        member = _Member(self._broker, group)
        partitions = self._broker.of(topic)
        member.position = {p: self._broker.committed.get((group, p), 0) for p in partitions}
        await on_assigned(member, partitions)
        while True:
            batch = member.take()
            if batch:
                await on_records(member, batch)
            else:
                async with self._broker.arrived:
                    try:
                        async with asyncio.timeout(0.05):
                            await self._broker.arrived.wait()
                    except TimeoutError:
                        pass

    async def read_all(self, topic: str) -> "MemoryStateReader":
        return MemoryStateReader(self._broker, topic)


class MemoryStateReader:
    """See bus.StateReader."""

    def __init__(self, broker: MemoryBroker, topic: str) -> None:
        self._member = _Member(broker, "")
        self._broker = broker
        self._member.position = dict.fromkeys(broker.of(topic), 0)
        self._ends = {p: len(broker.logs.get(p, [])) for p in broker.of(topic)}

    async def read(self, timeout_s: float) -> Sequence[Record]:
        batch = self._member.take()
        if not batch:
            async with self._broker.arrived:
                try:
                    async with asyncio.timeout(min(timeout_s, 0.05)):
                        await self._broker.arrived.wait()
                except TimeoutError:
                    pass
            batch = self._member.take()
        return batch

    async def at_end(self) -> bool:
        return all(self._member.position[p] >= end for p, end in self._ends.items())

    async def close(self) -> None:
        pass
