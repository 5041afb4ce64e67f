"""Settings of the reward service, prefix REWARD_."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from headrace_kit.settings import DESCRIBED, HttpSettings


class RewardSettings(HttpSettings):
    """How a reward is composed is in the policy file; here is only how long things wait."""

    model_config = SettingsConfigDict(env_prefix="REWARD_", **DESCRIBED)  # type: ignore[typeddict-item]

    orphan_ttl_s: float = Field(default=7 * 86_400, gt=0)
    """Seconds that feedback waits for its inference, counted from when it came here."""
    sweep_every_s: float = Field(default=2.0, gt=0)
    """Seconds between two looks for orphans that are out of time and inferences whose policy has come."""
