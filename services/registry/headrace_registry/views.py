"""What the registry tells: rows for lists, and everything about one version for `headrace explain`."""

from datetime import datetime

from headrace_kit.errors import Rejected
from headrace_kit.work import Work
from headrace_registry.core.policy import Policy
from headrace_registry.core.promotion import is_live
from headrace_registry.core.route import Route
from headrace_registry.core.version import Version
from headrace_registry.moves import Place, event_of
from headrace_registry.store import Store
from headrace_schemas import AdapterObserved, EvaluationCompleted
from headrace_schemas.base import Json


async def find(store: Store, name: str) -> Place:
    """The policy and its route. Raises Rejected (404) where there is none."""
    policy, route = await store.policy(name), await store.route(name)
    if policy is None or route is None:
        raise Rejected("unknown_policy", f"no policy is called {name}: apply its file first", "policy", 404)
    return Place(policy, route)


async def route_of(store: Store, work: Work, place: Place) -> Json:
    return (await event_of(store, place.policy, place.route, work)).model_dump(mode="json")


def policy_row(policy: Policy, route: Route) -> Json:
    """A line of the list of policies."""
    gate = policy.spec["gate"]
    return _head(policy) | {
        "epoch": route.epoch,
        "champion": route.champion,
        "previous": route.previous,
        "candidates": list(route.load),
        "suite": gate["suite"],
        "promote": gate["promote"],
    }


def _head(policy: Policy) -> Json:
    return {
        "policy": policy.policy,
        "project": policy.project,
        "base_model": policy.base_model,
        "revision": policy.revision,
        "digest": policy.digest,
        "updated_at": policy.updated_at,
    }


async def policy_whole(store: Store, work: Work, place: Place) -> Json:
    return _head(place.policy) | {"spec": place.policy.spec, "route": await route_of(store, work, place)}


async def version_rows(store: Store, name: str, now: datetime) -> list[Json]:
    """The list of a policy's versions, newest first."""
    place = await find(store, name)
    newest: dict[int, EvaluationCompleted] = {}
    for report in await store.reports(name):
        newest.setdefault(report.candidate_version, report)
    live = [r for r in await store.replicas() if is_live(r, place.policy.base_model, now)]
    return [
        _version_row(v, place.route, newest.get(v.version), [r.replica for r in live if r.ready(v.engine_model)])
        for v in await store.versions(name)
    ]


def _version_row(version: Version, route: Route, report: EvaluationCompleted | None, ready_on: list[str]) -> Json:
    lineage = version.lineage or {}
    numbers = report.statistics if report else None
    return {
        "policy": version.policy,
        "version": version.version,
        "digest": version.digest,
        "state": version.state,
        "role": route.role(version.version),
        "reason": version.reason,
        "verdict": report.verdict if report else None,
        "parent_version": lineage.get("parent_version"),
        "samples": lineage.get("samples"),
        "recipe": lineage.get("recipe"),
        "run_id": lineage.get("run_id"),
        "metrics": lineage.get("metrics", {}),
        "registered_at": version.registered_at,
        "promoted_at": version.champion_at,
        "promoted_by": version.promoted_by,
        "pending": version.pending,
        "candidate_score": numbers.candidate if numbers else None,
        "champion_score": numbers.champion if numbers else None,
        "e_value": numbers.e_value if numbers else None,
        "ready_on": ready_on,
    }


async def number_of(store: Store, name: str, given: str) -> int:
    """`7`, `v7`, `champion` and `previous` as a version number. Raises Rejected (404)."""
    route = (await find(store, name)).route
    if given == "champion":
        return route.champion
    if given == "previous" and route.previous is not None:
        return route.previous
    digits = given.removeprefix("v")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise Rejected(
            "unknown_version", f"{name} has no version {given}: say 7, v7, champion or previous", "version", 404
        )
    return int(digits)


async def explain(store: Store, name: str, number: int, now: datetime) -> Json:
    """Everything about one version: where it comes from, what judged it, who made it champion, where it is."""
    place, version = await find(store, name), await store.version(name, number)
    if version is None:
        raise Rejected("unknown_version", f"{name} has no v{number}", "version", 404)
    lineage = version.lineage or {}
    promoted = {"by": version.promoted_by, "at": version.champion_at, "reason": version.promoted_because}
    return {
        "policy": name,
        **version.ref().model_dump(),
        "state": version.state,
        "state_at": version.state_at,
        "reason": version.reason,
        "base_model": version.base_model,
        "parents": await _parents(store, version),
        "run": {k: lineage.get(k) for k in ("run_id", "recipe", "recipe_digest", "fencing_token", "metrics")},
        "data": {k: lineage.get(k) for k in ("manifest_key", "manifest_digest", "samples")},
        "reward_spec_digest": lineage.get("spec_digest"),
        "policy_digest": version.policy_digest,
        "policy_revision": version.policy_revision,
        "registered_at": version.registered_at,
        "reports": [r.model_dump(mode="json") for r in await store.reports(name, number)],
        "proofs": [_without(p, "policy", "version") for p in await store.proofs(name, number)],
        "replicas": _seen_on(await store.replicas(), version, now),
        "promoted": promoted if version.promoted_by else None,
        "pending": version.pending,
        "route": {"epoch": place.route.epoch, "role": place.route.role(number)},
        "audit": await store.audit(name, number, 100),
    }


async def _parents(store: Store, version: Version) -> list[Json]:
    """From the parent up to the base model."""
    chain: list[Json] = []
    current: Version | None = version
    while current is not None and current.lineage is not None:
        number = current.lineage["parent_version"]
        parent = await store.version(version.policy, number)
        if parent is None or number >= current.version:  # a refused checkpoint may name what does not exist
            break
        chain.append({"version": number, "digest": parent.digest, "state": parent.state})
        current = parent
    return chain


def _seen_on(replicas: list[AdapterObserved], version: Version, now: datetime) -> list[Json]:
    return [
        {
            "replica": r.replica,
            "state": next((a.state for a in r.adapters if a.engine_model == version.engine_model), "absent")
            if version.version
            else "base",
            "observed_at": r.occurred_at,
            "live": is_live(r, version.base_model, now),
        }
        for r in replicas
        if r.base_model == version.base_model
    ]


def key_row(row: Json) -> Json:
    return _without(row, "salt", "hash", "revision")


def _without(row: Json, *names: str) -> Json:
    return {k: v for k, v in row.items() if k not in names}
