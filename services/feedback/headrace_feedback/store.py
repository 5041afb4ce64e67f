"""All SQL of the feedback service."""

from collections.abc import Sequence

from sqlalchemy import Text, any_, bindparam, func, literal_column, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_feedback.core.intake import OpinionKey, Submission
from headrace_feedback.tables import FEEDBACK, OPINION, SEQUENCE
from headrace_schemas import FeedbackRecorded


class Store:
    """Never commits: the unit of work does."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def digests(self, project: str, ids: Sequence[str]) -> dict[str, bytes]:
        """What was accepted under these ids."""
        rows = await self._session.execute(
            select(FEEDBACK.c.id, FEEDBACK.c.digest).where(
                FEEDBACK.c.project == project,
                FEEDBACK.c.id == any_(bindparam("ids", list(ids), ARRAY(Text))),
            )
        )
        return {row.id: row.digest for row in rows}

    async def reserve_revisions(
        self, project: str, opinions: Sequence[tuple[OpinionKey, int]]
    ) -> dict[OpinionKey, int]:
        """Move each opinion on by so many revisions and answer its last one. Locks the opinions until the commit."""
        new = insert(OPINION)
        rows = await self._session.execute(
            new.on_conflict_do_update(
                constraint="opinion_pkey", set_={"revision": OPINION.c.revision + new.excluded.revision}
            ).returning(OPINION.c.target, OPINION.c.metric_name, OPINION.c.source, OPINION.c.revision),
            [{"project": project, **key._asdict(), "revision": count} for key, count in opinions],
        )
        return {OpinionKey(row.target, row.metric_name, row.source): row.revision for row in rows}

    async def next_sequences(self, count: int) -> list[int]:
        """The next numbers of the server's order, to be taken while the opinions are locked."""
        series = func.generate_series(literal_column("1"), bindparam("count", count)).table_valued("n")
        return sorted(await self._session.scalars(select(SEQUENCE.next_value()).select_from(series)))

    async def insert(self, submissions: Sequence[Submission], events: Sequence[FeedbackRecorded]) -> bool:
        """Whether every id was new. False: another request took one of them since, and all must be undone."""
        rows = [
            {
                "project": event.project,
                "id": event.feedback_id,
                "digest": submission.item.digest(),
                **submission.opinion._asdict(),
                "revision": event.revision,
                "sequence": event.sequence,
                "recorded_at": event.recorded_at,
                "event": event.model_dump_json(),
            }
            for submission, event in sorted(zip(submissions, events, strict=True), key=lambda pair: pair[0].id)
        ]
        added = await self._session.scalars(
            insert(FEEDBACK).on_conflict_do_nothing(constraint="feedback_pkey").returning(FEEDBACK.c.id), rows
        )
        return len(added.all()) == len(rows)

    async def history(self, project: str, feedback_id: str) -> list[FeedbackRecorded]:
        """All revisions of the opinion that `feedback_id` belongs to, oldest first; none where it is unknown."""
        one = (
            select(FEEDBACK.c.target, FEEDBACK.c.metric_name, FEEDBACK.c.source)
            .where(FEEDBACK.c.project == project, FEEDBACK.c.id == feedback_id)
            .subquery()
        )
        rows = await self._session.scalars(
            select(FEEDBACK.c.event)
            .join(
                one,
                (FEEDBACK.c.target == one.c.target)
                & (FEEDBACK.c.metric_name == one.c.metric_name)
                & (FEEDBACK.c.source == one.c.source),
            )
            .where(FEEDBACK.c.project == project)
            .order_by(FEEDBACK.c.revision)
        )
        return [FeedbackRecorded.model_validate_json(event) for event in rows]
