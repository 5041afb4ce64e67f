"""Many transactions at once on a real PostgreSQL end where one book would, whoever comes first."""

import asyncio
import random
from datetime import timedelta

import pytest
from sqlalchemy import select

from feedback_parts import NOW, a_policy, an_episode, an_inference, platform
from headrace_kit.errors import Retryable
from headrace_kit.migrate import upgrade
from headrace_kit.testing import MemoryBroker, MemoryBus
from headrace_reward.app import build
from headrace_reward.core.compose import Scored
from headrace_reward.core.join import Book, Spec
from headrace_reward.core.opinions import Opinion
from headrace_reward.facts import Arrival, Batch
from headrace_reward.handlers import join
from headrace_reward.settings import RewardSettings
from headrace_reward.sweeper import score_overdue
from headrace_reward.tables import OPINION, TRAJECTORY
from headrace_schemas import FeedbackRecorded, PolicySpec
from headrace_schemas.traffic import Source


def some_facts(luck: random.Random) -> list:
    episodes = [an_episode() for _ in range(6)]
    inferences = [
        an_inference(luck.choice(episodes), correlation_id=luck.choice([None, "order-1", "order-2"])) for _ in range(30)
    ]
    policy = a_policy(
        reward={"parts": [{"name": "user", "kind": "feedback", "metrics": {"accepted": 1, "comparison": 1}}]}
    )
    reward = PolicySpec.model_validate(policy.spec)
    facts: list = [(("default", "support"), Spec(1, reward.reward, reward.reward_digest())), *inferences]
    revisions: dict = {}
    for sequence in range(1, 250):
        target = luck.choice(
            [
                {"inference_id": luck.choice(inferences).inference_id},
                {"episode_id": luck.choice(episodes)},
                {"correlation_id": luck.choice(["order-1", "order-2"])},
            ]
        )
        chosen, rejected = luck.sample(inferences, 2)
        metric, value = luck.choice(
            [
                ("accepted", luck.choice([True, False, None])),
                ("comment", luck.choice(["shorter", "longer", None])),
                ("comparison", luck.choice([{"chosen": chosen.inference_id, "rejected": rejected.inference_id}, None])),
            ]
        )
        by = luck.choice(["u1", "u2"])
        name = (*target.items(), metric, by)
        revisions[name] = revisions.get(name, 0) + 1
        facts.append(
            Opinion.of(
                FeedbackRecorded(
                    occurred_at=NOW,
                    recorded_at=NOW + timedelta(seconds=sequence),
                    feedback_id=f"fb{sequence}",
                    revision=revisions[name],
                    sequence=sequence,
                    metric_name=metric,
                    value=value,
                    source=Source(id=by),
                    **target,
                )
            )
        )
    return facts


@pytest.mark.parametrize("seed", range(3))
async def test_transactions_at_once_end_where_one_book_would(database_url, seed):
    await upgrade(database_url, "headrace_reward")
    service = build(RewardSettings(), platform(database_url), bus=MemoryBus(MemoryBroker()))
    luck = random.Random(seed)
    facts = some_facts(luck)
    book = Book()
    Batch([Arrival(fact) for fact in facts]).enter(book)
    book.settle()

    todo = facts * 2
    luck.shuffle(todo)
    batches = []
    while todo:
        size = luck.choice([1, 1, 3, 20])
        batches.append([Arrival(fact) for fact in todo[:size]])
        del todo[:size]

    retried = 0

    async def worker():
        nonlocal retried
        while batches:
            batch = batches.pop()
            while True:
                try:
                    async with service.unit_of_work() as work:
                        await join(Batch(batch), work)
                    break
                except Retryable:
                    retried += 1

    await asyncio.gather(*(worker() for _ in range(8)))
    await score_overdue(service)
    async with service.database.begin() as session:
        rows = await session.execute(select(TRAJECTORY.c.inference_id, TRAJECTORY.c.scored))
        found = {row.inference_id: Scored.model_validate_json(row.scored) for row in rows}
        orphans = await session.scalar(select(OPINION.c.target).where(~OPINION.c.matched).limit(1))
    await service.database.close()
    expected = {key.inference_id: published.scored for key, published in book.trajectories.items()}
    assert {k: v for k, v in found.items() if v.feedback_ids} == {k: v for k, v in expected.items() if v.feedback_ids}
    assert orphans is None
    assert retried < 20
