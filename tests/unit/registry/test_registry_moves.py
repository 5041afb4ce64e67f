"""Rolling back, on a store in memory: which candidates go with the version that is left."""

from dataclasses import replace
from datetime import UTC, datetime

from headrace_registry.core.lifecycle import State
from headrace_registry.core.policy import first
from headrace_registry.core.promotion import Pending
from headrace_registry.core.route import Route
from headrace_registry.moves import Moves, Place
from tests.unit.registry.test_registry_core import NOW, spec, version

POLICY = first(spec(), NOW)


class Shelf:
    """The part of the store that a rollback uses."""

    def __init__(self, route, *versions) -> None:
        self.current, self.known = route, {v.version: v for v in versions}

    async def policy(self, name):
        return POLICY

    async def route(self, name):
        return self.current

    async def version(self, policy, number):
        return self.known.get(number)

    async def versions(self, policy):
        return list(self.known.values())

    async def swap_route(self, policy, expected, route):
        if self.current.epoch != expected:
            return False
        self.current = route
        return True

    async def move(self, version, to, *, reason, at, **more):
        self.known[version.version] = replace(version, state=to, reason=reason, pending=None, **more)
        return True

    async def note(self, *_, **__): ...


class Work:
    """What a move asks of a unit of work."""

    def __init__(self) -> None:
        self.now, self.published = datetime(2026, 3, 2, tzinfo=UTC), []

    def publish(self, event) -> None:
        self.published.append(event)


def adapter(number, state, parent, **more):
    return version(version=number, digest=f"{number:064x}", state=state, lineage={"parent_version": parent}, **more)


async def test_candidates_that_continue_a_version_are_rejected_when_it_is_rolled_back():
    forced = Pending("promote", "ada", "I know", forced=True, at=NOW)
    shelf = Shelf(
        Route(9, champion=2, previous=1, load=(3, 4, 5, 6)),
        version(version=0, digest="", state=State.RETIRED, champion_epoch=1),
        adapter(1, State.RETIRED, 0, champion_epoch=4),
        adapter(2, State.CHAMPION, 1, champion_epoch=7),
        adapter(3, State.REGISTERED, 2),
        adapter(4, State.EVALUATED, 2, verdict="promote"),
        adapter(5, State.REGISTERED, 1),
        adapter(6, State.EVALUATED, 2, pending=forced),
    )
    work = Work()
    back = Pending("rollback", "ada", "it lies", forced=False, at=NOW)
    route = await Moves(shelf, work).finish(Place(POLICY, shelf.current), shelf.known[1], back)
    assert route == shelf.current
    assert (route.champion, route.previous, route.load) == (1, 0, (5, 6))
    states = {number: found.state for number, found in shelf.known.items()}
    assert states[2] is State.QUARANTINED
    assert states[3] is states[4] is State.REJECTED
    assert states[5] is State.REGISTERED and states[6] is State.EVALUATED
    assert [event.epoch for event in work.published] == [10, 11, 12]
