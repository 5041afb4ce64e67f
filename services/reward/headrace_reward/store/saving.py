"""Save what a settled batch came to."""

from collections.abc import Iterable
from datetime import datetime

from pydantic import TypeAdapter
from sqlalchemy import delete, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from headrace_reward.core.compose import tokens_of
from headrace_reward.core.join import Book, Changes, PolicyKey, Published, Spec
from headrace_reward.core.opinions import InferenceKey, Opinion
from headrace_reward.core.price import Price, Window
from headrace_reward.tables import INFERENCE, OPINION, POLICY, TOKEN_PRICE, TRAJECTORY, WAITING
from headrace_schemas import InferenceCompleted

OPINIONS = TypeAdapter(Opinion)
PRICES = TypeAdapter(Price)


class Saving:
    """Rows for what `settle` found."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def save(self, changes: Changes, book: Book, traces: dict[InferenceKey, str], now: datetime) -> None:
        """What `settle` found, in one transaction with what is published of it."""
        await self._save_inferences(changes.inferences, traces, now)
        await self._save_opinions(changes.opinions.values(), now)
        await self._save_policies(changes.specs)
        await self._save_trajectories(changes.trajectories, book, now)
        await self._save_prices({key: book.windows[key] for key in sorted(changes.priced)}, book.specs, now)
        if changes.waiting:
            rows = [
                {"project": key.project, "inference_id": key.inference_id, "policy": book.inferences[key].policy}
                for key in sorted(changes.waiting)
            ]
            await self._session.execute(insert(WAITING).on_conflict_do_nothing(), rows)
        if changes.no_longer_waiting:
            done = tuple_(WAITING.c.project, WAITING.c.inference_id).in_(sorted(changes.no_longer_waiting))
            await self._session.execute(delete(WAITING).where(done))

    async def _save_inferences(
        self, inferences: dict[InferenceKey, InferenceCompleted], traces: dict[InferenceKey, str], now: datetime
    ) -> None:
        rows = [
            {
                "project": key.project,
                "inference_id": key.inference_id,
                "episode_id": inference.episode_id,
                "correlation_id": inference.correlation_id,
                "policy": inference.policy,
                "trace": traces.get(key, ""),
                "stored_at": now,
                "event": inference.model_dump_json(),
            }
            for key, inference in sorted(inferences.items())
        ]
        if rows:
            await self._session.execute(insert(INFERENCE).on_conflict_do_nothing(), rows)

    async def _save_opinions(self, opinions: Iterable[Opinion], now: datetime) -> None:
        rows = [
            {
                **opinion.key._asdict(),
                "chosen": opinion.compared[0] if opinion.compared else None,
                "rejected": opinion.compared[1] if opinion.compared else None,
                "matched": opinion.matched,
                "seen_at": now,
                "document": OPINIONS.dump_json(opinion).decode(),
            }
            for opinion in sorted(opinions, key=lambda opinion: opinion.key)
        ]
        if rows:
            new = insert(OPINION)
            changed = {name: new.excluded[name] for name in ("chosen", "rejected", "matched", "document")}
            await self._session.execute(new.on_conflict_do_update(constraint="opinion_pkey", set_=changed), rows)

    async def _save_policies(self, specs: dict[PolicyKey, Spec]) -> None:
        rows = [
            {
                "project": project,
                "policy": policy,
                "revision": spec.revision,
                "digest": spec.digest,
                "reward": spec.reward.model_dump_json(),
            }
            for (project, policy), spec in sorted(specs.items())
        ]
        if rows:
            new = insert(POLICY)
            changed = {name: new.excluded[name] for name in ("revision", "digest", "reward")}
            newer = POLICY.c.revision < new.excluded.revision
            await self._session.execute(
                new.on_conflict_do_update(constraint="policy_pkey", set_=changed, where=newer), rows
            )

    async def _save_trajectories(self, found: dict[InferenceKey, Published], book: Book, now: datetime) -> None:
        rows = []
        for key, published in sorted(found.items()):
            inference = book.inferences[key]
            rows.append(
                {
                    "project": key.project,
                    "inference_id": key.inference_id,
                    "policy": inference.policy,
                    "revision": published.revision,
                    "answered_at": inference.occurred_at,
                    "completed": inference.state == "completed",
                    "quality": published.quality,
                    "tokens": tokens_of(inference),
                    "segment": inference.segment,
                    "scored": published.scored.model_dump_json(),
                    "price": PRICES.dump_json(published.price).decode() if published.price else None,
                    "scored_at": now,
                }
            )
        if not rows:
            return
        new = insert(TRAJECTORY)
        changed = {name: new.excluded[name] for name in ("revision", "quality", "scored", "price", "scored_at")}
        await self._session.execute(new.on_conflict_do_update(constraint="trajectory_pkey", set_=changed), rows)

    async def _save_prices(self, windows: dict[PolicyKey, Window], specs: dict[PolicyKey, Spec], now: datetime) -> None:
        rows = []
        for (project, policy), window in windows.items():
            cost = specs[project, policy].reward.token_cost
            rows.append(
                {
                    "project": project,
                    "policy": policy,
                    "pressure": window.pressure(cost.ceiling) if cost else 0.0,
                    "median_accepted": window.median(),
                    "judged": len(window),
                    "updated_at": now,
                }
            )
        if rows:
            new = insert(TOKEN_PRICE)
            changed = {name: new.excluded[name] for name in ("pressure", "median_accepted", "judged", "updated_at")}
            await self._session.execute(new.on_conflict_do_update(constraint="token_price_pkey", set_=changed), rows)
