"""What the gateway knows of the world: routes, keys and replicas, followed from Kafka with copies on disk."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace_kit.bus import Bus
from headrace_kit.clock import Clock
from headrace_kit.follower import Follower
from headrace_schemas import AdapterObserved, KeyChanged, PolicyChanged, RouteChanged
from headrace_schemas.base import VersionRef
from headrace_serving.core.replicas import Target, candidates
from headrace_serving.core.routing import base_of


class Fleet:
    """Read on every request, from memory; nothing here waits."""

    def __init__(
        self,
        bus: Bus,
        prefix: str,
        clock: Clock,
        copies: Path | None,
        static: tuple[tuple[str, str], ...],
        rest_s: float,
    ) -> None:
        def copy(name: str) -> Path | None:
            return copies / f"{name}.json" if copies else None

        self.routes = Follower(bus, RouteChanged, prefix, lambda e: e.epoch, copy=copy("routes"))
        self.policies = Follower(bus, PolicyChanged, prefix, lambda e: e.revision, copy=copy("policies"))
        self.keys = Follower(bus, KeyChanged, prefix, lambda e: e.revision, copy=copy("keys"))
        self.replicas = Follower(bus, AdapterObserved, prefix, lambda e: e.sequence, copy=copy("replicas"))
        self._clock = clock
        self._static = static
        self._rest_s = rest_s
        self._in_flight: dict[str, int] = defaultdict(int)
        self._resting: dict[str, float] = {}
        self._turn = itertools.count()

    def followers(self) -> dict[str, Follower[Any]]:
        """By name, to be run as tasks."""
        return {"routes": self.routes, "policies": self.policies, "keys": self.keys, "replicas": self.replicas}

    def all_routes(self) -> list[RouteChanged]:
        """Routes, and for a policy that was applied but has none yet, the base model as its champion."""
        routes = {route.policy: route for route in self.routes.values()}
        for policy in self.policies.values():
            if policy.policy not in routes:
                base = str(policy.spec.get("base_model", ""))
                routes[policy.policy] = RouteChanged(
                    project=policy.project,
                    occurred_at=policy.occurred_at,
                    policy=policy.policy,
                    base_model=base,
                    epoch=1,
                    champion=VersionRef(version=0, engine_model=base),
                )
        return list(routes.values())

    def targets(self, ref: VersionRef, route: RouteChanged) -> list[Target]:
        """Replicas that may serve a version, best first."""
        return candidates(
            ref if ref.version else base_of(route),
            route.base_model,
            self.replicas.values(),
            self._static,
            in_flight=self._in_flight,
            resting=self._resting,
            now=self._clock.monotonic(),
            turn=next(self._turn),
        )

    def rest(self, replica: str) -> None:
        """It failed: ask it last for a while."""
        self._resting[replica] = self._clock.monotonic() + self._rest_s

    @contextmanager
    def busy(self, replica: str) -> Iterator[None]:
        self._in_flight[replica] += 1
        try:
            yield
        finally:
            self._in_flight[replica] -= 1
            if self._in_flight[replica] <= 0:
                del self._in_flight[replica]
