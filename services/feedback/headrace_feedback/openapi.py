"""What the OpenAPI document says of bodies that are read by hand, so that each item is judged by itself."""

from typing import Any

from headrace_feedback.core.items import FeedbackItem

MAX_ITEMS = 100
"""Items of a batch."""

_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["message", "type", "param", "code"],
    "properties": {
        "message": {"type": "string"},
        "type": {"type": "string"},
        "param": {"type": ["string", "null"]},
        "code": {"type": "string"},
    },
}
_RECEIPT: dict[str, Any] = {
    "type": "object",
    "required": ["object", "id", "status"],
    "properties": {
        "object": {"const": "feedback"},
        "id": {"type": "string"},
        "status": {"enum": ["accepted", "valid"]},
    },
}
_BATCH_ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["object", "accepted", "ids", "rejected"],
    "properties": {
        "object": {"const": "feedback.batch"},
        "accepted": {"type": "integer", "description": "Items that are durable now or were before."},
        "ids": {"type": "array", "items": {"type": "string"}, "description": "Of the accepted items, in their order."},
        "rejected": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["index", "error"],
                "properties": {"index": {"type": "integer"}, "error": _ERROR},
            },
        },
    },
}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _answer(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, **_json(schema)}


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    body = {"type": "object", "required": ["error"], "properties": {"error": _ERROR}}
    words = {
        400: "Not JSON",
        404: "Unknown feedback",
        409: "The id was accepted with another content",
        413: "Too large",
        422: "Refused; `param` names the field",
        503: "Not durable: send it again after Retry-After seconds",
    }
    return {status: _answer(words[status], body) for status in statuses}


def _item_schema() -> dict[str, Any]:
    """Without references: an OpenAPI document has no place for a body's own `$defs`."""
    full = FeedbackItem.model_json_schema()
    definitions = full.pop("$defs", {})

    def resolve(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return resolve(definitions[node["$ref"].rsplit("/", 1)[1]])
            return {key: resolve(value) for key, value in node.items()}
        return [resolve(value) for value in node] if isinstance(node, list) else node

    resolved: dict[str, Any] = resolve(full)
    return resolved


def one() -> dict[str, Any]:
    """`POST /v1/feedback`."""
    return {
        "openapi_extra": {"requestBody": {"required": True, **_json(_item_schema())}},
        "responses": {
            200: _answer("Accepted before under this id, or valid (`dryrun`)", _RECEIPT),
            202: _answer("Durable", _RECEIPT),
            **_errors(400, 409, 413, 422, 503),
        },
    }


def batch() -> dict[str, Any]:
    """`POST /v1/feedback/batch`."""
    items = {"type": "array", "minItems": 1, "maxItems": MAX_ITEMS, "items": _item_schema()}
    body = {"type": "object", "required": ["items"], "properties": {"items": items}, "additionalProperties": False}
    return {
        "openapi_extra": {"requestBody": {"required": True, **_json(body)}},
        "responses": {
            202: _answer("What is accepted is durable", _BATCH_ANSWER),
            **_errors(400, 413, 422, 503),
        },
    }


def read() -> dict[str, Any]:
    """`GET /v1/feedback/{id}`."""
    return {"responses": {200: {"description": "The feedback, with all revisions of its opinion"}, **_errors(404, 503)}}


def update() -> dict[str, Any]:
    """`POST /v1/chat/completions/{id}`."""
    metadata = {"type": "object", "additionalProperties": {"type": "string"}}
    body = {"type": "object", "required": ["metadata"], "properties": {"metadata": metadata}}
    return {
        "openapi_extra": {"requestBody": {"required": True, **_json(body)}},
        "responses": {200: {"description": "Durable"}, **_errors(400, 413, 422, 503)},
    }
