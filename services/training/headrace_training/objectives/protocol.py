"""What an objective is: samples become examples, scored tokens become a loss.

The trainer does everything else (tokens, batches, forward passes, steps, guards), so that an objective is the
arithmetic of a paper and nothing more. Shapes: n examples in a batch, t completion tokens, padded on the left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from headrace_training.core.dataset import Sample
from headrace_training.recipes import Recipe

Encode = Callable[[str], tuple[int, ...]]
"""Text of an answer → its token ids with the end token, as the engine would have sampled it."""


@dataclass(frozen=True)
class Example:
    """One sequence to compute, with what the objective wants to know of it when it is scored."""

    sample: Sample
    completion: tuple[int, ...]
    """Token ids to score after the sample's prompt."""
    behaviour: tuple[float, ...] | None
    """Logprobs under the policy that sampled the completion; None where a person wrote it."""
    advantage: float
    """How much better than expected; 0 where a person wrote it."""
    weight: float
    passes: int
    """How many passes of the run it takes part in."""

    @property
    def written(self) -> bool:
        """Whether a person wrote the completion, so that no policy sampled it."""
        return self.behaviour is None


@dataclass(frozen=True)
class Scored:
    """A micro-batch after its forward passes. Padding is 0 in every tensor and False in `mask_nt`."""

    examples: tuple[Example, ...]
    logp_nt: torch.Tensor
    """Of each completion token under the adapter being trained; the only tensor with a gradient."""
    base_nt: torch.Tensor
    """The same under the base model."""
    behaviour_nt: torch.Tensor
    """The same under the policy that sampled, equal to `logp_nt`'s value where a person wrote the completion."""
    mask_nt: torch.Tensor
    """True at completion tokens."""


@dataclass(frozen=True)
class Loss:
    """A micro-batch's share of its batch's loss, and what it says of itself."""

    total: torch.Tensor
    parts: dict[str, float]
    """Sums over the micro-batch; the step divides each by the batch's `counts` of the same name."""
    counts: dict[str, float]


class Objective(Protocol):
    """A way to learn from samples."""

    def examples(self, samples: Sequence[Sample], encode: Encode) -> list[Example]:
        """What to compute, in a fixed order; empty when the samples teach nothing."""
        ...

    def loss(self, scored: Scored, batch_weight: float, typical_length: float) -> Loss:
        """Loss of a micro-batch of a batch whose examples weigh `batch_weight` together.

        The sum of the micro-batches' totals is the batch's loss, however the batch was cut.
        `typical_length` is the median number of tokens of the run's sampled completions.
        """
        ...


Factory = Callable[[Recipe], Objective]
