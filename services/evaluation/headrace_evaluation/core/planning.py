"""What is to be judged: each candidate that engines hold, against today's champion, by today's gate and suite."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace_schemas import AdapterObserved, PolicySpec, RouteChanged
from headrace_schemas.base import Value, VersionRef

FRESH = timedelta(seconds=60)
"""A replica that said nothing for longer is not asked."""


class Comparison(Value):
    """One candidate against one champion on one suite by one gate: what a report is bound to."""

    policy: str
    project: str
    base_model: str
    candidate: VersionRef
    champion: VersionRef
    suite: str
    suite_digest: str
    gate_digest: str
    compares_latency: bool = False
    """A guard is on latency, so both are asked anew."""

    @property
    def evaluation_id(self) -> str:
        """Derived from what is compared, so that the same comparison is made once."""
        parts = (
            self.policy,
            str(self.candidate.version),
            self.candidate.digest,
            str(self.champion.version),
            self.champion.digest,
            self.suite_digest,
            self.gate_digest,
        )
        return f"ev-{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:32]}"


@dataclass(frozen=True)
class Waiting:
    """A candidate that cannot be judged yet."""

    policy: str
    version: int
    because: str


def plan(
    spec: PolicySpec,
    route: RouteChanged,
    *,
    registered: Iterable[str],
    replicas: Iterable[AdapterObserved],
    suites: Mapping[str, str],
    now: datetime,
) -> tuple[list[Comparison], list[Waiting]]:
    """Comparisons that are due, and candidates that wait with the reason.

    `registered` are digests of registered versions of the policy, `suites` the digest of each suite by name.
    """
    known = set(registered)
    live = [r for r in replicas if r.healthy and now - r.occurred_at <= FRESH]
    due, waiting = [], []
    for candidate in route.load:
        suite_digest = suites.get(spec.gate.suite)
        if candidate.digest not in known:
            because = "its registration has not arrived yet"
        elif suite_digest is None:
            because = f"the suite {spec.gate.suite} is not there: headrace evals push {spec.gate.suite}"
        elif not any(r.ready(candidate.engine_model) for r in live):
            because = "no live replica has it ready"
        else:
            due.append(
                Comparison(
                    policy=spec.policy,
                    project=spec.project,
                    base_model=route.base_model,
                    candidate=candidate,
                    champion=route.champion,
                    suite=spec.gate.suite,
                    suite_digest=suite_digest,
                    gate_digest=spec.gate_digest(),
                    compares_latency=any(g.metric == "latency_s" for g in spec.gate.guards),
                )
            )
            continue
        waiting.append(Waiting(spec.policy, candidate.version, because))
    return due, waiting


def still_holds(comparison: Comparison, spec: PolicySpec, route: RouteChanged, suite_digest: str | None) -> bool:
    """Whether a report about `comparison` would judge what is so now."""
    return (
        comparison.champion == route.champion
        and comparison.candidate in route.load
        and comparison.gate_digest == spec.gate_digest()
        and comparison.suite == spec.gate.suite
        and comparison.suite_digest == suite_digest
    )


def subject(version: VersionRef, base_model: str) -> str:
    """What answers are kept under: the adapter's digest, or the base model's name."""
    return version.digest or f"base:{base_model}"
