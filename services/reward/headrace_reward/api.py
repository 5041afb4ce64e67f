"""What became of an answer, and how the join stands. Read only."""

import re

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from headrace_kit.errors import Rejected
from headrace_kit.service import Service
from headrace_reward.store import Reading

_PROJECT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def routes(service: Service) -> list[BaseRoute]:
    """`GET /v1/trajectories/{id}` and `GET /v1/stats`."""

    async def trajectory(request: Request) -> Response:
        inference_id = request.path_params["inference_id"]
        project = request.headers.get("x-headrace-project", "default")
        if not _PROJECT.fullmatch(project):
            raise Rejected("project", "x-headrace-project is not a project's name", "x-headrace-project", 400)
        async with service.unit_of_work() as work:
            found = await Reading(work.session).trajectory(project, inference_id.replace("\x00", ""))
        if found is None:
            raise Rejected("not_found", f"there is no inference {inference_id!r} here", "id", 404)
        return JSONResponse(found)

    async def stats(_: Request) -> Response:
        async with service.unit_of_work() as work:
            return JSONResponse(await Reading(work.session).stats())

    return [Route("/v1/trajectories/{inference_id}", trajectory), Route("/v1/stats", stats)]
