"""All SQL of the reward service. Nothing here commits: the unit of work does."""

from headrace_reward.store.loading import AGAIN, Loading
from headrace_reward.store.reading import Reading
from headrace_reward.store.saving import Saving
from headrace_reward.store.upkeep import Upkeep

__all__ = ["AGAIN", "Loading", "Reading", "Saving", "Upkeep"]
