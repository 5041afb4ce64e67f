"""The AsyncAPI 3 document: every topic with its headers, key, retention, producer and consumers, from topics.py."""

import json
import re
from typing import Any

from headrace_schemas.topics import TOPICS, Topic

HEADERS: dict[str, tuple[str, bool]] = {
    "ce_specversion": ("CloudEvents version: always 1.0.", True),
    "ce_id": ("Derived from the fact: a repeated record has the same id. De-duplicate by it.", True),
    "ce_source": ("The service that published it, `/headrace/<service>`.", True),
    "ce_type": ("`headrace.<event>.v<major>`.", True),
    "ce_subject": ("What the fact is about, e.g. the inference id.", True),
    "ce_time": ("When it happened, ISO 8601 with zone.", True),
    "ce_recordedtime": ("When it was recorded, ISO 8601 with zone.", True),
    "ce_partitionkey": ("The record's key as text.", True),
    "ce_dataschema": ("Path of the JSON Schema of the value.", True),
    "content-type": ("Always application/json.", True),
    "traceparent": ("W3C trace context: one trace from the request to the version that it led to.", True),
    "ce_correlationid": ("The episode id, where the event has one.", False),
    "ce_causationid": ("The `ce_id` of the record that led to this one.", False),
}


def document() -> dict[str, Any]:
    """The whole document; payload schemas are the files in `json/`, by reference."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Headrace",
            "version": "1.0.0",
            "description": "Production feedback becomes better weights. Every fact of the loop is a Kafka record: "
            "CloudEvents 1.0 in binary mode, the value plain JSON. Delivery is at least once, ordered by key.",
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {_channel_name(topic): _channel(topic) for topic in TOPICS},
        "operations": dict(operation for topic in TOPICS for operation in _operations(topic)),
        "components": {
            "messages": {topic.event.__name__: _message(topic) for topic in TOPICS},
            "schemas": {"headers": _headers()},
        },
    }


def schema_file(topic: Topic) -> str:
    """Name of the file with the value's JSON Schema."""
    return f"{topic.event.type}.v{topic.event.major}.json"


def _channel_name(topic: Topic) -> str:
    name = topic.event.__name__
    return name[0].lower() + name[1:]


def _channel(topic: Topic) -> dict[str, Any]:
    kept = {"cleanup.policy": ["compact"]}
    expiring = {"cleanup.policy": ["delete"], "retention.ms": topic.retention_s * 1000}
    return {
        "address": topic.name(),
        "title": topic.event.type,
        "description": f"{_summary(topic)} What a consumer refuses goes to `{topic.dead_letters()}` as it came, "
        "with the reason in `headrace-dlq-*` headers.",
        "messages": {topic.event.__name__: {"$ref": f"#/components/messages/{topic.event.__name__}"}},
        "bindings": {
            "kafka": {
                "topic": topic.name(),
                "partitions": topic.partitions,
                "topicConfiguration": kept if topic.compacted else expiring,
                "bindingVersion": "0.5.0",
            }
        },
    }


def _operations(topic: Topic) -> list[tuple[str, dict[str, Any]]]:
    channel = _channel_name(topic)
    event = topic.event.__name__

    def operation(action: str, service: str) -> dict[str, Any]:
        return {
            "action": action,
            "channel": {"$ref": f"#/channels/{channel}"},
            "summary": f"{service} {'publishes' if action == 'send' else 'reads'} {topic.event.type}.",
            "tags": [{"name": service}],
            "messages": [{"$ref": f"#/channels/{channel}/messages/{event}"}],
        }

    sends = [(f"{topic.producer}Publishes{event}", operation("send", topic.producer))]
    return sends + [(f"{service}Reads{event}", operation("receive", service)) for service in topic.consumers]


def _message(topic: Topic) -> dict[str, Any]:
    return {
        "name": f"headrace.{topic.event.type}.v{topic.event.major}",
        "title": topic.event.__name__,
        "summary": _summary(topic),
        "contentType": "application/json",
        "headers": {"$ref": "#/components/schemas/headers"},
        "payload": {"$ref": f"./json/{schema_file(topic)}"},
        "bindings": {
            "kafka": {
                "key": {"type": "string", "description": f"The event's {topic.keyed_by}, UTF-8."},
                "bindingVersion": "0.5.0",
            }
        },
    }


def _headers() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "description": text} for name, (text, _) in HEADERS.items()},
        "required": [name for name, (_, always) in HEADERS.items() if always],
    }


def _summary(topic: Topic) -> str:
    return " ".join((topic.event.__doc__ or "").split())


_PLAIN = re.compile(r"^[A-Za-z/$][A-Za-z0-9_$./-]*$")
_WORDS_OF_YAML = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def to_yaml(value: Any, indent: int = 0) -> str:
    """JSON-like values as block YAML. All that this document needs: the package imports nothing but pydantic."""
    pad = "  " * indent
    if isinstance(value, dict):
        return "".join(f"{pad}{_scalar(k)}:{_under(v, indent)}" for k, v in value.items())
    return "".join(
        f"{pad}- {to_yaml(v, indent + 1).lstrip()}" if _nested(v) else f"{pad}- {_scalar(v)}\n" for v in value
    )


def _under(value: Any, indent: int) -> str:
    return f"\n{to_yaml(value, indent + 1)}" if _nested(value) else f" {_scalar(value)}\n"


def _nested(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _WORDS_OF_YAML:
        return value
    return json.dumps(value, ensure_ascii=False)
