"""All SQL of the training service."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, and_, func, insert, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_kit.errors import Fenced
from headrace_schemas import PolicyChanged, PolicySpec, RouteChanged, TrajectoryScored
from headrace_training.core.arrival import Arrived
from headrace_training.core.dataset import ExitReason, Sample
from headrace_training.core.run import ATTEMPTS, QUEUED, RUNNING, Run
from headrace_training.core.trigger import Standing
from headrace_training.tables import FENCING, POLICY, ROUTE, RUN, RUN_SAMPLE, SAMPLE

LOOKED_AT = 4096
"""Newest useful samples of a policy that a run chooses from."""


class Store:
    """Queries and writes inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    # ---- samples ----------------------------------------------------------------------------------------------------
    async def sample(self, project: str, trajectory_id: str) -> tuple[Sample, bool, int, datetime] | None:
        """The kept revision, whether it is useful, its uses and since when; the row stays ours until the end."""
        query = select(SAMPLE).where(SAMPLE.c.project == project, SAMPLE.c.trajectory_id == trajectory_id)
        row = (await self._session.execute(query.with_for_update())).first()
        return None if row is None else (Sample.model_validate(row.body), row.useful, row.uses, row.since)

    async def put_sample(self, event: TrajectoryScored, arrived: Arrived, uses: int, since: datetime) -> None:
        """The newest revision wins, also where two arrive at once."""
        values = {
            "project": event.project,
            "trajectory_id": event.trajectory_id,
            "revision": event.revision,
            "policy": event.policy,
            "base_model": event.engine.base_model,
            "body": arrived.sample.model_dump(mode="json"),
            "useful": arrived.useful,
            "mass": arrived.mass,
            "uses": uses,
            "since": since,
            "spec_digest": event.spec_digest,
        }
        statement = upsert(SAMPLE).values(values)
        await self._session.execute(
            statement.on_conflict_do_update(
                index_elements=["project", "trajectory_id"],
                set_={k: v for k, v in values.items() if k not in ("project", "trajectory_id")},
                where=SAMPLE.c.revision < event.revision,
            )
        )

    async def choice(self, run: Run) -> list[tuple[Sample, int, str]]:
        """Useful samples (sample, uses, spec digest) that fit the run's base model: those that no run has used, then
        the others, each newest first. Were unused ones cut off, they would start runs for ever and be in none.
        """
        rows = await self._session.execute(
            select(SAMPLE.c.body, SAMPLE.c.uses, SAMPLE.c.spec_digest)
            .where(SAMPLE.c.policy == run.policy, SAMPLE.c.project == run.project)
            .where(SAMPLE.c.base_model == run.base_model, SAMPLE.c.useful)
            .order_by(SAMPLE.c.uses > 0, SAMPLE.c.since.desc(), SAMPLE.c.trajectory_id)
            .limit(LOOKED_AT)
        )
        return [(Sample.model_validate(body), uses, digest) for body, uses, digest in rows]

    # ---- what others decided ----------------------------------------------------------------------------------------
    async def put_policy(self, event: PolicyChanged, spec: PolicySpec) -> None:
        values = {"project": spec.project, "revision": event.revision, "spec": event.spec}
        await self._session.execute(
            upsert(POLICY)
            .values(policy=event.policy, **values)
            .on_conflict_do_update(index_elements=["policy"], set_=values, where=POLICY.c.revision < event.revision)
        )

    async def policies(self) -> list[PolicySpec]:
        """Every policy that was applied, by name."""
        rows = await self._session.scalars(select(POLICY.c.spec).order_by(POLICY.c.policy))
        return [PolicySpec.model_validate(spec) for spec in rows]

    async def lock_policy(self, policy: str) -> None:
        """Others who decide about this policy wait until the transaction ends."""
        await self._session.execute(select(POLICY.c.policy).where(POLICY.c.policy == policy).with_for_update())

    async def put_route(self, event: RouteChanged) -> None:
        """Keep the newest route, and note which runs' adapters it names."""
        values = {"epoch": event.epoch, "body": event.model_dump(mode="json")}
        await self._session.execute(
            upsert(ROUTE)
            .values(policy=event.policy, **values)
            .on_conflict_do_update(index_elements=["policy"], set_=values, where=ROUTE.c.epoch < event.epoch)
        )
        await self._session.execute(
            update(RUN)
            .where(RUN.c.policy == event.policy, RUN.c.routed_at.is_(None))
            .where(RUN.c.digest.in_([ref.digest for ref in event.wanted()]))
            .values(routed_at=event.occurred_at)
        )

    async def route(self, policy: str) -> RouteChanged | None:
        body = await self._session.scalar(select(ROUTE.c.body).where(ROUTE.c.policy == policy))
        return None if body is None else RouteChanged.model_validate(body)

    # ---- the trigger ------------------------------------------------------------------------------------------------
    async def standing(self, spec: PolicySpec, now: datetime) -> Standing:
        """What the trigger looks at."""
        new = (
            await self._session.execute(
                select(func.coalesce(func.sum(SAMPLE.c.mass), 0.0), func.count(), func.min(SAMPLE.c.since))
                .where(SAMPLE.c.policy == spec.policy, SAMPLE.c.project == spec.project)
                .where(SAMPLE.c.base_model == spec.base_model, SAMPLE.c.useful, SAMPLE.c.uses == 0)
            )
        ).one()
        active = await self._session.scalar(
            select(RUN.c.run_id).where(RUN.c.policy == spec.policy, RUN.c.state.in_((QUEUED, RUNNING)))
        )
        checkpoint = await self._session.scalar(
            select(func.max(RUN.c.ended_at)).where(
                RUN.c.policy == spec.policy, RUN.c.state == ExitReason.COMPLETED, RUN.c.routed_at.is_(None)
            )
        )
        return Standing(now, float(new[0]), new[1], new[2], active, checkpoint)

    # ---- runs -------------------------------------------------------------------------------------------------------
    async def add_run(self, run: Run) -> None:
        await self._session.execute(insert(RUN).values(asdict(run)))

    async def claim(self, owner: str, now: datetime, lease: timedelta) -> Run | None:
        """The oldest run that waits, or whose worker let its lease run out; with a new fencing token.

        Leases are by the database's clock, the only one that all workers share. A run that was tried too often comes
        back as failed instead, and is nobody's.
        """
        free = or_(RUN.c.state == QUEUED, and_(RUN.c.state == RUNNING, RUN.c.lease_until < func.now()))
        found = (
            await self._session.execute(
                select(RUN).where(free).order_by(RUN.c.created_at).limit(1).with_for_update(skip_locked=True)
            )
        ).first()
        if found is None:
            return None
        values: dict[str, Any] = {"state": RUNNING, "owner": owner, "lease_until": func.now() + lease, "progress": None}
        values |= {"attempts": found.attempts + 1, "started_at": found.started_at or now}
        if found.attempts >= ATTEMPTS:
            values = {"state": ExitReason.FAILED, "ended_at": now, "reason": f"ended {ATTEMPTS} times without a result"}
        row = (
            await self._session.execute(
                update(RUN)
                .where(RUN.c.run_id == found.run_id)
                .values(**values, fencing_token=FENCING.next_value())
                .returning(RUN)
            )
        ).one()
        return run_of(row)

    async def renew(self, run: Run, lease: timedelta, progress: dict[str, Any] | None) -> None:
        """Raises Fenced where the lease is somebody else's by now."""
        await self._held(run, {"lease_until": func.now() + lease, "progress": progress})

    async def release(self, run: Run, *, counts: bool) -> None:
        """Give a run back to the queue, for the next worker to take at once. `counts`: this was one of its tries."""
        attempts = run.attempts if counts else run.attempts - 1
        await self._held(run, {"state": QUEUED, "owner": None, "lease_until": None, "attempts": attempts})

    async def freeze(self, run: Run, manifest: tuple[str, str], samples: Sequence[Sample], spec_digest: str) -> None:
        """The run's dataset: (digest, key) of its manifest, and which samples are in it. They count as used now."""
        digest, key = manifest
        changes = {"manifest_digest": digest, "manifest_key": key, "samples": len(samples), "spec_digest": spec_digest}
        await self._held(run, changes)
        if not samples:
            return
        await self._session.execute(
            insert(RUN_SAMPLE),
            [
                {
                    "run_id": run.run_id,
                    "position": n,
                    "project": run.project,
                    "trajectory_id": s.sample_id,
                    "revision": s.revision,
                }
                for n, s in enumerate(samples)
            ],
        )
        # A revision that came since it was chosen says something that this run does not learn: it stays unused.
        taken = tuple_(SAMPLE.c.trajectory_id, SAMPLE.c.revision).in_([(s.sample_id, s.revision) for s in samples])
        await self._session.execute(
            update(SAMPLE).where(SAMPLE.c.project == run.project, taken).values(uses=SAMPLE.c.uses + 1)
        )

    async def finish(self, run: Run, state: ExitReason, now: datetime, **values: Any) -> None:
        """How it ended. Raises Fenced where the lease is somebody else's by now."""
        await self._held(run, {"state": state, "ended_at": now, "owner": None, "lease_until": None, **values})

    async def _held(self, run: Run, values: dict[str, Any]) -> None:
        """Every durable write of a worker carries its token: a worker that was replaced changes nothing."""
        done = await self._session.scalar(
            update(RUN)
            .where(RUN.c.run_id == run.run_id, RUN.c.fencing_token == run.fencing_token, RUN.c.state == RUNNING)
            .values(values)
            .returning(RUN.c.run_id)
        )
        if done is None:
            raise Fenced(f"run {run.run_id} is no longer held with token {run.fencing_token}")

    async def run(self, run_id: str) -> Run | None:
        row = (await self._session.execute(select(RUN).where(RUN.c.run_id == run_id))).first()
        return None if row is None else run_of(row)

    async def runs(self, policy: str | None, limit: int) -> list[Run]:
        """Newest first."""
        query = select(RUN).order_by(RUN.c.created_at.desc()).limit(limit)
        rows = await self._session.execute(query if policy is None else query.where(RUN.c.policy == policy))
        return [run_of(row) for row in rows]

    async def run_samples(self, run_id: str) -> list[str]:
        """Trajectory ids of a run, in the manifest's order."""
        query = select(RUN_SAMPLE.c.trajectory_id).where(RUN_SAMPLE.c.run_id == run_id).order_by(RUN_SAMPLE.c.position)
        return list(await self._session.scalars(query))


def run_of(row: Row[Any]) -> Run:
    return Run(**dict(row._mapping))  # noqa: SLF001 (SQLAlchemy's documented name)
