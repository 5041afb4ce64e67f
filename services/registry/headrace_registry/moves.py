"""Moves of aliases and versions: each is one transaction of fenced route, version states, audit and outbox.

Handlers, HTTP calls and the sweeper come through here. The order of writes is route, then versions, so that two that
move the same policy at once meet at the route's fence, and one of them changes nothing.
"""

from typing import NamedTuple

from headrace_kit.errors import Retryable
from headrace_kit.work import Work
from headrace_registry.core.lifecycle import State, allowed
from headrace_registry.core.policy import Policy
from headrace_registry.core.promotion import Pending, not_ready, unbound
from headrace_registry.core.route import Route, way_back
from headrace_registry.core.version import Version
from headrace_registry.store import Store
from headrace_schemas import RouteChanged


class RouteMovedError(Retryable):
    """Somebody else moved the policy's route or version meanwhile: look again."""


class Place(NamedTuple):
    """A policy and its route, as read at the start of a unit of work."""

    policy: Policy
    route: Route


async def event_of(store: Store, policy: Policy, route: Route, work: Work) -> RouteChanged:
    """The whole routing state as others follow it."""
    refs = {}
    for number in route.versions():
        version = await store.version(policy.policy, number)
        assert version is not None
        refs[number] = version.ref()
    return RouteChanged(
        project=policy.project,
        occurred_at=work.now,
        policy=policy.policy,
        base_model=policy.base_model,
        epoch=route.epoch,
        champion=refs[route.champion],
        previous=refs[route.previous] if route.previous is not None else None,
        load=tuple(refs[n] for n in route.load),
    )


