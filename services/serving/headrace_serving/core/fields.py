"""Which fields of a request reach the engine. Never a blind relay: what is not listed is refused by name."""

from collections.abc import Mapping
from typing import Any

from headrace_serving.core.refusal import Refusal

_SAMPLING = frozenset(
    {
        "frequency_penalty", "ignore_eos", "logit_bias", "max_tokens", "min_p", "min_tokens", "presence_penalty",
        "repetition_penalty", "response_format", "seed", "skip_special_tokens", "stop", "stop_token_ids",
        "structured_outputs", "temperature", "top_k", "top_p",
    }
)  # fmt: skip
CHAT = _SAMPLING | {
    "chat_template_kwargs", "logprobs", "max_completion_tokens", "messages", "parallel_tool_calls", "reasoning_effort",
    "tool_choice", "tools", "top_logprobs",
}  # fmt: skip
COMPLETION = _SAMPLING | {"logprobs", "prompt"}
OURS = frozenset(
    {"headrace", "metadata", "model", "n", "return_token_ids", "store", "stream", "stream_options", "user"}
)
"""Read by the gateway itself."""
DROPPED = frozenset({"prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "verbosity"})
"""Of OpenAI's own service: they change nothing here."""

DEFAULTS: Mapping[str, Any] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
"""Sent where the app says nothing (OpenAI's defaults), so that the record tells how the answer was really sampled
whatever the model folder's generation config would have put in their place."""


def for_engine(body: Mapping[str, Any], *, chat: bool) -> dict[str, Any]:
    """The engine's part of a request. Raises a Refusal naming a field that we do not know or do not do."""
    allowed = CHAT if chat else COMPLETION
    unknown = [name for name in body if name not in allowed and name not in OURS and name not in DROPPED]
    if unknown:
        raise Refusal(400, "unsupported_parameter", f"the field {unknown[0][:80]!r} is not supported", unknown[0][:80])
    if body.get("n") not in (None, 1):
        raise Refusal(
            400, "unsupported_value", "n is 1 here: each answer has an inference id of its own, so ask n times", "n"
        )
    wanted = {name: value for name, value in body.items() if name in allowed and value is not None}
    return {**DEFAULTS, **wanted}
