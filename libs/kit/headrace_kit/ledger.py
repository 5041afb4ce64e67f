"""What a consumer remembers in Postgres, inside the transaction of its effects: facts seen, and the next offset."""

from collections.abc import Sequence

from sqlalchemy import MetaData, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_kit.bus import Partition
from headrace_kit.database import kit_tables
from headrace_kit.errors import Fenced, Rejected
from headrace_kit.records import Record, payload_hash
from headrace_kit.telemetry import RECORDS
from headrace_schemas import Event

_TABLES = MetaData()
kit_tables(_TABLES)
OFFSETS, INBOX = _TABLES.tables["consumer_offset"], _TABLES.tables["inbox"]
_REMEMBER = text(
    "INSERT INTO inbox (topic, project, event_id, hash)"
    " SELECT :topic, * FROM unnest(CAST(:projects AS text[]), CAST(:ids AS text[]), CAST(:hashes AS bytea[]))"
    " ON CONFLICT DO NOTHING RETURNING project, event_id"
)


async def unseen(
    session: AsyncSession, records: Sequence[Record], events: Sequence[Event]
) -> list[tuple[Record, Event]]:
    """The facts of one topic that were not seen before, remembered in one statement.

    The same id with the same payload is a repetition. With another payload it is a conflict: raises Rejected.
    """
    topic = records[0].topic
    hashes = [payload_hash(r.value or b"") for r in records]
    ids = [(event.project, event.event_id()) for event in events]
    offered = {"topic": topic, "projects": [p for p, _ in ids], "ids": [i for _, i in ids], "hashes": hashes}
    added = {(row.project, row.event_id) for row in await session.execute(_REMEMBER, offered)}
    known: dict[tuple[str, str], bytes] = {}
    if len(added) < len(ids):
        found = await session.execute(
            select(INBOX.c.project, INBOX.c.event_id, INBOX.c.hash).where(
                INBOX.c.topic == topic, INBOX.c.event_id.in_({event_id for _, event_id in ids})
            )
        )
        known = {(row.project, row.event_id): row.hash for row in found}
    fresh = []
    for record, event, key, digest in zip(records, events, ids, hashes, strict=True):
        if known.get(key, digest) != digest:
            RECORDS.labels(topic, "conflict").inc()
            raise Rejected("conflict", f"event {key[1]} was seen before with another content")
        if key in added:
            added.discard(key)  # a second one inside this batch is a repetition
            fresh.append((record, event))
    return fresh


async def position(session: AsyncSession, partition: Partition) -> int | None:
    """The next offset of a partition, or None where none was ever written."""
    found: int | None = await session.scalar(
        select(OFFSETS.c.next).where(OFFSETS.c.topic == partition[0], OFFSETS.c.partition == partition[1])
    )
    return found


async def advance(session: AsyncSession, partition: Partition, expected: int | None, following: int) -> None:
    """Move the offset by compare-and-set: a consumer that was replaced changes nothing. Raises Fenced."""
    topic, number = partition
    row = {"topic": topic, "partition": number, "next": following}
    if expected is None:
        added = await session.scalar(insert(OFFSETS).values(row).on_conflict_do_nothing().returning(OFFSETS.c.next))
        moved = added is not None
    else:
        result = await session.execute(
            update(OFFSETS)
            .where(OFFSETS.c.topic == topic, OFFSETS.c.partition == number, OFFSETS.c.next == expected)
            .values(next=following)
            .returning(OFFSETS.c.next)
        )
        moved = result.first() is not None
    if not moved:
        raise Fenced(f"the offset of {topic}/{number} is no longer {expected}")
