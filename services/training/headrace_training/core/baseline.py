"""What an answer's reward is compared with: a baseline that the answer itself has no part in.

Prompts in production hardly repeat, so a group of answers to one prompt, the usual baseline, does not exist. Rewards
in [0, 1] are counted as fractional successes at three levels, from the widest: everything, the policy version that
answered, the segment within that version. Each level is shrunk towards the one above, and each leaves out the sample in
question: a baseline that depends on the answer's own reward would bias the gradient.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol


class Rewarded(Protocol):
    """What the baseline looks at."""

    @property
    def reward(self) -> float | None: ...
    @property
    def weight(self) -> float: ...
    @property
    def policy_version(self) -> int: ...
    @property
    def segment(self) -> str | None: ...


def _levels(sample: Rewarded) -> tuple[tuple[object, ...], ...]:
    version = ("version", sample.policy_version)
    return ((), version) if sample.segment is None else ((), version, (*version, sample.segment))


def baselines(samples: Sequence[Rewarded], strength: float) -> list[float]:
    """The baseline of each sample, in [0, 1], not counting its own reward.

    `strength` is how many events the level above weighs. With nobody to compare with the baseline is one half.
    Samples without a reward take part in nothing and get the baseline that a newcomer would have.
    """
    total: defaultdict[tuple[object, ...], float] = defaultdict(float)
    mass: defaultdict[tuple[object, ...], float] = defaultdict(float)
    for sample in samples:
        if sample.reward is None:
            continue
        for level in _levels(sample):
            total[level] += sample.weight * sample.reward
            mass[level] += sample.weight
    result = []
    for sample in samples:
        own = 0.0 if sample.reward is None else sample.weight
        value, prior = 0.5, 1.0
        for level in _levels(sample):
            gained = total[level] - own * (sample.reward or 0.0)
            value = (gained + prior * value) / (mass[level] - own + prior) if mass[level] - own + prior > 0 else value
            prior = strength
        result.append(min(1.0, max(0.0, value)))
    return result
