"""Pinned probes: what every adapter is asked on every replica before it may answer anybody."""

import math
from collections.abc import Sequence
from typing import NamedTuple

SHORT = (
    "The capital of France is Paris. Two and two make four. Water boils at one hundred degrees.",
    "User: My parcel has not arrived yet. What can I do?\nAssistant: I am sorry to hear that. Please",
)
_SENTENCE = "A headrace is the channel that carries the water of a river to the wheel that it drives, day and night. "
MIN_DELTA = 1e-4
"""Nats. Below it, an adapter is taken to change nothing; the noise of float32 on one machine is smaller."""
LONG = _SENTENCE * 100
LONG_TOKENS = 850
"""The long probe is cut to so many tokens: kernels have failed on long prompts alone (vLLM issue 48590)."""


class Prompt(NamedTuple):
    """A probe: `text`, cut to its last `tokens` tokens."""

    text: str
    tokens: int


def short_prompts(max_model_len: int | None) -> tuple[Prompt, ...]:
    """Each token's logprob through the adapter is compared with base."""
    return tuple(Prompt(text, min(64, _room(max_model_len))) for text in SHORT)


def long_prompt(max_model_len: int | None) -> Prompt:
    """The logprob of one token after it must be finite: a number that is not spreads to every later token."""
    return Prompt(LONG, min(LONG_TOKENS, _room(max_model_len)))


def _room(max_model_len: int | None) -> int:
    return (max_model_len or 1024) - 16


def finite(logprobs: Sequence[Sequence[float]]) -> bool:
    return all(math.isfinite(value) for probe in logprobs for value in probe)


def largest_change(adapter: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> float:
    """Largest absolute difference of a token's logprob, in nats. Raises ValueError where tokens differ in number."""
    changes = [abs(x - y) for a, b in zip(adapter, base, strict=True) for x, y in zip(a, b, strict=True)]
    return max(changes, default=0.0)
