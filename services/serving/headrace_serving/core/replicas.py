"""Which engine answers: one that is healthy and has proved the version, the least busy first."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headrace_schemas import AdapterObserved
from headrace_schemas.base import VersionRef
from headrace_schemas.traffic import EngineFacts


class Target(NamedTuple):
    """Where a request goes."""

    replica: str
    url: str
    engine: EngineFacts


def candidates(
    ref: VersionRef,
    base_model: str,
    observed: Iterable[AdapterObserved],
    static: Iterable[tuple[str, str]],
    *,
    in_flight: Mapping[str, int],
    resting: Mapping[str, float],
    now: float,
    turn: int,
) -> list[Target]:
    """Replicas that may serve `ref`, best first: not resting, then least in flight, then in turn.

    `resting` says until when (seconds on the clock of `now`) a replica that failed is asked last. The `static` engines
    (base model, url) serve the base model alone and stand in where no agent reports one.
    """
    ready: list[Target] = []
    for replica in observed:
        if replica.base_model != base_model:
            continue
        if replica.healthy if ref.version == 0 else replica.ready(ref.engine_model):
            ready.append(Target(replica.replica, replica.url, replica.engine))
    if ref.version == 0 and not ready:
        ready = [
            Target(url, url, EngineFacts(base_model=base_model)) for model, url in static if model in ("", base_model)
        ]
    ready.sort(key=lambda t: t.replica)
    if ready:
        turn %= len(ready)
        ready = ready[turn:] + ready[:turn]
    return sorted(ready, key=lambda t: (resting.get(t.replica, 0.0) > now, in_flight.get(t.replica, 0)))
