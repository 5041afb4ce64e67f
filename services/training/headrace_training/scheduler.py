"""The trigger's clock: looks at every policy, and queues a run where core.trigger says so."""

import asyncio
from datetime import datetime

import structlog

from headrace_kit.clock import new_uuid7
from headrace_kit.errors import Retryable
from headrace_kit.service import Service
from headrace_schemas import PolicySpec, RouteChanged
from headrace_training.core.run import QUEUED, Run
from headrace_training.core.trigger import decide
from headrace_training.recipes import RECIPES
from headrace_training.store import Store

log = structlog.get_logger()
KNOWN = frozenset(RECIPES)


async def run(service: Service, every_s: float) -> None:
    """Until cancelled; an outage of the database is waited out."""
    while True:
        try:
            await look(service)
        except Retryable as error:
            log.warning("triggers wait", error=str(error))
        await asyncio.sleep(every_s)


async def look(service: Service) -> list[str]:
    """Queue what is due; the ids of the new runs."""
    async with service.unit_of_work() as work:
        specs = await Store(work.session).policies()
    started = []
    for spec in specs:
        async with service.unit_of_work() as work:
            store = Store(work.session)
            await store.lock_policy(spec.policy)
            route = await store.route(spec.policy)
            decision = decide(spec, route, await store.standing(spec, work.now), KNOWN)
            if decision.start and route is not None:
                queued = new_run(spec, route, decision.because, work.now)
                await store.add_run(queued)
                started.append(queued.run_id)
                log.info("run queued", policy=spec.policy, run=queued.run_id, because=decision.because)
    return started


def new_run(spec: PolicySpec, route: RouteChanged, because: str, now: datetime) -> Run:
    """A run that continues the champion."""
    return Run(
        run_id=f"run-{new_uuid7().hex}",
        policy=spec.policy,
        project=spec.project,
        base_model=spec.base_model,
        state=QUEUED,
        because=because,
        recipe=spec.train.recipe,
        seed=spec.train.seed,
        parent_version=route.champion.version,
        parent_digest=route.champion.digest,
        parent_key=route.champion.object_key,
        created_at=now,
    )
