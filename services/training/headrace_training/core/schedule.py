"""Which examples make a step: a run's batches in order, as a function of the seed alone."""

import random
from collections.abc import Sequence
from itertools import pairwise


def batches(passes: Sequence[int], size: int, seed: int) -> list[list[int]]:
    """Indices of examples, batch by batch.

    `passes[i]` is how often example i is used. Pass k holds every example that is used more than k times, shuffled;
    so what is used less often comes early. Batches of one pass differ in size by one at most, so that no step is
    made of a single leftover.
    """
    chooser = random.Random(seed)  # noqa: S311 (a shuffle)
    result = []
    for turn in range(max(passes, default=0)):
        order = [i for i, count in enumerate(passes) if count > turn]
        chooser.shuffle(order)
        parts = -(-len(order) // size)
        bounds = [round(k * len(order) / parts) for k in range(parts + 1)]
        result += [order[low:high] for low, high in pairwise(bounds)]
    return result


def micro_batches(batch: Sequence[int], lengths: Sequence[int], size: int) -> list[list[int]]:
    """The batch cut into forward passes of sequences of like length, longest first."""
    order = sorted(batch, key=lambda i: (-lengths[i], i))
    return [order[k : k + size] for k in range(0, len(order), size)]


def rate(step: int, steps: int, peak: float, warmup: int, final: float) -> float:
    """Learning rate of step `step` (from 0) of `steps`: up over `warmup` steps, then down to `final` of the peak."""
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    rest = max(1, steps - 1 - warmup)
    return peak * (1.0 - (1.0 - final) * min(1.0, (step - warmup) / rest))
