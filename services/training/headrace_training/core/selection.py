"""The samples of a run, and how far each is from the version that it continues."""

from collections.abc import Sequence

from headrace_training.core.dataset import Sample
from headrace_training.core.replay import Limits, replayed
from headrace_training.recipes import Recipe

Kept = tuple[Sample, int]
"""A sample and the runs that it took part in."""


def selected(kept: Sequence[Kept], recipe: Recipe, parent_version: int) -> list[Sample]:
    """New samples and the older ones that the recipe replays, oldest first. `kept` is newest first."""
    fresh = [sample for sample, uses in kept if uses == 0][: recipe.max_events]
    older = [(sample, uses) for sample, uses in kept if uses > 0]
    again = replayed(older, Limits(recipe.replay_events, recipe.max_uses))
    chosen = [*fresh, *(older[i][0] for i in again)]
    return [s.model_copy(update={"staleness": abs(parent_version - s.policy_version)}) for s in reversed(chosen)]
