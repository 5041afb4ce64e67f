"""Candidates that nobody judges, or that never become ready, are given up: training waits for them."""

import asyncio
from datetime import datetime, timedelta

import structlog

from headrace_kit.errors import Retryable
from headrace_kit.service import Service
from headrace_registry.core.deadline import overdue
from headrace_registry.core.lifecycle import State
from headrace_registry.moves import Moves
from headrace_registry.settings import RegistrySettings
from headrace_registry.store import Store

log = structlog.get_logger()


async def sweep(service: Service, deadline: timedelta) -> int:
    """One look at every policy: answers how many candidates were given up. Raises Retryable."""
    async with service.unit_of_work() as work:
        names = [p.policy for p in await Store(work.session).policies()]
    given_up = 0
    for name in names:
        async with service.unit_of_work() as work:
            given_up += await _sweep_policy(Moves(Store(work.session), work), name, deadline, work.now)
    return given_up


async def _sweep_policy(moves: Moves, name: str, deadline: timedelta, now: datetime) -> int:
    given_up = 0
    for version in await moves.store.versions(name):
        place = await moves.place(name)
        if place is None or (version.version not in place.route.load and version.pending is None):
            continue
        champion = await moves.store.version(name, place.route.champion)
        why = overdue(
            version,
            manual=place.policy.parsed().gate.promote == "manual",
            champion_since=champion.champion_at if champion else None,
            deadline=deadline,
            now=now,
        )
        if why is None:
            continue
        given_up += 1
        log.warning("candidate given up", policy=name, version=version.version, because=why)
        if version.state in (State.REGISTERED, State.EVALUATED):
            await moves.reject(place, version, "registry", why)
        else:
            await moves.give_up(place, version, "registry", why)
    return given_up


async def run(service: Service, settings: RegistrySettings) -> None:
    """Until cancelled; an outage of the database is waited out."""
    while True:
        try:
            await sweep(service, timedelta(seconds=settings.candidate_deadline_s))
        except Retryable as error:
            log.warning("sweeper waits", error=str(error))
        await asyncio.sleep(settings.sweep_every_s)
