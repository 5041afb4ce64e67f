"""A request at the door: what the app wants of us, and what is asked of the engine on its behalf."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace_schemas.ids import is_episode_id
from headrace_schemas.traffic import Sampling
from headrace_serving.core.fields import for_engine
from headrace_serving.core.naming import ModelName, parse_model
from headrace_serving.core.refusal import Refusal

_OPTIONS = frozenset({"episode_id", "correlation_id", "actor", "segment", "metadata", "train", "store"})


@dataclass(frozen=True)
class Wants:
    """What the app asked to see. All of it is asked of the engine anyway, and the rest is stripped."""

    stream: bool = False
    logprobs: bool = False
    token_ids: bool = False
    usage: bool = False


@dataclass(frozen=True)
class Admitted:
    """A request that may go to an engine."""

    chat: bool
    model: ModelName
    wants: Wants
    episode_id: str | None
    """The app's, where it continues one."""
    upstream: Mapping[str, Any]
    """The body for the engine, without `model`."""
    sampling: Sampling
    messages: tuple[dict[str, Any], ...] = ()
    prompt: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    correlation_id: str | None = None
    actor: str | None = None
    segment: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    train: bool = True
    store: bool = True
    retry_count: int = 0


def admit(body: object, headers: Mapping[str, str], *, chat: bool) -> Admitted:
    """`headers` in lower case. Raises a Refusal that names the field which is wrong."""
    if not isinstance(body, dict):
        raise Refusal(400, "invalid_json", "the body is a JSON object")
    model = parse_model(body.get("model"))
    ours = _object(body, "headrace")
    for name in ours:
        if name not in _OPTIONS:
            there = ", ".join(sorted(_OPTIONS))
            raise Refusal(
                400, "unsupported_parameter", f"headrace has no option {name[:80]!r}: there are {there}", "headrace"
            )
    upstream = for_engine(body, chat=chat)
    wants = _wants(body, chat=chat)
    _ask_for_everything(upstream, body, wants, chat=chat)
    prompt = None if chat else _prompt(body)
    return Admitted(
        chat=chat,
        model=model,
        wants=wants,
        episode_id=_episode(headers.get("x-headrace-episode-id") or ours.get("episode_id")),
        upstream=upstream,
        sampling=_sampling(upstream),
        messages=_objects(body, "messages", required=True) if chat else (),
        prompt=prompt,
        tools=_objects(body, "tools") if chat else (),
        correlation_id=_text(ours, "correlation_id", headers.get("x-headrace-correlation-id")),
        actor=_text(ours, "actor", headers.get("x-headrace-actor"), body.get("user"), body.get("safety_identifier")),
        segment=_text(ours, "segment", headers.get("x-headrace-segment")),
        metadata={**_tags(body, "metadata"), **_tags(ours, "metadata", "headrace.metadata")},
        train=_boolean(ours, "train", default=True, param="headrace.train"),
        store=_boolean(body, "store", default=True) and _boolean(ours, "store", default=True, param="headrace.store"),
        retry_count=_count(headers.get("x-stainless-retry-count")),
    )


def _wants(body: Mapping[str, Any], *, chat: bool) -> Wants:
    options = _object(body, "stream_options")
    logprobs = body.get("logprobs")
    if chat and not isinstance(logprobs, bool | None):
        raise Refusal(400, "invalid_value", "logprobs is true or false in a chat request", "logprobs")
    if not chat and (isinstance(logprobs, bool) or not isinstance(logprobs, int | None)):
        raise Refusal(400, "invalid_value", "logprobs is a whole number in a completion request", "logprobs")
    return Wants(
        stream=_boolean(body, "stream", default=False),
        logprobs=bool(logprobs) if chat else logprobs is not None,
        token_ids=_boolean(body, "return_token_ids", default=False),
        usage=_boolean(options, "include_usage", default=False, param="stream_options.include_usage"),
    )


def _ask_for_everything(upstream: dict[str, Any], body: Mapping[str, Any], wants: Wants, *, chat: bool) -> None:
    upstream["return_token_ids"] = True
    if chat:
        upstream["logprobs"] = True
    elif not wants.logprobs:
        upstream["logprobs"] = 0
    if wants.stream:
        upstream["stream"] = True
        upstream["stream_options"] = {**_object(body, "stream_options"), "include_usage": True}


def _sampling(upstream: Mapping[str, Any]) -> Sampling:
    def number(name: str) -> float:
        value = upstream[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refusal(400, "invalid_value", f"{name} is a number", name)
        return value

    def whole(name: str) -> int | None:
        value = upstream.get(name)
        if isinstance(value, bool) or not isinstance(value, int | None):
            raise Refusal(400, "invalid_value", f"{name} is a whole number", name)
        return value

    limit = whole("max_completion_tokens")
    return Sampling(
        temperature=float(number("temperature")),
        top_p=float(number("top_p")),
        top_k=max(whole("top_k") or 0, 0),
        max_tokens=limit if limit is not None else whole("max_tokens"),
        seed=whole("seed"),
    )


def _episode(text: object) -> str | None:
    if text is None or text == "":
        return None
    if not isinstance(text, str) or not is_episode_id(text):
        raise Refusal(
            400,
            "invalid_episode_id",
            "an episode id looks like ep-<32 hex digits>: leave it out to start an episode, repeat the one you were "
            "given to continue it, and send your own id as headrace.correlation_id",
            "headrace.episode_id",
        )
    return text


def _prompt(body: Mapping[str, Any]) -> str:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise Refusal(400, "invalid_value", "prompt is one string: an inference has one prompt", "prompt")
    if len(prompt) > 1_000_000:
        raise Refusal(413, "too_large", "the prompt has more than 1,000,000 characters", "prompt")
    return prompt


def _objects(body: Mapping[str, Any], name: str, *, required: bool = False) -> tuple[dict[str, Any], ...]:
    value = body.get(name)
    if value is None and not required:
        return ()
    if not isinstance(value, list) or (required and not value) or not all(isinstance(item, dict) for item in value):
        raise Refusal(400, "invalid_value", f"{name} is a list of objects{', at least one' if required else ''}", name)
    return tuple(value)


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refusal(400, "invalid_value", f"{name} is an object", name)
    return value


def _boolean(body: Mapping[str, Any], name: str, *, default: bool, param: str | None = None) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise Refusal(400, "invalid_value", f"{param or name} is true or false", param or name)
    return value


def _text(ours: Mapping[str, Any], name: str, *others: object) -> str | None:
    """The first that is given. Ids are short; a longer one is refused, not cut."""
    for value in (ours.get(name), *others):
        if value is None or value == "":
            continue
        if not isinstance(value, str) or len(value) > 200 or "\x00" in value:
            raise Refusal(
                400, "invalid_value", f"{name} is a string of at most 200 characters without NUL", f"headrace.{name}"
            )
        return value
    return None


def _tags(body: Mapping[str, Any], name: str, param: str = "metadata") -> dict[str, str]:
    tags = _object(body, name)
    if len(tags) > 32:
        raise Refusal(400, "invalid_value", f"{param} has at most 32 entries", param)
    for key, value in tags.items():
        if not isinstance(value, str) or len(key) > 64 or len(value) > 512:
            raise Refusal(
                400, "invalid_value", f"{param} maps names of at most 64 characters to strings of at most 512", param
            )
    return dict(tags)


def _count(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else 0
