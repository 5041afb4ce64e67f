"""A piece of feedback as an app sends it: its shape, and every reason to refuse it."""

import hashlib
import json
import math
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from headrace_schemas.feedback import MAX_COMMENT, RESERVED, comparison_ids, is_metric_name, target_key, value_problem
from headrace_schemas.traffic import Source, Tags

MAX_AHEAD = timedelta(minutes=5)
"""A clock may be so much fast."""
MAX_AGE = timedelta(days=90)
"""Older feedback is refused: nothing that it could teach is kept so long."""

TargetId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
FeedbackId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]


class Problem(Exception):
    """Why an item is refused: `code` for machines, one sentence, and the field."""

    def __init__(self, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field


class SourceIn(BaseModel):
    """Who or what gives the feedback."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    kind: Literal["human", "code", "model", "system"] = "human"
    """A person, the app's code, a model as judge, or Headrace itself."""
    id: TargetId | None = None
    """Pseudonym. A later opinion of the same source about the same target and metric replaces the earlier one."""


class FeedbackItem(BaseModel):
    """One opinion about one target. Unknown fields are refused, so that a misspelt one is not lost in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, title="Feedback")

    id: FeedbackId | None = None
    """Idempotency id: the same id with the same body counts once, with another body it is a conflict."""
    inference_id: TargetId | None = None
    """The `id` of the response. Exactly one of inference_id, episode_id and correlation_id."""
    episode_id: TargetId | None = None
    """An episode: the opinion is about each inference of it."""
    correlation_id: TargetId | None = None
    """The app's own id, sent with the request."""
    metric_name: str
    """A letter, then letters, digits and `_ . : -`, at most 64. Reserved: comment, demonstration, comparison."""
    value: Any = Field(json_schema_extra={"type": ["boolean", "number", "string", "object", "null"]})
    """Boolean, number or string; for `demonstration` the answer as it should have been (a string or `{"content"}`), for
    `comparison` `{"chosen", "rejected"}` (inference ids), for `comment` the words. null retracts the opinion."""
    comment: Annotated[str, StringConstraints(max_length=MAX_COMMENT)] | None = None
    """In words, beside the value."""
    source: SourceIn = SourceIn()
    """Who or what gives it."""
    occurred_at: AwareDatetime | None = None
    """When it was said; now, where it is left out. At most 5 minutes ahead and 90 days back."""
    tags: Tags = {}
    """The app's own labels, at most 20."""
    dryrun: bool = False
    """Check only; nothing is kept."""

    @property
    def target(self) -> str:
        return target_key(
            inference_id=self.inference_id, episode_id=self.episode_id, correlation_id=self.correlation_id
        )

    @property
    def event_source(self) -> Source:
        return Source(kind=self.source.kind, id=self.source.id)

    def digest(self) -> bytes:
        """Of what was sent, by meaning: the order of fields and the writing of numbers do not matter."""
        document = self.model_dump(mode="json", exclude={"id", "dryrun"})
        return hashlib.sha256(json.dumps(document, sort_keys=True, ensure_ascii=False).encode()).digest()


def read_item(document: Any, *, now: datetime, strict_metrics: Collection[str] = ()) -> FeedbackItem:
    """The item in a JSON document. Raises Problem with the first reason to refuse it."""
    if not isinstance(document, dict):
        raise Problem("not_an_object", "a piece of feedback is a JSON object")
    _refuse_nul(document)
    try:
        item = FeedbackItem.model_validate(document)
    except ValidationError as error:
        raise _problem_of(error.errors(include_url=False, include_input=False)[0]) from None
    _check_target(item)
    _check_metric(item, strict_metrics)
    _check_time(item.occurred_at, now)
    if len(item.tags) > 20:
        raise Problem("too_many_tags", f"at most 20 tags, and these are {len(item.tags)}", "tags")
    return item


def _check_target(item: FeedbackItem) -> None:
    try:
        _ = item.target
    except ValueError as error:
        raise Problem("target", str(error), "inference_id") from None


def _check_metric(item: FeedbackItem, strict_metrics: Collection[str]) -> None:
    name = item.metric_name
    if not is_metric_name(name):
        raise Problem(
            "metric_name",
            "a metric's name is a letter, then letters, digits and _ . : -, at most 64 characters",
            "metric_name",
        )
    if strict_metrics and name not in RESERVED and name not in strict_metrics:
        raise Problem("unknown_metric", f"only {', '.join((*strict_metrics, *RESERVED))} are taken here", "metric_name")
    if isinstance(item.value, float) and not math.isfinite(item.value):
        raise Problem("value", "a number must be finite", "value")
    problem = value_problem(name, item.value)
    if problem:
        raise Problem("value", problem, "value")
    compared = comparison_ids(item.value) if name == "comparison" and item.value is not None else ()
    if compared and item.inference_id and item.inference_id not in compared:
        raise Problem("value", "a comparison about an inference has it as chosen or as rejected", "value")


def _check_time(occurred_at: datetime | None, now: datetime) -> None:
    if occurred_at is None:
        return
    if occurred_at > now + MAX_AHEAD:
        raise Problem("occurred_at", "it lies more than 5 minutes ahead of this server's clock", "occurred_at")
    if occurred_at < now - MAX_AGE:
        raise Problem("occurred_at", "it is older than 90 days", "occurred_at")


def _refuse_nul(document: dict[str, Any]) -> None:
    stack: list[tuple[str, Any]] = list(document.items())
    while stack:
        field, value = stack.pop()
        if isinstance(value, dict):
            stack.extend((field, key) for key in value)
            stack.extend((field, inner) for inner in value.values())
        elif isinstance(value, list):
            stack.extend((field, inner) for inner in value)
        elif isinstance(value, str) and "\x00" in value:
            raise Problem("nul_character", "a NUL character cannot be kept", field if field in _FIELDS else None)


_FIELDS = frozenset(FeedbackItem.model_fields)
_CODES = {"missing": "missing", "extra_forbidden": "unknown_field"}


def _problem_of(detail: ErrorDetails) -> Problem:
    field = ".".join(map(str, detail["loc"]))
    code = _CODES.get(detail["type"], "invalid")
    if code == "missing":
        return Problem(code, f"{field} is missing", field)
    if code == "unknown_field":
        return Problem(code, f"{field} is not a field of feedback; there are {', '.join(sorted(_FIELDS))}", field)
    return Problem(code, f"{field}: {detail['msg']}", field)
