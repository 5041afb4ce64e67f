"""The settings that services share. Read from the environment when a process starts, never at import.

A service's own settings are a class of its own with its own prefix; these are its fields.
"""

from typing import Self

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

DESCRIBED = {"use_attribute_docstrings": True, "frozen": True, "extra": "ignore"}


class KafkaSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADRACE_KAFKA_", **DESCRIBED)  # type: ignore[typeddict-item]

    bootstrap: str
    """host:port of one or more brokers, comma separated."""
    idempotence: bool = False
    """Idempotent producer: on for Apache Kafka; the embedded broker has none."""


class TopicSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADRACE_TOPIC_", **DESCRIBED)  # type: ignore[typeddict-item]

    prefix: str = Field(default="headrace", pattern=r"^[a-z0-9][a-z0-9._-]*$")
    """First part of each topic's name."""
    replication: int = Field(default=1, ge=1)
    """Replicas of each partition that `create_topics` asks for."""


class DatabaseSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADRACE_DATABASE_", **DESCRIBED)  # type: ignore[typeddict-item]

    url: SecretStr
    """PostgreSQL, as `postgresql://…`; a unix socket is fine."""
    pool_size: int = Field(default=5, ge=1)
    """Connections a process holds at most."""


class ObjectSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADRACE_S3_", **DESCRIBED)  # type: ignore[typeddict-item]

    endpoint: str
    """host:port of the S3 store."""
    access_key: str
    secret_key: SecretStr
    bucket: str = "headrace"
    secure: bool = False
    """TLS."""
    region: str = "us-east-1"


class ProcessSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="HEADRACE_", **DESCRIBED)  # type: ignore[typeddict-item]

    admin_token: SecretStr
    """Bearer token of the services' internal HTTP; at least 16 characters."""
    log_level: str = "INFO"
    log_format: str = Field(default="json", pattern="^(json|console)$")

    @field_validator("admin_token")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value()) < 16:
            raise ValueError("HEADRACE_ADMIN_TOKEN needs at least 16 characters: make one with `openssl rand -hex 24`")
        return value


class HttpSettings(BaseSettings):
    """Subclass with the service's prefix."""

    host: str = "127.0.0.1"
    """Address to bind to: loopback unless you say otherwise."""
    port: int = Field(default=0, ge=0, le=65535)
    """0 takes any free port."""


class PlatformSettings(BaseSettings):
    """What a service with a database needs, in one."""

    kafka: KafkaSettings
    topics: TopicSettings
    database: DatabaseSettings
    process: ProcessSettings

    @classmethod
    def read(cls) -> Self:
        """From the environment. Raises pydantic's ValidationError naming the variable that is wrong or missing."""
        return cls(
            kafka=KafkaSettings(),
            topics=TopicSettings(),
            database=DatabaseSettings(),
            process=ProcessSettings(),
        )
