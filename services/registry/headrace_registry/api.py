"""The registry over HTTP. README.md has the table of calls."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from headrace_kit.errors import Rejected
from headrace_kit.service import Service
from headrace_registry import commands, views
from headrace_registry.commands import Outcome
from headrace_registry.store import Store
from headrace_schemas import PolicySpec
from headrace_schemas.base import Json, Name

By = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Reason = Annotated[str, StringConstraints(max_length=2000)]
Scope = Annotated[str, StringConstraints(pattern="^(inference|feedback|evaluate)$")]
ByHeader = Annotated[By, Header(alias="x-headrace-by")]
IfMatch = Annotated[str | None, Header()]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Promotion(Body):
    version: int = Field(ge=0)
    by: By
    reason: Reason = ""
    force: bool = False


class Rollback(Body):
    version: int | None = Field(default=None, ge=0)
    by: By
    reason: Reason = ""


class NewKey(Body):
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    scopes: list[Scope] = Field(min_length=1, max_length=3)
    project: Name = "default"
    secret: Annotated[str, StringConstraints(max_length=300)] | None = None


def epoch_of(if_match: str | None) -> int | None:
    """The epoch in an If-Match header. Raises Rejected (400) for one that holds none."""
    if if_match is None:
        return None
    match = re.fullmatch(r'"?([0-9]{1,18})"?', if_match.strip())
    if match is None:
        raise Rejected("bad_if_match", 'If-Match holds the route\'s epoch, e.g. "7"', "If-Match", 400)
    return int(match[1])


def routes(service: Service) -> APIRouter:
    """Every call, bound to the service's database and outbox."""
    router = APIRouter(prefix="/v1")

    # ---- policies ---------------------------------------------------------------------------------------------------
    @router.put("/policies/{name}")
    async def apply(name: Name, spec: PolicySpec, response: Response, by: ByHeader = "admin") -> Json:
        if spec.policy != name:
            raise Rejected(
                "name_mismatch", f"the file is for the policy {spec.policy}, the address for {name}", "policy"
            )
        async with service.unit_of_work() as work:
            policy, changed, new = await commands.apply_policy(work, spec, by)
            store = Store(work.session)
            whole = await views.policy_whole(store, work, await views.find(store, policy.policy))
        response.status_code = 201 if new else 200
        return whole | {"changed": changed}

    @router.get("/policies")
    async def policies() -> Json:
        async with service.unit_of_work() as work:
            store = Store(work.session)
            places = [await views.find(store, p.policy) for p in await store.policies()]
        return {"data": [views.policy_row(p.policy, p.route) for p in places]}

    @router.get("/policies/{name}")
    async def policy(name: str) -> Json:
        async with service.unit_of_work() as work:
            store = Store(work.session)
            return await views.policy_whole(store, work, await views.find(store, name))

    @router.get("/policies/{name}/route")
    async def route(name: str, response: Response) -> Json:
        async with service.unit_of_work() as work:
            store = Store(work.session)
            place = await views.find(store, name)
            response.headers["ETag"] = f'"{place.route.epoch}"'
            return await views.route_of(store, work, place)

    # ---- versions ---------------------------------------------------------------------------------------------------
    @router.get("/policies/{name}/versions")
    async def versions(name: str) -> Json:
        async with service.unit_of_work() as work:
            return {"data": await views.version_rows(Store(work.session), name, work.now)}

    @router.get("/versions/{name}/{version}")
    async def version(name: str, version: str) -> Json:
        async with service.unit_of_work() as work:
            store = Store(work.session)
            return await views.explain(store, name, await views.number_of(store, name, version), work.now)

    @router.post("/policies/{name}/promote")
    async def promote(name: str, body: Promotion, response: Response, if_match: IfMatch = None) -> Json:
        async with service.unit_of_work() as work:
            outcome = await commands.promote(
                work,
                name,
                body.version,
                by=body.by,
                reason=body.reason,
                force=body.force,
                expected=epoch_of(if_match),
            )
            return await moved(Store(work.session), work, name, body.version, outcome, response)

    @router.post("/policies/{name}/rollback")
    async def rollback(name: str, body: Rollback, response: Response, if_match: IfMatch = None) -> Json:
        async with service.unit_of_work() as work:
            outcome = await commands.roll_back(
                work, name, body.version, by=body.by, reason=body.reason, expected=epoch_of(if_match)
            )
            return await moved(Store(work.session), work, name, body.version, outcome, response)

    async def moved(
        store: Store, work: Any, name: str, asked: int | None, outcome: Outcome, response: Response
    ) -> Json:
        status, route, missing = outcome
        response.status_code = 202 if missing else 200
        response.headers["ETag"] = f'"{route.epoch}"'
        place = await views.find(store, name)
        return {
            "status": status,
            "policy": name,
            "version": route.champion if asked is None else asked,
            "epoch": route.epoch,
            "waits_for": missing,
            "route": await views.route_of(store, work, place),
        }

    # ---- keys -------------------------------------------------------------------------------------------------------
    @router.post("/keys")
    async def make_key(body: NewKey, response: Response, by: ByHeader = "admin") -> Json:
        async with service.unit_of_work() as work:
            row, text, new = await commands.make_key(
                work, name=body.name, project=body.project, scopes=list(body.scopes), secret=body.secret, by=by
            )
        response.status_code = 201 if new else 200
        return views.key_row(row) | {"secret": text}

    @router.get("/keys")
    async def keys() -> Json:
        async with service.unit_of_work() as work:
            return {"data": [views.key_row(k) for k in await Store(work.session).keys()]}

    @router.delete("/keys/{prefix}")
    async def revoke(prefix: str, by: ByHeader = "admin") -> Json:
        async with service.unit_of_work() as work:
            return views.key_row(await commands.revoke_key(work, prefix, by))

    # ---- audit ------------------------------------------------------------------------------------------------------
    @router.get("/audit")
    async def audit(
        policy: str | None = None,
        version: Annotated[int | None, Query(ge=0)] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Json:
        async with service.unit_of_work() as work:
            return {"data": await Store(work.session).audit(policy, version, limit)}

    return router
