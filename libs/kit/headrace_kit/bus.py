"""What a message bus must do for us. Two of them exist: Kafka (kafka.py) and one in memory (testing/bus.py)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from headrace_kit.records import Outgoing, Record

Partition = tuple[str, int]
"""Topic and partition number."""


class Assignment(Protocol):
    """What a consumer may do with the partitions that it was given."""

    def seek(self, partition: Partition, offset: int) -> None: ...

    def pause(self, partition: Partition) -> None: ...

    def resume(self, partition: Partition) -> None: ...

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Tell the broker the next offsets: a hint for lag displays, never what correctness rests on."""


OnRecords = Callable[[Assignment, Sequence[Record]], Awaitable[None]]
OnAssigned = Callable[[Assignment, Sequence[Partition]], Awaitable[None]]


class Bus(Protocol):
    """Publish and subscribe. Delivery is at least once, in order per partition."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def publish(self, records: Sequence[Outgoing]) -> None:
        """Returns when the broker has acknowledged all of them; raises Retryable where it did not."""

    def subscribe(self, topic: str, group: str, on_records: OnRecords, on_assigned: OnAssigned) -> None:
        """Before `start`. `on_records` gets batches, awaits itself out, and never raises."""

    async def read_all(self, topic: str) -> "StateReader":
        """A reader of a compacted topic from its beginning, in no group."""


class StateReader(Protocol):
    async def read(self, timeout_s: float) -> Sequence[Record]:
        """Records since the last call, waiting at most so long for the first."""

    async def at_end(self) -> bool:
        """Whether everything that was on the topic when the reader was made has been read."""

    async def close(self) -> None: ...
