"""Evaluation over HTTP. README.md has the table of calls. Nothing of a suite's contents is ever answered."""

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from pydantic import StringConstraints

from headrace_evaluation.core.suite import Suite
from headrace_evaluation.store import Store
from headrace_evaluation.vault import Vault
from headrace_evaluation.worker import look
from headrace_kit.errors import Rejected
from headrace_kit.service import Service
from headrace_schemas.base import Json, Name
from headrace_scoring.rules import rule_problem

ByHeader = Annotated[str, StringConstraints(min_length=1, max_length=200), Header(alias="x-headrace-by")]


def routes(service: Service, vault: Vault) -> APIRouter:
    """Every call, bound to the service's database."""
    router = APIRouter(prefix="/v1")

    @router.put("/suites/{name}")
    async def push(name: Name, suite: Suite, response: Response, by: ByHeader = "admin") -> Json:
        for number, case in enumerate(suite.cases):
            problem = rule_problem(case.rule)
            if problem is not None:
                raise Rejected("bad_pattern", f"cases.{number}.rule.matches: {problem}", f"cases.{number}.rule.matches")
        digest = suite.digest()
        async with service.unit_of_work() as work:
            store = Store(work.session)
            new = await store.suite(name) is None
            row = {
                "suite": name,
                "digest": digest,
                "cases": len(suite.cases),
                "max_tokens": suite.max_tokens,
                "sealed": vault.seal(name, suite),
                "updated_at": work.now,
                "updated_by": by,
            }
            changed = await store.put_suite(row)
            if changed:
                await store.note_access(work.now, by, "pushed", name, digest, f"{len(suite.cases)} cases")
            stored = await store.suite(name)
        assert stored is not None
        response.status_code = 201 if new else 200
        return stored | {"changed": changed}

    @router.get("/suites")
    async def suites() -> Json:
        async with service.unit_of_work() as work:
            return {"data": await Store(work.session).suites()}

    @router.get("/suites/{name}")
    async def suite(name: str) -> Json:
        async with service.unit_of_work() as work:
            return await _known(Store(work.session), name)

    @router.get("/suites/{name}/access")
    async def access(name: str, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> Json:
        async with service.unit_of_work() as work:
            store = Store(work.session)
            await _known(store, name)
            return {"data": await store.access(name, limit)}

    @router.get("/evaluations")
    async def evaluations(policy: str | None = None, version: Annotated[int | None, Query(ge=0)] = None) -> Json:
        async with service.unit_of_work() as work:
            store = Store(work.session)
            _, waiting = await look(work)
            return {
                "data": await store.reports(policy, version),
                "pending": await store.open_jobs(policy, version),
                "waiting": [
                    {"policy": w.policy, "version": w.version, "because": w.because}
                    for w in waiting
                    if policy in (None, w.policy) and version in (None, w.version)
                ],
            }

    return router


async def _known(store: Store, name: str) -> Json:
    found = await store.suite(name)
    if found is None:
        raise Rejected("unknown_suite", f"no suite is called {name}: headrace evals push {name}", "suite", 404)
    return found
