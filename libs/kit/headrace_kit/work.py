"""The unit of work that a handler or an API call gets: one transaction, and what it wants published."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from headrace_kit import outbox
from headrace_kit.clock import Clock
from headrace_kit.records import Outgoing, encode
from headrace_schemas import Event, topic_of


class Work:
    """`session` for the store, `publish` for facts. Nothing is visible to anyone before the transaction commits."""

    def __init__(self, session: AsyncSession, clock: Clock, source: str, prefix: str, cause: str = "") -> None:
        self.session = session
        self.clock = clock
        self.cause = cause
        self._source = source
        self._prefix = prefix
        self._outgoing: list[Outgoing] = []

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

    def publish_raw(self, record: Outgoing) -> None:
        """Queue bytes as they are: dead letters."""
        self._outgoing.append(record)

    async def flush(self) -> bool:
        """Write the outbox rows; answers whether there were any."""
        records, self._outgoing = self._outgoing, []
        await outbox.add(self.session, records)
        return bool(records)
