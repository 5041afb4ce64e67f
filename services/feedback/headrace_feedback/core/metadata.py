"""Feedback as OpenAI's client can send it: `chat.completions.update(id, metadata={"feedback.accepted": "true"})`."""

import math
from typing import Any

from headrace_feedback.core.items import Problem

PREFIX = "feedback."


def items_of(inference_id: str, body: Any) -> list[dict[str, Any]]:
    """One feedback document for each `feedback.<metric>`; other entries become its tags. Raises Problem.

    Metadata has only strings: `true` and `false` are booleans, numbers are numbers, `null` retracts.
    """
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise Problem(
            "metadata", 'send {"metadata": {"feedback.accepted": "true"}}: names and values are strings', "metadata"
        )
    tags = {name: value for name, value in metadata.items() if not name.startswith(PREFIX)}
    items = [
        {
            "inference_id": inference_id,
            "metric_name": name.removeprefix(PREFIX),
            "value": _value(name.removeprefix(PREFIX), value),
            "tags": tags,
        }
        for name, value in sorted(metadata.items())
        if name.startswith(PREFIX)
    ]
    if not items:
        raise Problem(
            "metadata", "no entry of metadata begins with 'feedback.': there is nothing to record", "metadata"
        )
    return items


def _value(metric: str, text: str) -> bool | float | str | None:
    lowered = text.strip().lower()
    if lowered == "null":
        return None
    if metric in ("comment", "demonstration"):
        return text
    if lowered in ("true", "false"):
        return lowered == "true"
    try:
        number = float(lowered)
    except ValueError:
        return text
    return number if math.isfinite(number) else text
