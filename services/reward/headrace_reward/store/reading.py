"""What people ask: what became of an answer, and how the join stands."""

import json
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_reward.core.opinions import Opinion, about, targets_of
from headrace_reward.store.loading import OPINIONS, texts
from headrace_reward.store.upkeep import Upkeep
from headrace_reward.tables import INFERENCE, OPINION, POLICY, TOKEN_PRICE, TRAJECTORY
from headrace_schemas import InferenceCompleted
from headrace_schemas.feedback import RESERVED
from headrace_schemas.policy import FeedbackPart, RewardSpec


class Reading:
    """Read only."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def trajectory(self, project: str, inference_id: str) -> dict[str, Any] | None:
        """An inference, what counts of what was said of it, and its reward; None where it is unknown."""
        here = (INFERENCE.c.project == project) & (INFERENCE.c.inference_id == inference_id)
        event = await self._session.scalar(select(INFERENCE.c.event).where(here))
        if event is None:
            return None
        inference = InferenceCompleted.model_validate_json(event)
        row = (
            await self._session.execute(
                select(TRAJECTORY.c.revision, TRAJECTORY.c.scored, TRAJECTORY.c.scored_at).where(
                    TRAJECTORY.c.project == project, TRAJECTORY.c.inference_id == inference_id
                )
            )
        ).one_or_none()
        feedback = [_shown(opinion) for opinion in about(inference_id, await self._opinions(inference))]
        return {
            "object": "trajectory",
            "id": inference_id,
            "episode_id": inference.episode_id,
            "policy": inference.policy,
            "policy_version": inference.policy_version,
            "state": "scored" if row else "waiting for its policy" if feedback else "no feedback",
            "revision": row.revision if row else 0,
            "scored_at": row.scored_at.isoformat() if row else None,
            **(json.loads(row.scored) if row else {}),
            "feedback": feedback,
        }

    async def _opinions(self, inference: InferenceCompleted) -> list[Opinion]:
        one = texts([inference.inference_id])
        rows = await self._session.scalars(
            select(OPINION.c.document).where(
                OPINION.c.project == inference.project,
                (OPINION.c.target == texts(targets_of(inference)))
                | (OPINION.c.chosen == one)
                | (OPINION.c.rejected == one),
            )
        )
        return [OPINIONS.validate_json(document) for document in rows]

    async def stats(self) -> dict[str, Any]:
        """How the join stands: counts, token prices, and metrics that no reward listens to."""
        upkeep = Upkeep(self._session)
        joined = await self._session.scalar(select(func.count()).select_from(OPINION).where(OPINION.c.matched))
        prices = await self._session.execute(select(TOKEN_PRICE).order_by(TOKEN_PRICE.c.project, TOKEN_PRICE.c.policy))
        return {
            "object": "reward.stats",
            "inferences": await self._session.scalar(select(func.count()).select_from(INFERENCE)),
            "trajectories": await self._session.scalar(select(func.count()).select_from(TRAJECTORY)),
            "rewarded": await self._session.scalar(
                select(func.count()).select_from(TRAJECTORY).where(TRAJECTORY.c.quality.is_not(None))
            ),
            "joined": joined,
            "orphans": await upkeep.orphans(),
            "orphans_expired": await upkeep.expired(),
            "waiting": await upkeep.waiting(),
            "metrics_not_used": await self._unused(),
            "token_prices": [
                {
                    "project": row.project,
                    "policy": row.policy,
                    "pressure": row.pressure,
                    "median_accepted": row.median_accepted,
                    "judged": row.judged,
                }
                for row in prices
            ],
        }

    async def _unused(self) -> dict[str, dict[str, int]]:
        """Metric names by project that were seen and that no reward listens to, with how often."""
        used: dict[str, set[str]] = {}
        for row in await self._session.execute(select(POLICY.c.project, POLICY.c.reward)):
            for part in RewardSpec.model_validate_json(row.reward).parts:
                if isinstance(part, FeedbackPart):
                    used.setdefault(row.project, set(RESERVED)).update(part.metrics)
        unused: dict[str, dict[str, int]] = {}
        seen = select(OPINION.c.project, OPINION.c.metric_name, func.count().label("n"))
        for row in await self._session.execute(seen.group_by(OPINION.c.project, OPINION.c.metric_name)):
            if row.metric_name not in used.get(row.project, set(RESERVED)):
                unused.setdefault(row.project, {})[row.metric_name] = row.n
        return unused


def _shown(opinion: Opinion) -> dict[str, Any]:
    return {
        "id": opinion.feedback_id,
        "target": opinion.key.target,
        "metric_name": opinion.key.metric_name,
        "source": opinion.key.source,
        "value": opinion.value,
        "comment": opinion.comment,
        "trust": opinion.trust,
        "recorded_at": opinion.recorded_at.isoformat(),
    }
