"""Settings of the registry, read when the process starts."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from headrace_kit.settings import DESCRIBED, HttpSettings


class RegistrySettings(HttpSettings):
    model_config = SettingsConfigDict(env_prefix="REGISTRY_", **DESCRIBED)  # type: ignore[typeddict-item]

    candidate_deadline_s: float = Field(default=900.0, gt=0)
    """A candidate without a gate report, or without proof on every replica, is given up after so many seconds."""
    sweep_every_s: float = Field(default=5.0, gt=0)
    """How often deadlines are looked at."""
