"""All SQL of evaluation."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Table, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_evaluation.core.planning import Comparison
from headrace_evaluation.core.verdict import Answered
from headrace_evaluation.tables import ACCESS, ANSWER, CANDIDATE, JOB, POLICY, REPLICA, REPORT, ROUTE, SUITE
from headrace_schemas import AdapterObserved, AdapterRegistered, EvaluationCompleted, Event, PolicyChanged, RouteChanged
from headrace_schemas.base import Json

E = TypeVar("E", bound=Event)


class Job(NamedTuple):
    """A comparison that a worker holds. `claims` is the fence: a later claim makes this one powerless."""

    comparison: Comparison
    claims: int
    failures: int
    created_at: datetime


class Store:
    """Queries and writes inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    # ---- what others said -------------------------------------------------------------------------------------------
    async def keep_policy(self, event: PolicyChanged) -> None:
        await self._keep(POLICY, {"policy": event.policy}, event.revision, event)

    async def keep_route(self, event: RouteChanged) -> None:
        await self._keep(ROUTE, {"policy": event.policy}, event.epoch, event)

    async def keep_replica(self, event: AdapterObserved) -> None:
        await self._keep(REPLICA, {"replica": event.replica}, event.sequence, event)

    async def _keep(self, table: Table, key: dict[str, str], newness: int, event: Event) -> None:
        """The newest state of each key; an older one changes nothing, in whatever order they come."""
        row = {"newness": newness, "body": event.model_dump(mode="json")}
        put = upsert(table).values(key | row)
        await self._session.execute(
            put.on_conflict_do_update(index_elements=list(key), set_=row, where=table.c.newness < newness)
        )

    async def keep_candidate(self, event: AdapterRegistered) -> None:
        row = {
            "policy": event.policy,
            "version": event.adapter.version,
            "digest": event.adapter.digest,
            "body": event.model_dump(mode="json"),
        }
        await self._session.execute(upsert(CANDIDATE).values(row).on_conflict_do_nothing())

    async def policies(self) -> dict[str, PolicyChanged]:
        return {e.policy: e for e in await self._all(POLICY, PolicyChanged)}

    async def routes(self) -> dict[str, RouteChanged]:
        return {e.policy: e for e in await self._all(ROUTE, RouteChanged)}

    async def replicas(self) -> list[AdapterObserved]:
        return await self._all(REPLICA, AdapterObserved)

    async def _all(self, table: Table, model: type[E]) -> list[E]:
        return [model.model_validate(body) for body in await self._session.scalars(select(table.c.body))]

    async def registered(self, policy: str) -> list[str]:
        """Digests of the versions that were registered."""
        return list(await self._session.scalars(select(CANDIDATE.c.digest).where(CANDIDATE.c.policy == policy)))

    # ---- suites -----------------------------------------------------------------------------------------------------
    async def put_suite(self, row: Json) -> bool:
        """Whether anything changed: the same digest again does not."""
        put = upsert(SUITE).values(row)
        changed = put.on_conflict_do_update(
            index_elements=[SUITE.c.suite], set_=row, where=SUITE.c.digest != row["digest"]
        ).returning(SUITE.c.suite)
        return await self._session.scalar(changed) is not None

    async def suites(self) -> list[Json]:
        """Everything about them but the contents."""
        query = select(*(c for c in SUITE.c if c.name != "sealed")).order_by(SUITE.c.suite)
        return [dict(row) for row in (await self._session.execute(query)).mappings()]

    async def suite(self, name: str) -> Json | None:
        return next((row for row in await self.suites() if row["suite"] == name), None)

    async def suite_digests(self) -> dict[str, str]:
        return {row["suite"]: row["digest"] for row in await self.suites()}

    async def sealed(self, name: str, digest: str) -> bytes | None:
        """None where the suite is another one by now."""
        return await self._session.scalar(select(SUITE.c.sealed).where(SUITE.c.suite == name, SUITE.c.digest == digest))

    async def note_access(self, at: datetime, by: str, action: str, suite: str, digest: str, why: str) -> None:
        await self._session.execute(
            insert(ACCESS).values(at=at, by=by, action=action, suite=suite, digest=digest, why=why)
        )

    async def access(self, suite: str, limit: int) -> list[Json]:
        """Newest first."""
        query = (
            select(ACCESS.c.at, ACCESS.c.by, ACCESS.c.action, ACCESS.c.digest, ACCESS.c.why)
            .where(ACCESS.c.suite == suite)
            .order_by(ACCESS.c.id.desc())
            .limit(limit)
        )
        return [dict(row) for row in (await self._session.execute(query)).mappings()]

    # ---- jobs -------------------------------------------------------------------------------------------------------
    async def add_job(self, comparison: Comparison, at: datetime) -> bool:
        """False where the same comparison was made or is being made."""
        row = {
            "evaluation_id": comparison.evaluation_id,
            "policy": comparison.policy,
            "version": comparison.candidate.version,
            "comparison": comparison.model_dump(mode="json"),
            "state": "queued",
            "claims": 0,
            "failures": 0,
            "because": "",
            "due_at": at,
            "created_at": at,
        }
        put = upsert(JOB).values(row)
        again = put.on_conflict_do_update(
            index_elements=[JOB.c.evaluation_id],
            set_={"state": "queued", "due_at": at, "created_at": at},
            where=JOB.c.state == "superseded",
        )
        return await self._session.scalar(again.returning(JOB.c.evaluation_id)) is not None

    async def supersede_all_but(self, wanted: Sequence[str]) -> None:
        """Queued comparisons that nobody wants any longer are not made."""
        await self._session.execute(
            update(JOB).where(JOB.c.state == "queued", JOB.c.evaluation_id.not_in(wanted)).values(state="superseded")
        )

    async def claim(self, now: datetime, lease: timedelta) -> Job | None:
        """The oldest job that is due, or whose worker is gone; two workers never get the same one."""
        due = (
            select(JOB.c.evaluation_id)
            .where(JOB.c.state.in_(("queued", "running")), JOB.c.due_at <= now)
            .order_by(JOB.c.created_at, JOB.c.evaluation_id)
            .limit(1)
            .with_for_update(skip_locked=True)
            .scalar_subquery()
        )
        taken = (
            update(JOB)
            .where(JOB.c.evaluation_id == due)
            .values(state="running", claims=JOB.c.claims + 1, due_at=now + lease)
            .returning(JOB.c.comparison, JOB.c.claims, JOB.c.failures, JOB.c.created_at)
        )
        row = (await self._session.execute(taken)).first()
        return Job(Comparison.model_validate(row.comparison), row.claims, row.failures, row.created_at) if row else None

    async def change_job(self, job: Job, **values: Any) -> bool:
        """False for a worker whose claim is not the newest one: it has lost the job and must let go."""
        changed = (
            update(JOB)
            .where(
                JOB.c.evaluation_id == job.comparison.evaluation_id,
                JOB.c.claims == job.claims,
                JOB.c.state == "running",
            )
            .values(values)
            .returning(JOB.c.evaluation_id)
        )
        return await self._session.scalar(changed) is not None

    async def open_jobs(self, policy: str | None, version: int | None) -> list[Json]:
        """Jobs that are queued or running, newest first."""
        query = select(JOB).where(JOB.c.state.in_(("queued", "running"))).order_by(JOB.c.created_at.desc())
        rows = (await self._session.execute(_about(query, JOB, policy, version))).mappings()
        return [
            {
                "policy": row["policy"],
                "version": row["version"],
                "champion_version": row["comparison"]["champion"]["version"],
                "suite": row["comparison"]["suite"],
                "state": row["state"],
                "attempts": row["claims"],
                "because": row["because"],
                "created_at": row["created_at"],
            }
            for row in rows
        ]

    # ---- answers ----------------------------------------------------------------------------------------------------
    async def answers(self, suite_digest: str, subject: str, since: datetime | None) -> dict[int, Answered]:
        """By number of the case; `since` leaves out older ones."""
        query = select(ANSWER).where(ANSWER.c.suite_digest == suite_digest, ANSWER.c.subject == subject)
        if since is not None:
            query = query.where(ANSWER.c.at >= since)
        return {
            row.number: Answered(row.score, row.passed, row.tokens, row.latency_s)
            for row in await self._session.execute(query)
        }

    async def keep_answer(self, suite_digest: str, subject: str, number: int, answer: Answered, at: datetime) -> None:
        row = answer._asdict() | {"at": at}
        put = upsert(ANSWER).values(suite_digest=suite_digest, subject=subject, number=number, **row)
        await self._session.execute(
            put.on_conflict_do_update(index_elements=["suite_digest", "subject", "number"], set_=row)
        )

    # ---- reports ----------------------------------------------------------------------------------------------------
    async def add_report(self, report: EvaluationCompleted) -> None:
        await self._session.execute(
            insert(REPORT).values(
                evaluation_id=report.evaluation_id,
                policy=report.policy,
                version=report.candidate_version,
                at=report.occurred_at,
                body=report.model_dump(mode="json"),
            )
        )

    async def reports(self, policy: str | None, version: int | None) -> list[Json]:
        """Newest first."""
        query = select(REPORT.c.body).order_by(REPORT.c.at.desc(), REPORT.c.version.desc())
        return list(await self._session.scalars(_about(query, REPORT, policy, version)))


def _about(query: Any, table: Table, policy: str | None, version: int | None) -> Any:
    if policy is not None:
        query = query.where(table.c.policy == policy)
    return query if version is None else query.where(table.c.version == version)
