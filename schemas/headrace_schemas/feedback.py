"""The words of the feedback contract that both ends must agree on: metric names and the shapes of reserved values."""

import re
from typing import Any

from headrace_schemas.traffic import Source

RESERVED = ("comment", "demonstration", "comparison")
"""Metric names with a meaning of their own. All others are the app's."""
MAX_COMMENT = 20_000
"""Characters of a comment."""
MAX_DEMONSTRATION = 100_000
"""Characters of an answer as it should have been."""
MAX_STRING = 4_096
"""Characters of an app's own metric whose value is a string."""
_METRIC = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")


def is_metric_name(name: str) -> bool:
    """A letter, then letters, digits and ``_ . : -``; at most 64 characters."""
    return bool(_METRIC.fullmatch(name))


def target_key(*, inference_id: str | None, episode_id: str | None, correlation_id: str | None) -> str:
    """The target in one string, e.g. ``episode:ep-…``. Raises ValueError unless exactly one is given."""
    given = {"inference": inference_id, "episode": episode_id, "correlation": correlation_id}
    named = [f"{kind}:{text}" for kind, text in given.items() if text is not None]
    if len(named) != 1:
        raise ValueError("give exactly one of inference_id, episode_id and correlation_id")
    return named[0]


def source_key(source: Source) -> str:
    """Whose opinion it is: the source's id; all anonymous sources of one kind are one."""
    return source.id or f"anonymous {source.kind}"


def demonstration_text(value: Any) -> str:
    """The answer as it should have been: a string, or an object with the string `content`. Raises ValueError."""
    text = value.get("content") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text.strip():
        raise ValueError('a demonstration is the answer as it should have been: a string, or {"content": "…"}')
    if len(text) > MAX_DEMONSTRATION:
        raise ValueError(f"a demonstration has at most {MAX_DEMONSTRATION} characters")
    return text


def comparison_ids(value: Any) -> tuple[str, str]:
    """The inference that was preferred and the one that was not. Raises ValueError."""
    if isinstance(value, dict):
        chosen, rejected = value.get("chosen"), value.get("rejected")
        if isinstance(chosen, str) and isinstance(rejected, str):
            if not (0 < len(chosen) <= 200 and 0 < len(rejected) <= 200):
                raise ValueError("a comparison names two inference ids of 1 to 200 characters")
            if chosen == rejected:
                raise ValueError("a comparison names two different inferences")
            return chosen, rejected
    raise ValueError('a comparison is {"chosen": inference id, "rejected": inference id}')


def value_problem(metric_name: str, value: Any) -> str | None:
    """None where `value` fits the metric, else why not in one sentence. null fits all of them: it retracts."""
    if value is None:
        return None
    try:
        if metric_name == "comment":
            if not isinstance(value, str) or not value.strip():
                return "a comment is a string with words in it"
            if len(value) > MAX_COMMENT:
                return f"a comment has at most {MAX_COMMENT} characters"
        elif metric_name == "demonstration":
            demonstration_text(value)
        elif metric_name == "comparison":
            comparison_ids(value)
        elif isinstance(value, str) and len(value) > MAX_STRING:
            return f"a metric's string has at most {MAX_STRING} characters"
        elif not isinstance(value, bool | int | float | str):
            return f"only {', '.join(RESERVED)} take objects; a metric's value is a boolean, a number or a string"
    except ValueError as problem:
        return str(problem)
    return None
