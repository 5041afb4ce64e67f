"""What every event and nested value shares: frozen, whole, finite, and tolerant of fields that a later minor adds."""

from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints


def _aware(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a time needs its zone")
    if not 2020 <= value.year <= 2200:
        raise ValueError("a time between 2020 and 2200")
    return value


Time = Annotated[datetime, AfterValidator(_aware)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=1_000_000)]
Json = dict[str, Any]


class Value(BaseModel):
    """A frozen value inside an event."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", allow_inf_nan=False, use_attribute_docstrings=True, ser_json_inf_nan="strings"
    )


class Event(Value):
    """A fact in the past tense. Subclasses say what their id, key and subject are made of."""

    type: ClassVar[str]
    """The event's name, without prefix and major version."""
    major: ClassVar[int] = 1

    project: Name = "default"
    """The tenant that the fact belongs to."""
    occurred_at: Time
    """When it happened, by the producer's clock; with zone."""

    def event_id(self) -> str:
        """Derived from the fact, so that a producer that repeats itself repeats the id (`ce_id`)."""
        raise NotImplementedError

    def key(self) -> str:
        """The Kafka key: what is ordered together and partitioned together."""
        raise NotImplementedError

    def subject(self) -> str:
        """What the fact is about (`ce_subject`)."""
        return self.key()


class VersionRef(Value):
    """One adapter version, named so that it cannot be mistaken."""

    version: int = Field(ge=0)
    """0 is the base model without an adapter."""
    digest: str = ""
    """sha256 of the adapter file in hex; empty for the base model."""
    object_key: str = ""
    """Where the adapter file lies in the object store; empty for the base model."""
    size_bytes: int = Field(default=0, ge=0)
    """Size of the adapter file, known before the download."""
    engine_model: str
    """The name that an engine serves it under."""
