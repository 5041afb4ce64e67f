"""Events on the wire: CloudEvents 1.0 binary mode. The value is plain JSON, the attributes are `ce_*` headers.

Decoding is ours and total: whatever bytes a record holds, the answer is an event or a Rejected with the reason.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from headrace_kit import tracing
from headrace_kit.errors import Rejected
from headrace_schemas import Event

E = TypeVar("E", bound=Event)
Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One Kafka record as it came, undecoded. `value` None is a tombstone, b"" is an empty value."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = 0

    def header(self, name: str) -> str | None:
        """A header's text; None where it is missing or is not UTF-8."""
        for key, value in self.headers:
            if key == name:
                try:
                    return value.decode()
                except UnicodeDecodeError:
                    return None
        return None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record to publish."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode(event: Event, *, topic: str, source: str, recorded_at: datetime | None = None, cause: str = "") -> Outgoing:
    """An event as a record. `source` is the service; the trace of the current task goes along."""
    name = f"{event.type}.v{event.major}"
    headers = {
        "ce_specversion": "1.0",
        "ce_id": event.event_id(),
        "ce_source": f"/headrace/{source}",
        "ce_type": f"headrace.{name}",
        "ce_subject": event.subject(),
        "ce_time": event.occurred_at.isoformat(),
        "ce_recordedtime": (recorded_at or datetime.now(UTC)).isoformat(),
        "ce_partitionkey": event.key(),
        "ce_dataschema": f"/schemas/{name}.json",
        "content-type": "application/json",
        "traceparent": tracing.current() or tracing.new_traceparent(),
    }
    episode = getattr(event, "episode_id", None)
    if episode:
        headers["ce_correlationid"] = episode
    if cause:
        headers["ce_causationid"] = cause
    return Outgoing(
        topic=topic,
        key=event.key().encode(),
        value=event.model_dump_json().encode(),
        headers=tuple((k, v.encode()) for k, v in headers.items()),
    )


def decode(record: Record, model: type[E]) -> E:
    """The event in a record. Raises Rejected with a reason in words for anything that is not one."""
    if record.value is None:
        raise Rejected("tombstone", "the record has no value (a tombstone), and this topic's events are never deleted")
    for key, value in record.headers:
        try:
            value.decode()
        except UnicodeDecodeError:
            raise Rejected("header_not_utf8", f"the header {key!r} is not UTF-8") from None
    stated = record.header("ce_type")
    expected = f"headrace.{model.type}.v{model.major}"
    if stated is not None and stated != expected:
        raise Rejected("unknown_type", f"the record says it is {stated!r}, this topic carries {expected!r}")
    try:
        document = orjson.loads(record.value)  # refuses NaN, Infinity and numbers beyond a double
    except orjson.JSONDecodeError as error:
        raise Rejected("not_json", f"the value is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Rejected("not_an_object", "the value is JSON but not an object")
    if "schema_version" in document and str(document["schema_version"]).split(".")[0] != str(model.major):
        raise Rejected(
            "unknown_major", f"schema_version {document['schema_version']!r}: this consumer reads major {model.major}"
        )
    _refuse_infinite(document)
    try:
        event = model.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise Rejected("schema", f"{field}: {first['msg']}", field) from None
    if "\x00" in event.event_id() + event.key() + event.subject():
        raise Rejected("nul_character", "an id holds a NUL character, which no database keeps")
    return event


def _refuse_infinite(document: Any) -> None:
    stack = [document]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise Rejected("not_finite", "the value holds a number that is not finite")
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def payload_hash(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def dead_letter(record: Record, topic: str, reason: Rejected, attempts: int, service: str) -> Outgoing:
    """The record as it came (value, key, headers), with the reason beside it."""
    notes = {
        "headrace-dlq-topic": record.topic,
        "headrace-dlq-partition": str(record.partition),
        "headrace-dlq-offset": str(record.offset),
        "headrace-dlq-code": reason.code,
        "headrace-dlq-reason": reason.message[:2000],
        "headrace-dlq-attempts": str(attempts),
        "headrace-dlq-service": service,
    }
    return Outgoing(topic, record.key, record.value, record.headers + tuple((k, v.encode()) for k, v in notes.items()))


def by_partition(records: Sequence[Record]) -> dict[tuple[str, int], list[Record]]:
    """Records grouped by (topic, partition), order kept."""
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        groups.setdefault((record.topic, record.partition), []).append(record)
    return groups