class Moves:
    """What can be done to a policy's versions, inside one unit of work."""

    def __init__(self, store: Store, work: Work) -> None:
        self.store = store
        self._work = work

    async def place(self, name: str, *, turn: bool = False) -> Place | None:
        """`turn`: wait until nobody else moves the policy, and let nobody until the transaction ends.

        Who writes a decision that waits for engines, and who writes that engines are prepared, take turns: else each
        might read before the other wrote, and both leave the move to the other.
        """
        if turn:
            await self.store.take_turn(name)
        policy, route = await self.store.policy(name), await self.store.route(name)
        return Place(policy, route) if policy and route else None

    async def change_route(self, place: Place, new: Route) -> None:
        """By compare-and-set on the epoch. Raises RouteMovedError for the one who was second."""
        if new == place.route:
            return
        if not await self.store.swap_route(place.policy.policy, place.route.epoch, new):
            raise RouteMovedError(f"the route of {place.policy.policy} is no longer at epoch {place.route.epoch}")
        self._work.publish(await event_of(self.store, place.policy, new, self._work))

    async def _state(self, version: Version, to: State, reason: str, *, forced: bool = False, **more: object) -> None:
        if not allowed(version.state, to, forced=forced):
            raise ValueError(f"v{version.version} of {version.policy} is {version.state} and cannot become {to}")
        if not await self.store.move(version, to, reason=reason, at=self._work.now, **more):
            raise RouteMovedError(f"v{version.version} of {version.policy} is no longer {version.state}")

    async def _audit(self, version: Version, action: str, by: str, reason: str, **details: object) -> None:
        await self.store.note(
            self._work.now,
            by,
            action,
            policy=version.policy,
            version=version.version,
            reason=reason,
            digest=version.digest,
            state_before=str(version.state),
            **details,
        )

    # ---- candidates -------------------------------------------------------------------------------------------------
    async def evaluated(self, place: Place, version: Version, verdict: str, because: str, *, keep: bool) -> None:
        """It has a report. `keep`: engines keep it loaded, a move to champion may follow."""
        if not keep:
            await self.change_route(place, place.route.without_candidate(version.version))
        if version.state is State.REGISTERED:
            await self._state(version, State.EVALUATED, because, verdict=verdict)
        elif not await self.store.note_verdict(version, verdict):
            raise RouteMovedError(f"v{version.version} of {version.policy} is no longer {version.state}")
        await self._audit(version, "evaluated", "gate", because, verdict=verdict)

    async def reject(self, place: Place, version: Version, by: str, reason: str, verdict: str | None = None) -> None:
        """It will not become champion, and engines need not keep it."""
        await self.change_route(place, place.route.without_candidate(version.version))
        await self._state(version, State.REJECTED, reason, verdict=verdict or version.verdict)
        await self._audit(version, "rejected", by, reason)

    async def give_up(self, place: Place, version: Version, by: str, reason: str) -> None:
        """A move that waits for the engines is called off; the version stays what it is."""
        await self.change_route(place, place.route.without_candidate(version.version))
        if not await self.store.wait(version, None):
            raise RouteMovedError(f"v{version.version} of {version.policy} is no longer {version.state}")
        await self._audit(version, "called-off", by, reason)

    # ---- the alias --------------------------------------------------------------------------------------------------
    async def decide(self, place: Place, version: Version, pending: Pending) -> tuple[Route, str | None]:
        """Make the move now, or as soon as the engines are prepared: the route, and what is waited for (or None)."""
        await self.store.take_turn(version.policy)
        missing = not_ready(await self.store.replicas(), version.engine_model, place.policy.base_model, self._work.now)
        if missing is None:
            return await self.finish(place, version, pending), None
        route = place.route.with_candidate(version.version)
        await self.change_route(place, route)
        if not await self.store.wait(version, pending):
            raise RouteMovedError(f"v{version.version} of {version.policy} is no longer {version.state}")
        await self._audit(version, f"{pending.kind}-decided", pending.by, pending.reason, waits_for=missing)
        return route, missing

    async def finish(self, place: Place, version: Version, pending: Pending) -> Route:
        """Move the alias. The caller has seen that it may be moved and that the engines are prepared."""
        if pending.kind == "rollback":
            return await self._roll_back(place, version, pending)
        champion = await self.store.version(version.policy, place.route.champion)
        assert champion is not None
        route = place.route.promoted(version.version)
        await self.change_route(place, route)
        await self._crown(version, pending, route.epoch)
        await self._state(champion, State.RETIRED, f"v{version.version} took over")
        await self._audit(
            version,
            "promoted",
            pending.by,
            pending.reason,
            epoch=route.epoch,
            before=champion.version,
            forced=pending.forced,
        )
        return route

    async def _crown(self, version: Version, pending: Pending, epoch: int) -> None:
        await self._state(
            version,
            State.CHAMPION,
            pending.reason,
            forced=pending.forced,
            champion_at=self._work.now,
            champion_epoch=epoch,
            promoted_by=pending.by,
            promoted_because=pending.reason,
        )

    async def _roll_back(self, place: Place, version: Version, pending: Pending) -> Route:
        leaving = await self.store.version(version.policy, place.route.champion)
        assert leaving is not None
        before = None
        if version.version > 0 and version.champion_epoch is not None:
            retired = [
                (v.version, v.champion_epoch)
                for v in await self.store.versions(version.policy)
                if v.state is State.RETIRED and v.champion_epoch
            ]
            before = way_back(retired, until=version.champion_epoch, leaving={leaving.version, version.version})
        elif version.version > 0:
            before = 0
        route = place.route.rolled_back(version.version, before)
        await self.change_route(place, route)
        await self._crown(version, pending, route.epoch)
        after = State.QUARANTINED if leaving.version else State.RETIRED
        await self._state(leaving, after, f"rolled back to v{version.version}: {pending.reason}")
        await self._audit(version, "rolled-back", pending.by, pending.reason, epoch=route.epoch, before=leaving.version)
        return await self._without_children(place._replace(route=route), leaving)

    async def _without_children(self, place: Place, left: Version) -> Route:
        """Candidates that continue a version that was rolled back hold what people rolled it back for, and the gate,
        which had passed it, does not see that.
        """
        for number in place.route.load if left.version else ():
            child = await self.store.version(left.policy, number)
            if child is None or (child.lineage or {}).get("parent_version") != left.version:
                continue
            if child.state in (State.REGISTERED, State.EVALUATED) and not (child.pending and child.pending.forced):
                await self.reject(place, child, "registry", f"its parent v{left.version} was rolled back")
                place = place._replace(route=place.route.without_candidate(number))
        return place.route

    async def try_waiting(self, name: str) -> None:
        """Make the moves of a policy that were waiting for the engines and may now be made."""
        await self.store.take_turn(name)
        for version in await self.store.waiting(name):
            place, pending = await self.place(name), version.pending
            if place is None or pending is None:
                continue
            replicas = await self.store.replicas()
            if not_ready(replicas, version.engine_model, place.policy.base_model, self._work.now) is not None:
                continue
            changed = await self.outdated(place, version) if pending.kind == "promote" and not pending.forced else None
            if changed is None:
                await self.finish(place, version, pending)
            else:
                await self.store.wait(version, None)
                await self._audit(version, "called-off", "registry", changed)

    async def outdated(self, place: Place, version: Version) -> str | None:
        """None where a stored report says promote, for today's champion and gate; else why not, in words."""
        champion = await self.store.version(version.policy, place.route.champion)
        assert champion is not None
        spec, because = place.policy.parsed(), "there is no gate report about it"
        for report in await self.store.reports(version.policy, version.version):
            changed = unbound(report, spec, champion.version, champion.digest)
            if changed is None and report.verdict == "promote":
                return None
            if because.startswith("there is no"):
                because = changed or f"the gate said {report.verdict}: {report.because}"
        return because
