"""Runs over HTTP, for people and `headrace explain`. Behind the admin token."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from headrace_kit.errors import Rejected
from headrace_kit.service import Service
from headrace_training.core.run import Run
from headrace_training.core.trigger import decide
from headrace_training.scheduler import KNOWN
from headrace_training.store import Store

MOST = 500


def routes(service: Service) -> Sequence[BaseRoute]:
    """`GET /v1/runs`, `GET /v1/runs/{run_id}`."""

    async def runs(request: Request) -> Response:
        policy, limit = request.query_params.get("policy"), limit_of(request.query_params.get("limit", "50"))
        async with service.unit_of_work() as work:
            store = Store(work.session)
            found = await store.runs(policy, limit)
            waiting = []
            for spec in await store.policies():
                if policy in (None, spec.policy):
                    standing = await store.standing(spec, work.now)
                    decision = decide(spec, await store.route(spec.policy), standing, KNOWN)
                    waiting.append(
                        {
                            "policy": spec.policy,
                            "new_events": standing.new_samples,
                            "events_asked_for": spec.train.trigger.events,
                            "because": decision.because,
                        }
                    )
        return JSONResponse({"runs": [as_json(run) for run in found], "policies": waiting})

    async def run(request: Request) -> Response:
        async with service.unit_of_work() as work:
            store = Store(work.session)
            found = await store.run(request.path_params["run_id"])
            samples = await store.run_samples(found.run_id) if found else []
        if found is None:
            raise Rejected("unknown_run", f"there is no run {request.path_params['run_id']}", "run_id", 404)
        return JSONResponse({**as_json(found), "trajectories": samples})

    return [Route("/v1/runs", runs), Route("/v1/runs/{run_id}", run)]


def limit_of(text: str) -> int:
    """How many runs are asked for. Raises Rejected."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MOST:
        raise Rejected("bad_limit", f"limit is a number from 1 to {MOST}", "limit", 400)
    return int(text)


def as_json(run: Run) -> dict[str, Any]:
    """A run as the API shows it: times in ISO 8601; not who holds it."""
    row = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in asdict(run).items()}
    return {k: v for k, v in row.items() if k != "owner"}
