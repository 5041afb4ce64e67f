"""A piece of feedback as the gateway wants it, made and checked before it is queued.

It is turned into bytes at once: what the app does to its objects afterwards changes nothing, and a batch's size is
known without encoding it twice.
"""

import json
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from headrace.errors import FeedbackError

MAX_ITEM_BYTES = 256 * 1024
_EPISODE = re.compile(r"^ep-[0-9a-f]{32}$")


class HasId(Protocol):
    """Anything with an `id`: a response or a stream's chunk of the openai client."""

    @property
    def id(self) -> str: ...


Target = str | HasId
Value = bool | int | float | str | Mapping[str, Any] | None
Source = str | Mapping[str, Any] | None


class Item(NamedTuple):
    """One piece of feedback, encoded."""

    id: str
    body: bytes


def new_id() -> str:
    """The feedback's idempotency id: repeated deliveries of it count once."""
    return f"fb_{uuid.uuid4().hex}"


def target_fields(target: Target) -> dict[str, str]:
    """What a shortcut's target is: `ep-…` is an episode, anything else an inference. Raises FeedbackError."""
    text = id_of(target, "the target")
    return {"episode_id" if _EPISODE.match(text) else "inference_id": text}


def id_of(target: object, name: str) -> str:
    """The id in a string or in a response object. Raises FeedbackError."""
    found = target if isinstance(target, str) else getattr(target, "id", None)
    if not isinstance(found, str) or not found or len(found) > 200:
        raise FeedbackError(
            f"{name} is {_short(target)}: give the id of a response (a string of 1 to 200 characters) or the response."
        )
    return found


def encode(
    id: str,  # noqa: A002 - the field's name
    *,
    metric_name: str,
    value: Value,
    targets: Mapping[str, Target | None],
    comment: str | None,
    source: Source,
    tags: Mapping[str, str] | None,
    occurred_at: datetime | None,
) -> Item:
    """Check and encode. Raises FeedbackError with one sentence that says what to give instead."""
    given = {name: id_of(target, name) for name, target in targets.items() if target is not None}
    if len(given) != 1:
        raise FeedbackError(f"Give exactly one of {', '.join(targets)}; got {', '.join(given) or 'none'}.")
    if not isinstance(metric_name, str) or not metric_name:
        raise FeedbackError(f"metric_name is {_short(metric_name)}: give a name such as 'accepted'.")
    fields: dict[str, Any] = {"id": id, **given, "metric_name": metric_name, "value": value}
    if comment is not None:
        fields["comment"] = comment
    if source is not None:
        fields["source"] = {"kind": "human", "id": source} if isinstance(source, str) else dict(source)
    if tags:
        fields["tags"] = dict(tags)
    when = occurred_at or datetime.now(UTC)
    if when.tzinfo is None:
        raise FeedbackError("occurred_at has no time zone: give datetime.now(timezone.utc), for example.")
    fields["occurred_at"] = when.isoformat()
    try:
        body = json.dumps(fields, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise FeedbackError(f"The feedback {metric_name!r} cannot be written as JSON: {error}.") from None
    if len(body) > MAX_ITEM_BYTES:
        raise FeedbackError(f"The feedback {metric_name!r} is {len(body)} bytes long; at most {MAX_ITEM_BYTES} go.")
    return Item(id, body)


def batch_body(items: list[Item]) -> bytes:
    """The body of POST /v1/feedback/batch."""
    return b'{"items":[' + b",".join(item.body for item in items) + b"]}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
