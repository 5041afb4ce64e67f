"""The engine's answer: collected for the record, and stripped of what the app did not ask for.

Both happen on parsed JSON, for whole answers and for each chunk of a stream. Nothing here fails on fields that it does
not know: they go through as they are.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from headrace_schemas.traffic import Usage
from headrace_serving.core.admission import Wants


@dataclass
class Collected:
    """What an inference's record needs of its answer, gathered as it comes."""

    text: list[str] = field(default_factory=list)
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    prompt_token_ids: list[int] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: str | None = None
    usage: Usage | None = None
    error: str | None = None
    """The engine's own words, where it reported an error inside a stream."""

    def aligned(self) -> bool:
        """Whether there is one finite logprob for each token: only then may a trainer use them."""
        return len(self.logprobs) == len(self.token_ids) and all(map(math.isfinite, self.logprobs))

    def usage_or_count(self) -> Usage:
        """The engine's count; where the stream ended before it came, what was seen."""
        return self.usage or Usage(prompt_tokens=len(self.prompt_token_ids), completion_tokens=len(self.token_ids))


def collect(document: dict[str, Any], into: Collected) -> None:
    """Take up a whole answer or one chunk of a stream, chat or plain."""
    if isinstance(error := document.get("error"), dict):
        into.error = str(error.get("message") or error)[:2000]
    if isinstance(ids := document.get("prompt_token_ids"), list):
        into.prompt_token_ids = ids
    if isinstance(usage := document.get("usage"), dict):
        into.usage = Usage(
            prompt_tokens=usage.get("prompt_tokens") or 0, completion_tokens=usage.get("completion_tokens") or 0
        )
    for choice in document.get("choices") or ():
        if choice.get("index", 0) != 0:
            continue
        part = choice.get("delta") or choice.get("message") or {}
        into.text.append(part.get("content") or choice.get("text") or "")
        _merge_tool_calls(part.get("tool_calls") or (), into.tool_calls)
        if isinstance(ids := choice.get("prompt_token_ids"), list):
            into.prompt_token_ids = ids
        into.token_ids += choice.get("token_ids") or ()
        into.logprobs += _logprobs(choice.get("logprobs"))
        into.finish_reason = choice.get("finish_reason") or into.finish_reason


def _logprobs(given: Any) -> list[float]:
    if not isinstance(given, dict):
        return []
    if isinstance(content := given.get("content"), list):
        values = [entry.get("logprob") for entry in content]
    else:
        values = given.get("token_logprobs") or []
    return [float(v) if isinstance(v, int | float) else math.nan for v in values]


def _merge_tool_calls(calls: Any, into: list[dict[str, Any]]) -> None:
    """Whole calls are taken as they are; pieces of a stream are joined by their index."""
    for call in calls:
        index = call.get("index")
        known = next((c for c in into if index is not None and c.get("index") == index), None)
        if known is None:
            into.append({**call, "function": dict(call.get("function") or {})})
            continue
        function = call.get("function") or {}
        for name in ("name", "arguments"):
            if function.get(name):
                known["function"][name] = (known["function"].get(name) or "") + function[name]
        if call.get("id"):
            known["id"] = call["id"]


def strip(document: dict[str, Any], wants: Wants) -> bool:
    """Take out what we asked for and the app did not; answers whether a chunk is still worth sending."""
    choices = document.get("choices") or ()
    if not wants.token_ids:
        document.pop("prompt_token_ids", None)
    for choice in choices:
        if not wants.token_ids:
            choice.pop("token_ids", None)
            choice.pop("prompt_token_ids", None)
        if not wants.logprobs and "logprobs" in choice:
            choice["logprobs"] = None
    if not wants.stream:
        return True
    if not choices and "usage" in document and not wants.usage:
        return False
    return not _says_nothing(choices)


def _says_nothing(choices: Any) -> bool:
    """A chunk that was sent only for the token ids and logprobs taken out of it."""
    for choice in choices:
        if choice.get("finish_reason") or choice.get("logprobs") or choice.get("token_ids"):
            return False
        if "delta" not in choice or choice["delta"]:
            return False
    return bool(choices)


def rename(document: dict[str, Any], *, inference_id: str, model: str, fingerprint: str) -> None:
    """Our id, the version that answered, and its digest in place of the engine's own names."""
    if "id" in document:
        document["id"] = inference_id
    if "model" in document:
        document["model"] = model
    document["system_fingerprint"] = fingerprint
