"""Following a compacted topic: the newest state per key in memory, with a copy on disk to start from.

For readers without a database (the gateway, the agent): they start with Kafka down from the copy of the last run, and
catch up when it is there. A state that is older than the one known (`order`) is ignored.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

import structlog
from aiokafka.errors import KafkaError

from headrace_kit.bus import Bus, StateReader
from headrace_kit.errors import Rejected, Retryable
from headrace_kit.records import Record, decode
from headrace_schemas import Event, topic_of

E = TypeVar("E", bound=Event)
log = structlog.get_logger()
OnChange = Callable[[E], Awaitable[None]]


class Follower(Generic[E]):
    """The newest event of each key. `order` says which of two is newer (an epoch, a revision, a sequence)."""

    def __init__(
        self,
        bus: Bus,
        event: type[E],
        prefix: str,
        order: Callable[[E], int],
        *,
        copy: Path | None = None,
        on_change: OnChange[E] | None = None,
    ) -> None:
        self._bus = bus
        self._event = event
        self._topic = topic_of(event).name(prefix)
        self._order = order
        self._copy = copy
        self._on_change = on_change
        self._state: dict[str, E] = {}
        self._raw: dict[str, str] = {}
        self.caught_up = asyncio.Event()
        if copy is not None and copy.exists():
            self._load(copy)

    def get(self, key: str) -> E | None:
        return self._state.get(key)

    def values(self) -> Iterator[E]:
        return iter(tuple(self._state.values()))

    def _load(self, copy: Path) -> None:
        try:
            rows = json.loads(copy.read_text())
        except (OSError, ValueError) as error:
            log.warning("copy of the state is not readable and is ignored", topic=self._topic, error=repr(error))
            return
        for row in rows:
            self._apply(Record(self._topic, 0, 0, None, base64.b64decode(row)))

    def _apply(self, record: Record) -> E | None:
        try:
            event = decode(record, self._event)
        except Rejected as reason:
            log.warning(
                "state record ignored", topic=self._topic, offset=record.offset, code=reason.code, reason=reason.message
            )
            return None
        known = self._state.get(event.key())
        if known is not None and self._order(event) <= self._order(known):
            return None
        self._state[event.key()] = event
        self._raw[event.key()] = base64.b64encode(record.value or b"").decode()
        return event

    def _save(self) -> None:
        if self._copy is None:
            return
        self._copy.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._copy.with_suffix(".tmp")
        temporary.write_text(json.dumps(list(self._raw.values())))
        temporary.replace(self._copy)

    async def run(self) -> None:
        """Until cancelled; a broker that is away is waited out."""
        while True:
            reader: StateReader | None = None
            try:
                reader = await self._bus.read_all(self._topic)
                await self._follow(reader)
            except (Retryable, KafkaError, OSError) as error:
                log.warning("state topic cannot be read yet", topic=self._topic, error=repr(error))
                await asyncio.sleep(1.0)
            finally:
                if reader is not None:
                    await reader.close()

    async def _follow(self, reader: StateReader) -> None:
        while True:
            changed = [e for record in await reader.read(1.0) if (e := self._apply(record)) is not None]
            if changed:
                await asyncio.to_thread(self._save)
                if self._on_change is not None:
                    for event in changed:
                        await self._on_change(event)
            if not self.caught_up.is_set() and await reader.at_end():
                self.caught_up.set()
