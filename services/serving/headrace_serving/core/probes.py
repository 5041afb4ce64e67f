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


def prompts(max_model_len: int | None) -> tuple[Prompt, ...]:
    """Two short ones and a long one, as long as the engine's context allows."""
    room = (max_model_len or 1024) - 16
    return tuple(Prompt(text, min(tokens, room)) for text, tokens in ((SHORT[0], 64), (SHORT[1], 64), (LONG, LONG_TOKENS)))


def finite(logprobs: Sequence[Sequence[float]]) -> bool:
    return all(math.isfinite(value) for probe in logprobs for value in probe)


def largest_change(adapter: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> float:
    """Largest absolute difference of a token's logprob, in nats. Raises ValueError where the tokens differ in number."""
    changes = [abs(x - y) for a, b in zip(adapter, base, strict=True) for x, y in zip(a, b, strict=True)]
    return max(changes, default=0.0)
