"""The sweeper: scores what waited for a policy that is there now, and gives up orphans whose time is over."""

import asyncio
from datetime import timedelta

import structlog

from headrace_kit.errors import Retryable
from headrace_kit.service import Service
from headrace_reward.facts import Batch
from headrace_reward.handlers import join
from headrace_reward.settings import RewardSettings
from headrace_reward.store import AGAIN, Loading, Upkeep
from headrace_reward.telemetry import EXPIRED, ORPHANS, WAITING

log = structlog.get_logger()


async def run(service: Service, settings: RewardSettings) -> None:
    """Until cancelled; an outage of the database is waited out."""
    while True:
        try:
            while await score_overdue(service) == AGAIN:
                pass
            await expire(service, settings)
        except Retryable as error:
            log.warning("the sweeper waits", error=str(error))
        await asyncio.sleep(settings.sweep_every_s)


async def score_overdue(service: Service) -> int:
    """Score inferences whose policy came while they were being judged, or that were too many for one transaction."""
    async with service.unit_of_work() as work:
        keys = await Loading(work.session).overdue()
        if keys:
            await join(Batch(again=keys), work)
    return len(keys)


async def expire(service: Service, settings: RewardSettings) -> int:
    """Give up orphans that waited longer than the setting says; answers how many."""
    async with service.unit_of_work() as work:
        upkeep = Upkeep(work.session)
        gone = await upkeep.expire(work.now - timedelta(seconds=settings.orphan_ttl_s))
        ORPHANS.set(await upkeep.orphans())
        WAITING.set(await upkeep.waiting())
    if gone:
        EXPIRED.inc(gone)
        log.warning("orphans given up", count=gone, after_s=settings.orphan_ttl_s)
    return gone
