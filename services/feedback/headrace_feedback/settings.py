"""Settings of the feedback service, prefix FEEDBACK_."""

from typing import Annotated, Any

from pydantic import field_validator
from pydantic_settings import NoDecode, SettingsConfigDict

from headrace_kit.settings import DESCRIBED, HttpSettings


class FeedbackSettings(HttpSettings):
    """Where it listens and what it takes."""

    model_config = SettingsConfigDict(env_prefix="FEEDBACK_", **DESCRIBED)  # type: ignore[typeddict-item]

    strict_metrics: Annotated[tuple[str, ...], NoDecode] = ()
    """Comma-separated metric names: all others but the reserved ones are refused. Empty takes every name."""

    @field_validator("strict_metrics", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value
