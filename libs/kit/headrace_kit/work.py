"""The unit of work that a handler or an API call gets: one transaction, and what it wants published."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from headrace_kit import outbox
from headrace_kit.clock import Clock
from headrace_kit.records import Outgoing, encode
from headrace_schemas import Event, topic_of

Finish = Callable[[Sequence[Any], "Work"], Awaitable[None]]


class Work:
    """`session` for the store, `publish` for facts. Nothing is visible to anyone before the transaction commits."""

    def __init__(self, session: AsyncSession, clock: Clock, source: str, prefix: str, cause: str = "") -> None:
        self.session = session
        self.clock = clock
        self.cause = cause
        self._source = source
        self._prefix = prefix
        self._outgoing: list[Outgoing] = []
        self._gathered: dict[Finish, list[Any]] = {}

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def publish(self, event: Event) -> None:
        """Queue a fact for the topic that carries it."""
        self._outgoing.append(
            encode(
                event,
                topic=topic_of(type(event)).name(self._prefix),
                source=self._source,
                recorded_at=self.clock.now(),
                cause=self.cause,
            )
        )

    def gather(self, finish: Finish, item: Any) -> None:
        """Put `item` aside for one call of `finish(items, work)` before the commit.

        A batch of records then costs a few queries, not a few a record. `finish` may raise what a handler may.
        """
        self._gathered.setdefault(finish, []).append(item)

    def publish_raw(self, record: Outgoing) -> None:
        """Queue bytes as they are: dead letters."""
        self._outgoing.append(record)

    async def flush(self) -> bool:
        """Finish what was gathered, then write the outbox rows; answers whether there were any."""
        gathered, self._gathered = self._gathered, {}
        for finish, items in gathered.items():
            await finish(items, self)
        records, self._outgoing = self._outgoing, []
        await outbox.add(self.session, records)
        return bool(records)
