"""Settings of the gateway (`GATEWAY_…`) and of the agent (`AGENT_…`)."""

from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from headrace_kit.settings import DESCRIBED, HttpSettings, KafkaSettings, ProcessSettings, TopicSettings


class GatewaySettings(HttpSettings):
    model_config = SettingsConfigDict(env_prefix="GATEWAY_", **DESCRIBED)  # type: ignore[typeddict-item]

    data_dir: Path = Path(".headrace/gateway")
    """Spool of records and copies of the followed state; must outlive the process."""
    engines: str = ""
    """Engines without an agent, as `base-model=http://host:port`, comma separated: they serve base models alone."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Seconds from admission to the end of an answer."""
    connect_timeout_s: float = Field(default=2.0, gt=0)
    """Seconds to connect to an engine; then the next replica is tried."""
    max_body_bytes: int = Field(default=4 * 1024 * 1024, ge=1024)
    """Largest request body."""
    max_in_flight: int = Field(default=1024, ge=1)
    """Requests at once; more get a 429 with Retry-After."""
    episodes: int = Field(default=100_000, ge=1)
    """Episodes whose version is remembered."""
    rest_s: float = Field(default=2.0, ge=0)
    """Seconds for which a replica that failed is asked last."""
    fsync: bool = False
    """Wait for the disk before the end of each answer: no record is lost even if the machine crashes."""
    spool_bytes: int = Field(default=1024 * 1024 * 1024, ge=1024 * 1024)
    """Most that the spool holds while Kafka is away; what comes on top is answered, not recorded, and counted."""
    segment_bytes: int = Field(default=8 * 1024 * 1024, ge=4096)
    """Size at which the spool begins a new file."""
    feedback_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds for a call relayed to the feedback service."""

    @field_validator("engines")
    @classmethod
    def _are_addresses(cls, value: str) -> str:
        for part in filter(None, map(str.strip, value.split(","))):
            if not part.rpartition("=")[2].startswith(("http://", "https://")):
                raise ValueError("write engines as base-model=http://host:port, comma separated")
        return value

    def static_engines(self) -> tuple[tuple[str, str], ...]:
        """(base model, url); an empty model stands for any."""
        parts = [part.strip().rpartition("=") for part in self.engines.split(",") if part.strip()]
        return tuple((model, url.rstrip("/")) for model, _, url in parts)


class AgentSettings(HttpSettings):
    model_config = SettingsConfigDict(env_prefix="AGENT_", **DESCRIBED)  # type: ignore[typeddict-item]

    engine_url: str = Field(pattern=r"^https?://")
    """The engine beside this agent."""
    advertised_url: str = ""
    """Where gateways reach that engine; empty means the same address."""
    replica: str = Field(default="", max_length=200)
    """Name of the replica, unique among engines; empty means host name and the engine's port."""
    cache_dir: Path = Path(".headrace/adapters")
    """Verified adapters by digest. The engine reads them from here, so it must see the same path."""
    max_adapters: int = Field(default=4, ge=1)
    """Adapters held at once: not more than the engine's --max-loras."""
    max_rank: int = Field(default=16, ge=1)
    """Largest rank accepted: the engine's --max-lora-rank."""
    max_adapter_bytes: int = Field(default=2 * 1024 * 1024 * 1024, ge=1)
    """Largest adapter file accepted."""
    dtype: str = ""
    """The engine's dtype, for the record; empty means what the base model's config says."""
    poll_s: float = Field(default=2.0, gt=0)
    """Seconds between looks at the engine."""
    report_s: float = Field(default=15.0, gt=0)
    """Seconds between reports when nothing changes."""
    grace_s: float = Field(default=30.0, ge=0)
    """Seconds for which an adapter that is no longer wanted stays loaded, so that its requests can end."""
    engine_timeout_s: float = Field(default=120.0, gt=0)
    """Seconds for one load or probe on the engine."""


class PlacesSettings(BaseSettings):
    """Where others are."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", **DESCRIBED)  # type: ignore[typeddict-item]

    feedback_url: str = "http://127.0.0.1:8102"
    """The feedback service, which the gateway relays `/v1/feedback` to."""
    models_dir: Path | None = None
    """Folder with one sub-folder per base model: the agent hashes templates and checks shapes against it."""

    @field_validator("models_dir", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return value or None


class ServingPlatform(BaseSettings):
    """What serving shares with the other services; it has no database."""

    kafka: KafkaSettings
    topics: TopicSettings
    process: ProcessSettings
    places: PlacesSettings

    @classmethod
    def read(cls) -> "ServingPlatform":
        """From the environment. Raises pydantic's ValidationError naming the variable that is wrong or missing."""
        return cls(
            kafka=KafkaSettings(),
            topics=TopicSettings(),
            process=ProcessSettings(),
            places=PlacesSettings(),
        )
