"""Load what a batch concerns, under locks.

Locks come in two layers, each taken in sorted order, so that no two transactions wait for each other: first the names
of targets (an inference and the feedback that names it may arrive in two transactions, and one must see the other),
then the rows of the known inferences (two opinions about one inference through different names).
"""

import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import (
    Integer,
    Text,
    any_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_reward.core.compose import Scored
from headrace_reward.core.join import Book, PolicyKey, Published, Spec
from headrace_reward.core.opinions import InferenceKey, Opinion, targets_of
from headrace_reward.core.price import WINDOW, Judged, Price, Window
from headrace_reward.facts import Batch
from headrace_reward.tables import INFERENCE, OPINION, POLICY, TRAJECTORY, WAITING
from headrace_schemas import InferenceCompleted
from headrace_schemas.policy import RewardSpec

OPINIONS = TypeAdapter(Opinion)
PRICES = TypeAdapter(Price)
AGAIN = 500
"""Waiting inferences that one transaction takes up; the sweeper comes for the others."""


def texts(values: Iterable[str]) -> Any:
    """`= ANY(…)` over an array: the statement's text, and so its plan, does not depend on how many there are."""
    return any_(bindparam(None, sorted(set(values)), ARRAY(Text), unique=True))


def _names(opinion: Opinion) -> list[tuple[str, str]]:
    """Project and target of everything that the opinion is about."""
    compared = (f"inference:{inference_id}" for inference_id in opinion.compared or ())
    return [(opinion.key.project, target) for target in (opinion.key.target, *compared)]


def _charging(specs: dict[PolicyKey, Spec], batch: Batch) -> list[PolicyKey]:
    """Policies that charge for tokens, or begin to in this batch."""
    return [key for key, spec in [*specs.items(), *batch.specs] if spec.reward.token_cost]


class Loading:
    """The slice of the state that a batch concerns."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    # ---- load -------------------------------------------------------------------------------------------------------
    async def load(self, batch: Batch) -> tuple[Book, dict[InferenceKey, str]]:
        """The slice of the state that the batch concerns, and the traces of its inferences."""
        named = {(i.project, target) for i in batch.inferences for target in targets_of(i)}
        named |= {name for opinion in batch.opinions for name in _names(opinion)}
        if any(opinion.key.metric_name == "comparison" for opinion in batch.opinions):
            named |= {name for opinion in await self._held(batch.opinions) for name in _names(opinion)}
        await self._lock(named)
        held = await self._held(batch.opinions)
        # A comparison that changed between the two looks: the order is broken, a deadlock would end in another try.
        await self._lock({name for opinion in held for name in _names(opinion)} - named)
        keys = [*batch.again, *await self._waiting_for(batch.policies)]
        wanted = {target for opinion in (*batch.opinions, *held) for _, target in _names(opinion)}
        known, traces = await self._inferences(wanted, keys)
        concerned = [*known, *batch.inferences]
        opinions = await self._opinions(
            {*wanted, *(target for i in concerned for target in targets_of(i))}, {i.inference_id for i in concerned}
        )
        if not opinions and not batch.opinions:
            return Book(inferences=known), traces | batch.traces
        policies = {(i.project, i.policy) for i in concerned} | set(batch.policies)
        specs = await self._specs(policies)
        keys_known = [InferenceKey(i.project, i.inference_id) for i in concerned]
        book = Book(
            inferences=known,
            opinions=opinions,
            trajectories=await self._trajectories(keys_known),
            specs=specs,
            windows={key: await self.window(key) for key in _charging(specs, batch)},
            waiting=await self._waiting(keys_known),
        )
        return book, traces | batch.traces

    async def _held(self, opinions: Sequence[Opinion]) -> list[Opinion]:
        """The revisions that these may replace: what a comparison was about before is concerned too."""
        keys = {opinion.key for opinion in opinions}
        return [o for o in await self._opinions({key.target for key in keys}) if o.key in keys]

    async def _lock(self, names: Collection[tuple[str, str]]) -> None:
        buckets = sorted({zlib.crc32(f"{project} {target}".encode()) % 1024 for project, target in names})
        if buckets:
            series = func.unnest(bindparam("buckets", buckets, ARRAY(Integer))).column_valued("bucket")
            scope = func.hashtext(literal_column("current_schema() || '.join'"))
            await self._session.execute(select(func.count(func.pg_advisory_xact_lock(scope, series))))

    async def _inferences(
        self, targets: Collection[str], keys: Sequence[InferenceKey]
    ) -> tuple[list[InferenceCompleted], dict[InferenceKey, str]]:
        by_kind: dict[str, list[str]] = {
            "inference": [key.inference_id for key in keys],
            "correlation": [],
            "episode": [],
        }
        for target in targets:
            kind, _, name = target.partition(":")
            by_kind[kind].append(name)
        columns = {
            INFERENCE.c.inference_id: by_kind["inference"],
            INFERENCE.c.correlation_id: by_kind["correlation"],
            INFERENCE.c.episode_id: by_kind["episode"],
        }
        asked = [column == texts(names) for column, names in columns.items() if names]
        if not asked:
            return [], {}
        rows = await self._session.execute(
            select(INFERENCE.c.project, INFERENCE.c.inference_id, INFERENCE.c.trace, INFERENCE.c.event)
            .where(or_(*asked))
            .order_by(INFERENCE.c.inference_id, INFERENCE.c.project)
            .with_for_update()
        )
        found = rows.all()
        traces = {InferenceKey(row.project, row.inference_id): row.trace for row in found}
        return [InferenceCompleted.model_validate_json(row.event) for row in found], traces

    async def _opinions(self, targets: Collection[str], inference_ids: Collection[str] = ()) -> list[Opinion]:
        asked = [OPINION.c.target == texts(targets)] if targets else []
        if inference_ids:
            asked += [OPINION.c.chosen == texts(inference_ids), OPINION.c.rejected == texts(inference_ids)]
        if not asked:
            return []
        rows = await self._session.scalars(select(OPINION.c.document).where(or_(*asked)))
        return [OPINIONS.validate_json(document) for document in rows]

    async def _trajectories(self, keys: Sequence[InferenceKey]) -> dict[InferenceKey, Published]:
        columns = (TRAJECTORY.c.project, TRAJECTORY.c.inference_id, TRAJECTORY.c.revision, TRAJECTORY.c.quality)
        rows = await self._session.execute(
            select(*columns, TRAJECTORY.c.scored, TRAJECTORY.c.price).where(
                TRAJECTORY.c.inference_id == texts(key.inference_id for key in keys)
            )
        )
        return {
            InferenceKey(row.project, row.inference_id): Published(
                row.revision,
                Scored.model_validate_json(row.scored),
                row.quality,
                PRICES.validate_json(row.price) if row.price is not None else None,
            )
            for row in rows
        }

    async def _specs(self, policies: Collection[PolicyKey]) -> dict[PolicyKey, Spec]:
        rows = await self._session.execute(
            select(POLICY).where(POLICY.c.policy == texts(policy for _, policy in policies))
        )
        return {
            (row.project, row.policy): Spec(row.revision, RewardSpec.model_validate_json(row.reward), row.digest)
            for row in rows
            if (row.project, row.policy) in policies
        }

    async def window(self, policy: PolicyKey) -> Window:
        """The newest judged answers of a policy."""
        judged = (TRAJECTORY.c.answered_at, TRAJECTORY.c.inference_id, TRAJECTORY.c.quality, TRAJECTORY.c.tokens)
        rows = await self._session.execute(
            select(*judged, TRAJECTORY.c.segment)
            .where(
                TRAJECTORY.c.project == policy[0],
                TRAJECTORY.c.policy == policy[1],
                TRAJECTORY.c.quality.is_not(None),
                TRAJECTORY.c.completed,
            )
            .order_by(TRAJECTORY.c.answered_at.desc(), TRAJECTORY.c.inference_id.desc())
            .limit(WINDOW)
        )
        return Window(Judged(*row) for row in rows)

    async def _waiting(self, keys: Collection[InferenceKey]) -> list[InferenceKey]:
        rows = await self._session.execute(
            select(WAITING.c.project, WAITING.c.inference_id).where(
                WAITING.c.inference_id == texts(key.inference_id for key in keys)
            )
        )
        return [InferenceKey(*row) for row in rows]

    async def _waiting_for(self, policies: Sequence[PolicyKey]) -> list[InferenceKey]:
        if not policies:
            return []
        rows = await self._session.execute(
            select(WAITING.c.project, WAITING.c.inference_id)
            .where(tuple_(WAITING.c.project, WAITING.c.policy).in_(policies))
            .limit(AGAIN)
        )
        return [InferenceKey(*row) for row in rows]

    async def overdue(self) -> list[InferenceKey]:
        """Inferences that wait for a policy which is known: it came while they were being judged."""
        rows = await self._session.execute(
            select(WAITING.c.project, WAITING.c.inference_id)
            .join(POLICY, (POLICY.c.project == WAITING.c.project) & (POLICY.c.policy == WAITING.c.policy))
            .limit(AGAIN)
        )
        return [InferenceKey(*row) for row in rows]
