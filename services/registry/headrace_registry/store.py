"""All SQL of the registry."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_registry.core.lifecycle import State
from headrace_registry.core.policy import Policy
from headrace_registry.core.promotion import Pending
from headrace_registry.core.route import Route
from headrace_registry.core.version import Version
from headrace_registry.tables import (
    API_KEY,
    AUDIT,
    POLICY,
    POLICY_REVISION,
    PROOF,
    REPLICA,
    REPORT,
    ROUTE,
    VERSION,
)
from headrace_schemas import AdapterObserved, EvaluationCompleted
from headrace_schemas.base import Json


class Store:
    """Queries and writes inside the caller's transaction."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    # ---- policies ---------------------------------------------------------------------------------------------------
    async def policy(self, name: str, *, lock: bool = False) -> Policy | None:
        """`lock`: the row stays ours until the transaction ends, so that numbers are given one after the other."""
        query = select(POLICY).where(POLICY.c.policy == name)
        row = (await self._session.execute(query.with_for_update() if lock else query)).first()
        return Policy(*row) if row else None

    async def policies(self) -> list[Policy]:
        return [Policy(*row) for row in await self._session.execute(select(POLICY).order_by(POLICY.c.policy))]

    async def add_policy(self, policy: Policy) -> bool:
        """False where somebody else was first."""
        made = upsert(POLICY).values(policy._asdict()).on_conflict_do_nothing().returning(POLICY.c.policy)
        return await self._session.scalar(made) is not None

    async def put_policy(self, policy: Policy) -> None:
        await self._session.execute(update(POLICY).where(POLICY.c.policy == policy.policy).values(policy._asdict()))

    async def add_revision(self, policy: Policy, by: str) -> None:
        await self._session.execute(
            insert(POLICY_REVISION).values(
                policy=policy.policy,
                revision=policy.revision,
                digest=policy.digest,
                spec=policy.spec,
                at=policy.updated_at,
                by=by,
            )
        )

    # ---- versions ---------------------------------------------------------------------------------------------------
    async def version(self, policy: str, number: int) -> Version | None:
        return await self._one_version(VERSION.c.policy == policy, VERSION.c.version == number)

    async def version_of_digest(self, policy: str, digest: str) -> Version | None:
        return await self._one_version(VERSION.c.policy == policy, VERSION.c.digest == digest)

    async def _one_version(self, *where: Any) -> Version | None:
        row = (await self._session.execute(select(VERSION).where(*where))).mappings().first()
        return _version(row) if row else None

    async def versions(self, policy: str) -> list[Version]:
        """Newest first."""
        query = select(VERSION).where(VERSION.c.policy == policy).order_by(VERSION.c.version.desc())
        return [_version(row) for row in (await self._session.execute(query)).mappings()]

    async def waiting(self, policy: str) -> list[Version]:
        """Versions whose move was decided and waits for the engines."""
        return [v for v in await self.versions(policy) if v.pending]

    async def add_version(self, version: Version) -> None:
        row = asdict(version) | {"pending": None, "state": str(version.state), "reason": _text(version.reason)}
        await self._session.execute(insert(VERSION).values(row))

    async def replace_base(self, policy: str, base_model: str) -> None:
        """Another base model, as long as no adapter stands on it."""
        await self._session.execute(
            update(VERSION)
            .where(VERSION.c.policy == policy, VERSION.c.version == 0)
            .values(base_model=base_model, engine_model=base_model)
        )

    async def move(self, version: Version, to: State, *, reason: str, at: datetime, **more: Any) -> bool:
        """Change the state by compare-and-set; False where it is no longer what the caller saw."""
        return await self._change(version, state=str(to), state_at=at, reason=_text(reason), pending=None, **more)

    async def wait(self, version: Version, pending: Pending | None) -> bool:
        """Note (or forget) a move that waits for the engines; False where the state changed meanwhile."""
        row = asdict(pending) | {"at": pending.at.isoformat()} if pending else None
        return await self._change(version, pending=row)

    async def note_verdict(self, version: Version, verdict: str) -> bool:
        return await self._change(version, verdict=verdict)

    async def _change(self, version: Version, **values: Any) -> bool:
        changed = (
            update(VERSION)
            .where(
                VERSION.c.policy == version.policy,
                VERSION.c.version == version.version,
                VERSION.c.state == str(version.state),
            )
            .values(values)
            .returning(VERSION.c.version)
        )
        return await self._session.scalar(changed) is not None

    # ---- routes -----------------------------------------------------------------------------------------------------
    async def route(self, policy: str) -> Route | None:
        row = (await self._session.execute(select(ROUTE).where(ROUTE.c.policy == policy))).first()
        return Route(row.epoch, row.champion, row.previous, tuple(row.load)) if row else None

    async def take_turn(self, policy: str) -> None:
        """Wait for whoever is moving the policy; the row is ours until the transaction ends."""
        await self._session.execute(select(ROUTE.c.epoch).where(ROUTE.c.policy == policy).with_for_update())

    async def add_route(self, policy: str, route: Route) -> None:
        await self._session.execute(insert(ROUTE).values(policy=policy, **_columns(route)))

    async def swap_route(self, policy: str, expected: int, route: Route) -> bool:
        """The fence: the new route where the epoch is still `expected`; False where somebody else moved it."""
        moved = (
            update(ROUTE)
            .where(ROUTE.c.policy == policy, ROUTE.c.epoch == expected)
            .values(_columns(route))
            .returning(ROUTE.c.epoch)
        )
        return await self._session.scalar(moved) is not None

    # ---- reports, replicas, proofs ----------------------------------------------------------------------------------
    async def add_report(self, report: EvaluationCompleted, at: datetime) -> None:
        await self._session.execute(
            upsert(REPORT)
            .values(
                evaluation_id=report.evaluation_id,
                policy=report.policy,
                version=report.candidate_version,
                verdict=report.verdict,
                body=report.model_dump(mode="json"),
                received_at=at,
            )
            .on_conflict_do_nothing()
        )

    async def reports(self, policy: str, version: int | None = None) -> list[EvaluationCompleted]:
        """Newest first."""
        query = select(REPORT.c.body).where(REPORT.c.policy == policy).order_by(REPORT.c.received_at.desc())
        if version is not None:
            query = query.where(REPORT.c.version == version)
        return [EvaluationCompleted.model_validate(b) for b in await self._session.scalars(query)]

    async def put_replica(self, seen: AdapterObserved) -> bool:
        """The newest state of one replica; False for one that is not newer than the known one."""
        row = {"sequence": seen.sequence, "observed_at": seen.occurred_at, "body": seen.model_dump(mode="json")}
        put = upsert(REPLICA).values(replica=seen.replica, **row)
        newer = put.on_conflict_do_update(
            index_elements=[REPLICA.c.replica], set_=row, where=REPLICA.c.sequence < seen.sequence
        )
        return await self._session.scalar(newer.returning(REPLICA.c.replica)) is not None

    async def replicas(self) -> list[AdapterObserved]:
        rows = await self._session.scalars(select(REPLICA.c.body).order_by(REPLICA.c.replica))
        return [AdapterObserved.model_validate(body) for body in rows]

    async def add_proofs(self, rows: Sequence[Json]) -> None:
        """The first time that a replica reported a version ready or failed; later reports change nothing."""
        if rows:
            await self._session.execute(upsert(PROOF).on_conflict_do_nothing(), list(rows))

    async def proofs(self, policy: str, version: int) -> list[Json]:
        query = select(PROOF).where(PROOF.c.policy == policy, PROOF.c.version == version).order_by(PROOF.c.at)
        return [dict(row) for row in (await self._session.execute(query)).mappings()]

    # ---- keys -------------------------------------------------------------------------------------------------------
    async def key(self, prefix: str) -> Json | None:
        row = (await self._session.execute(select(API_KEY).where(API_KEY.c.prefix == prefix))).mappings().first()
        return dict(row) if row else None

    async def keys(self) -> list[Json]:
        rows = await self._session.execute(select(API_KEY).order_by(API_KEY.c.created_at, API_KEY.c.prefix))
        return [dict(row) for row in rows.mappings()]

    async def add_key(self, row: Json) -> bool:
        """False where the prefix is taken."""
        made = upsert(API_KEY).values(row).on_conflict_do_nothing().returning(API_KEY.c.prefix)
        return await self._session.scalar(made) is not None

    async def revoke_key(self, prefix: str) -> Json | None:
        """The key after the change; None where it was revoked before."""
        done = (
            update(API_KEY)
            .where(API_KEY.c.prefix == prefix, API_KEY.c.revoked.is_(False))
            .values(revoked=True, revision=API_KEY.c.revision + 1)
            .returning(*API_KEY.c)
        )
        row = (await self._session.execute(done)).mappings().first()
        return dict(row) if row else None

    # ---- audit ------------------------------------------------------------------------------------------------------
    async def note(
        self,
        at: datetime,
        by: str,
        action: str,
        *,
        policy: str | None = None,
        version: int | None = None,
        reason: str = "",
        **details: Any,
    ) -> None:
        await self._session.execute(
            insert(AUDIT).values(
                at=at,
                by=_text(by),
                action=action,
                policy=policy,
                version=version,
                reason=_text(reason),
                details=details,
            )
        )

    async def audit(self, policy: str | None, version: int | None, limit: int) -> list[Json]:
        """Newest first."""
        columns = [c for c in AUDIT.c if c.name != "id"]
        query = select(*columns).order_by(AUDIT.c.id.desc()).limit(limit)
        if policy is not None:
            query = query.where(AUDIT.c.policy == policy)
        if version is not None:
            query = query.where(AUDIT.c.version == version)
        return [dict(row) for row in (await self._session.execute(query)).mappings()]


def _columns(route: Route) -> Json:
    return {"epoch": route.epoch, "champion": route.champion, "previous": route.previous, "load": list(route.load)}


def _version(row: Any) -> Version:
    pending = row["pending"]
    if pending:
        pending = Pending(**pending | {"at": datetime.fromisoformat(pending["at"])})
    return Version(**dict(row) | {"state": State(row["state"]), "pending": pending})


def _text(value: str) -> str:
    """PostgreSQL's text holds everything but NUL."""
    return value.replace("\x00", "")
