"""The feedback contract over HTTP (README.md). A 2xx means: durable, and it will be published."""

import re
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse

from headrace_feedback import openapi
from headrace_feedback.bodies import read_json
from headrace_feedback.core.intake import Receipt, Submission
from headrace_feedback.core.items import Problem, read_item
from headrace_feedback.core.metadata import items_of
from headrace_feedback.intake import accept
from headrace_feedback.settings import FeedbackSettings
from headrace_feedback.store import Store
from headrace_feedback.telemetry import ACCEPTED, REFUSED
from headrace_kit.clock import new_uuid7
from headrace_kit.errors import Rejected
from headrace_kit.http import error_body
from headrace_kit.service import Service
from headrace_schemas import FeedbackRecorded

_PROJECT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_SHOWN = {"metric_name", "value", "comment", "source", "tags", "occurred_at", "recorded_at", "revision", "sequence"}


def routes(service: Service, settings: FeedbackSettings) -> APIRouter:
    """Every call, bound to the service's database and outbox."""
    router = APIRouter(prefix="/v1")

    def submission(document: Any) -> Submission:
        item = read_item(document, now=service.clock.now(), strict_metrics=settings.strict_metrics)
        return Submission(item.id or f"fb_{new_uuid7().hex}", item)

    @router.post("/feedback", status_code=202, operation_id="recordFeedback", **openapi.one())
    async def record(request: Request) -> JSONResponse:
        """One opinion about one answer, episode or request of the app's own naming."""
        document = await read_json(request)
        try:
            given = submission(document)
        except Problem as problem:
            raise _rejected(problem) from None
        if given.item.dryrun:
            return JSONResponse({"object": "feedback", "id": given.id, "status": "valid"})
        (outcome,) = await accept(service, project_of(request), [given])
        if isinstance(outcome, Problem):
            raise _rejected(outcome)
        ACCEPTED.labels("replayed" if outcome.replayed else "new").inc()
        return JSONResponse(
            {"object": "feedback", "id": outcome.id, "status": "accepted"}, 200 if outcome.replayed else 202
        )

    @router.post("/feedback/batch", status_code=202, operation_id="recordFeedbackBatch", **openapi.batch())
    async def record_batch(request: Request) -> JSONResponse:
        """At most 100 items, 1 MB: each is taken or refused by itself."""
        documents = _items(await read_json(request))
        outcomes: dict[int, Receipt | Problem] = {}
        given: dict[int, Submission] = {}
        for index, document in enumerate(documents):
            try:
                given[index] = submission(document)
            except Problem as problem:
                outcomes[index] = problem
        write = {index: s for index, s in given.items() if not s.item.dryrun}
        outcomes |= {index: Receipt(s.id, replayed=False) for index, s in given.items() if s.item.dryrun}
        if write:
            written = await accept(service, project_of(request), list(write.values()))
            outcomes |= dict(zip(write, written, strict=True))
        return JSONResponse(_batch_answer([outcomes[index] for index in range(len(documents))]), 202)

    @router.get("/feedback/{feedback_id}", operation_id="readFeedback", **openapi.read())
    async def read(request: Request, feedback_id: str) -> JSONResponse:
        """What was recorded under the id, and every revision of the same opinion, oldest first."""
        async with service.unit_of_work() as work:
            history = await Store(work.session).history(project_of(request), feedback_id.replace("\x00", ""))
        one = next((event for event in history if event.feedback_id == feedback_id), None)
        if one is None:
            raise Rejected("not_found", f"there is no feedback {feedback_id!r}", "id", 404)
        return JSONResponse(
            {
                "object": "feedback",
                "status": "accepted",
                **_shown(one),
                "current": one.revision == history[-1].revision,
                "history": [_shown(event) for event in history],
            }
        )

    @router.post("/chat/completions/{inference_id}", operation_id="updateChatCompletion", **openapi.update())
    async def update(request: Request, inference_id: str) -> JSONResponse:
        """OpenAI's `chat.completions.update`: each `feedback.<metric>` of the metadata is one piece of feedback."""
        body = await read_json(request)
        try:
            given = [submission(document) for document in items_of(inference_id, body)]
        except Problem as problem:
            raise _rejected(problem) from None
        await accept(service, project_of(request), given)
        ACCEPTED.labels("new").inc(len(given))
        return JSONResponse(
            {
                "id": inference_id,
                "object": "chat.completion",
                "created": int(service.clock.now().timestamp()),
                "model": "",
                "choices": [],
                "metadata": body["metadata"],
                "feedback": [{"id": s.id, "metric_name": s.item.metric_name} for s in given],
            }
        )

    return router


def project_of(request: Request) -> str:
    """The project that the gateway found behind the key. Raises Rejected for what is not a project's name."""
    project = request.headers.get("x-headrace-project", "default")
    if not _PROJECT.fullmatch(project):
        raise Rejected("project", "x-headrace-project is not a project's name", "x-headrace-project", 400)
    return project


def _items(document: Any) -> Sequence[Any]:
    items = document.get("items") if isinstance(document, dict) else document
    if not isinstance(items, list) or not items:
        raise Rejected("items", 'a batch is {"items": […]} with at least one item', "items")
    if len(items) > openapi.MAX_ITEMS:
        raise Rejected("too_many_items", f"at most {openapi.MAX_ITEMS} items, and these are {len(items)}", "items", 413)
    return items


def _batch_answer(outcomes: Sequence[Receipt | Problem]) -> dict[str, Any]:
    rejected = []
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, Problem):
            REFUSED.labels(outcome.code).inc()
            rejected.append({"index": index, **error_body(outcome.code, outcome.message, outcome.field)})
        else:
            ACCEPTED.labels("replayed" if outcome.replayed else "new").inc()
    ids = [outcome.id for outcome in outcomes if isinstance(outcome, Receipt)]
    return {"object": "feedback.batch", "accepted": len(ids), "ids": ids, "rejected": rejected}


def _shown(event: FeedbackRecorded) -> dict[str, Any]:
    target = {"inference_id", "episode_id", "correlation_id"}
    return {
        "id": event.feedback_id,
        **event.model_dump(mode="json", include=target, exclude_none=True),
        **event.model_dump(mode="json", include=_SHOWN),
    }


def _rejected(problem: Problem) -> Rejected:
    REFUSED.labels(problem.code).inc()
    return Rejected(problem.code, problem.message, problem.field, 409 if problem.code == "conflict" else 422)
