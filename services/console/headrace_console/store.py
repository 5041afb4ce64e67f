"""All SQL of the console. Every write may come twice and in any order; every read is what one page needs."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Numeric, Table, cast, func, or_, select, tuple_, union
from sqlalchemy.dialects.postgresql import Insert, insert
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_console.core.facts import Facts, FeedbackLine, Scored, Tally
from headrace_console.tables import (
    DEAD_LETTER,
    EVALUATION,
    FEEDBACK,
    INFERENCE,
    POLICY,
    REPLICA,
    ROUTE,
    RUN,
    TRAJECTORY,
    VERSION,
)

Row = dict[str, Any]
SERIES = 1200
"""Scored answers that the picture of the reward goes back."""
RECENT = 12
"""Pieces of feedback that the page lists."""
LOOKED_AT = 120
"""Pieces of all policies among which those of one are looked for."""
VERSIONS = 200
"""Versions, gate reports, runs and routes that a page goes back."""
FOR_THE_GATE = ("candidate", "shadow")
"""Variants that no user saw."""


def _set(statement: Insert, table: Table) -> dict[str, ColumnElement[Any]]:
    return {c.name: statement.excluded[c.name] for c in table.columns if not c.primary_key}


class Store:
    """The read model, inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    # ---- facts that never change ------------------------------------------------------------------------------------
    async def _add(self, table: Table, row: Row) -> None:
        await self._session.execute(insert(table).values(row).on_conflict_do_nothing())

    async def add_inference(self, row: Row) -> None:
        await self._add(INFERENCE, row)

    async def add_feedback(self, row: Row) -> None:
        await self._add(FEEDBACK, row)

    async def add_run(self, row: Row) -> None:
        await self._add(RUN, row)

    async def add_version(self, row: Row) -> None:
        await self._add(VERSION, row)

    async def add_evaluation(self, row: Row) -> None:
        await self._add(EVALUATION, row)

    async def add_route(self, row: Row) -> None:
        await self._add(ROUTE, row)

    async def add_dead_letters(self, rows: Sequence[Row]) -> None:
        if rows:
            await self._session.execute(insert(DEAD_LETTER).values(list(rows)).on_conflict_do_nothing())

    # ---- states: the newest one holds -------------------------------------------------------------------------------
    async def _put(self, table: Table, row: Row, *order: str) -> None:
        """Insert, or replace an older state; `order` are the columns that say which of two is newer."""
        new = insert(table).values(row)
        newer = tuple_(*(new.excluded[c] for c in order)) > tuple_(*(table.c[c] for c in order))
        await self._session.execute(
            new.on_conflict_do_update(index_elements=list(table.primary_key), set_=_set(new, table), where=newer)
        )

    async def put_trajectory(self, row: Row) -> None:
        await self._put(TRAJECTORY, row, "revision", "occurred_at", "spec_digest")

    async def put_policy(self, row: Row) -> None:
        await self._put(POLICY, row, "revision")

    async def put_replica(self, row: Row) -> None:
        await self._put(REPLICA, row, "sequence")

    # ---- what a page needs ------------------------------------------------------------------------------------------
    async def policies(self) -> list[str]:
        """Every policy that anything is known of, the busiest one first."""
        known = union(
            select(POLICY.c.policy), select(ROUTE.c.policy), select(VERSION.c.policy), select(INFERENCE.c.policy)
        ).subquery()
        answers = func.count(INFERENCE.c.inference_id)
        rows = await self._session.execute(
            select(known.c.policy)
            .outerjoin(INFERENCE, INFERENCE.c.policy == known.c.policy)
            .group_by(known.c.policy)
            .order_by(answers.desc(), known.c.policy)
        )
        return list(rows.scalars())

    async def facts(self, policy: str | None) -> Facts:
        """Everything that the page of one policy shows; of none, what is known without one."""
        name = policy or ""
        return Facts(
            policies=tuple(await self.policies()),
            policy=policy,
            spec=await self._one(POLICY, POLICY.c.policy == name),
            answers=await self._answers(name),
            rewards=await self._rewards(name),
            series=await self._series(name),
            feedback=await self._feedback(),
            recent=await self._recent(name),
            versions=await self._all(VERSION, name, VERSION.c.version.desc()),
            runs=await self._all(RUN, name, RUN.c.occurred_at.desc()),
            evaluations=await self._all(EVALUATION, name, EVALUATION.c.occurred_at.desc()),
            routes=await self._all(ROUTE, name, ROUTE.c.epoch.desc()),
            replicas=tuple(
                dict(r) for r in (await self._session.execute(select(REPLICA).order_by(REPLICA.c.replica))).mappings()
            ),
            dead_letters=await self._dead_letters(),
        )

    async def _one(self, table: Table, where: ColumnElement[bool]) -> Row | None:
        row = (await self._session.execute(select(table).where(where))).mappings().first()
        return dict(row) if row else None

    async def _all(self, table: Table, policy: str, order: ColumnElement[Any]) -> tuple[Row, ...]:
        found = await self._session.execute(
            select(table).where(table.c.policy == policy).order_by(order).limit(VERSIONS)
        )
        return tuple(dict(row) for row in found.mappings())

    async def _answers(self, policy: str) -> tuple[Tally, ...]:
        """By version: answers that users got, whole ones' mean tokens, and how many failed."""
        whole = INFERENCE.c.state == "completed"
        failed = INFERENCE.c.state.in_(("upstream_failed", "timeout"))
        rows = await self._session.execute(
            select(
                INFERENCE.c.version,
                func.count().filter(whole).label("n"),
                func.avg(INFERENCE.c.completion_tokens).filter(whole).label("mean"),
                func.stddev_samp(INFERENCE.c.completion_tokens).filter(whole).label("spread"),
                func.count().filter(failed).label("failed"),
                func.max(INFERENCE.c.occurred_at).label("last"),
            )
            .where(INFERENCE.c.policy == policy, INFERENCE.c.variant.not_in(FOR_THE_GATE))
            .group_by(INFERENCE.c.version)
            .order_by(INFERENCE.c.version)
        )
        return tuple(Tally(r.version, r.n, _float(r.mean), _float(r.spread), r.failed, r.last) for r in rows)

    async def _rewards(self, policy: str) -> tuple[Tally, ...]:
        """By version: mean reward of scored answers, in decimals: a sum of doubles depends on its order."""
        reward = cast(TRAJECTORY.c.reward, Numeric)
        rows = await self._session.execute(
            select(
                TRAJECTORY.c.version,
                func.count(reward).label("n"),
                func.avg(reward).label("mean"),
                func.stddev_samp(reward).label("spread"),
                func.max(TRAJECTORY.c.occurred_at).label("last"),
            )
            .where(TRAJECTORY.c.policy == policy)
            .group_by(TRAJECTORY.c.version)
            .order_by(TRAJECTORY.c.version)
        )
        return tuple(Tally(r.version, r.n, _float(r.mean), _float(r.spread), 0, r.last) for r in rows)

    async def _series(self, policy: str) -> tuple[Scored, ...]:
        """The newest scored answers, oldest first."""
        rows = await self._session.execute(
            select(TRAJECTORY.c.occurred_at, TRAJECTORY.c.reward, TRAJECTORY.c.version, TRAJECTORY.c.teaches)
            .where(TRAJECTORY.c.policy == policy, or_(TRAJECTORY.c.reward.is_not(None), TRAJECTORY.c.teaches))
            .order_by(TRAJECTORY.c.occurred_at.desc(), TRAJECTORY.c.trajectory_id.desc())
            .limit(SERIES)
        )
        return tuple(Scored(r.occurred_at, r.reward, r.version, r.teaches) for r in reversed(rows.all()))

    async def _feedback(self) -> tuple[int, Any]:
        """How many pieces, of all policies, and when the last one came."""
        row = (await self._session.execute(select(func.count(), func.max(FEEDBACK.c.recorded_at)))).one()
        return row[0], row[1]

    async def _recent(self, policy: str) -> tuple[FeedbackLine, ...]:
        """The newest feedback about a policy's answers, each with its answer; and what waits for its answer.

        An episode or an id of the app's stands for its newest inference.
        """
        newest = (
            select(FEEDBACK)
            .order_by(FEEDBACK.c.recorded_at.desc(), FEEDBACK.c.feedback_id.desc(), FEEDBACK.c.revision.desc())
            .limit(LOOKED_AT)
            .subquery()
        )
        about = (
            select(INFERENCE.c.policy, INFERENCE.c.version, INFERENCE.c.question, INFERENCE.c.answer)
            .where(
                or_(  # exactly one of the three is set, and each has its index
                    INFERENCE.c.inference_id == newest.c.inference_id,
                    INFERENCE.c.episode_id == newest.c.episode_id,
                    INFERENCE.c.correlation_id == newest.c.correlation_id,
                )
            )
            .order_by(INFERENCE.c.occurred_at.desc(), INFERENCE.c.inference_id)
            .limit(1)
            .lateral()
        )
        rows = await self._session.execute(
            select(newest, about)
            .outerjoin(about, about.c.policy.is_not(None))
            .where(or_(about.c.policy.is_(None), about.c.policy == policy))
            .order_by(newest.c.recorded_at.desc(), newest.c.feedback_id.desc(), newest.c.revision.desc())
            .limit(RECENT)
        )
        return tuple(
            FeedbackLine(
                at=r.recorded_at,
                metric_name=r.metric_name,
                value=r.value,
                positive=r.positive,
                comment=r.comment,
                source_kind=r.source_kind,
                target=r.inference_id or r.episode_id or r.correlation_id or "",
                policy=r.policy,
                version=r.version,
                question=r.question,
                answer=r.answer,
            )
            for r in rows
        )

    async def _dead_letters(self) -> tuple[Row, ...]:
        """By topic: how many, and the newest one's reason."""
        rows = await self._session.execute(
            select(DEAD_LETTER)
            .distinct(DEAD_LETTER.c.topic)
            .add_columns(func.count().over(partition_by=DEAD_LETTER.c.topic).label("n"))
            .order_by(DEAD_LETTER.c.topic, DEAD_LETTER.c.offset.desc())
        )
        return tuple({"topic": r.topic, "n": r.n, "code": r.code, "reason": r.reason} for r in rows)


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
