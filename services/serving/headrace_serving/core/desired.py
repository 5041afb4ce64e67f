"""What a replica must hold, what it may let go, and when."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from headrace_schemas import RouteChanged
from headrace_schemas.base import VersionRef
from headrace_schemas.release import AdapterState, Probe


class Wanted(NamedTuple):
    """An adapter version of a policy."""

    policy: str
    ref: VersionRef


@dataclass
class Held:
    """One adapter on this replica, as the agent knows it."""

    want: Wanted
    since: float
    """When it was first wanted, on the monotonic clock."""
    state: Literal["loading", "ready", "failed", "gone"] = "loading"
    probe: Probe | None = None
    attempts: int = 0
    """Loads or proofs that broke; an adapter that breaks twice is never tried again."""

    def as_state(self) -> AdapterState:
        """As it is reported."""
        ref = self.want.ref
        return AdapterState(
            policy=self.want.policy,
            version=ref.version,
            digest=ref.digest,
            engine_model=ref.engine_model,
            state=self.state,
            probe=self.probe,
        )


def wanted(routes: Iterable[RouteChanged], base_model: str) -> dict[str, Wanted]:
    """By engine name, in the order in which they matter: all champions, then what a rollback or a canary needs, then
    candidates.
    """
    ranked: list[tuple[int, str, Wanted]] = []
    for route in routes:
        if route.base_model != base_model:
            continue
        ranked += [(rank, route.policy, Wanted(route.policy, ref)) for rank, ref in enumerate(route.wanted())]
    return {w.ref.engine_model: w for _, _, w in sorted(ranked, key=lambda r: r[:2])}


def to_unload(
    loaded: Iterable[str],
    desired: Mapping[str, object],
    unwanted_since: Mapping[str, float],
    *,
    now: float,
    grace_s: float,
    room_needed: int,
) -> list[str]:
    """Adapters that are no longer wanted and whose grace is over, oldest first; where room is needed for wanted ones,
    the grace is not waited for.
    """
    unwanted = sorted((n for n in loaded if n not in desired), key=lambda n: unwanted_since.get(n, now))
    return [
        name
        for rank, name in enumerate(unwanted)
        if rank < room_needed or now - unwanted_since.get(name, now) >= grace_s
    ]
