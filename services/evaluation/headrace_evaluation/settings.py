"""Settings of evaluation, read when the process starts."""

import base64
import binascii
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from headrace_kit.settings import DESCRIBED, HttpSettings


class EvaluationSettings(HttpSettings):
    model_config = SettingsConfigDict(env_prefix="EVALUATION_", **DESCRIBED)  # type: ignore[typeddict-item]

    key: SecretStr
    """Encrypts suites at rest: 32 random bytes in url-safe base64."""
    api_key: SecretStr
    """What the gateway is asked with: an API key with the scope `evaluate`."""
    concurrency: int = Field(default=8, ge=1, le=256)
    """Requests to the gateway at once."""
    request_timeout_s: float = Field(default=60.0, gt=0)
    """Longest wait for one answer."""
    lease_s: float = Field(default=90.0, gt=0)
    """A worker that kept no answer for so long has lost its job to another."""
    tries: int = Field(default=3, ge=1)
    """Requests for one case before the job is put back."""
    failures: int = Field(default=4, ge=1)
    """Times a job is put back before the verdict is hold, with the reason."""
    poll_s: float = Field(default=0.5, gt=0)
    """How often it is looked for something to judge."""

    @field_validator("key")
    @classmethod
    def _is_a_key(cls, value: SecretStr) -> SecretStr:
        if len(_decoded(value)) != 32:
            raise ValueError(
                "EVALUATION_KEY is 32 bytes in url-safe base64: "
                'python -c "import base64,os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())"'
            )
        return value

    @model_validator(mode="after")
    def _outlives_a_request(self) -> Self:
        if self.lease_s <= self.request_timeout_s:
            raise ValueError("EVALUATION_LEASE_S must be longer than EVALUATION_REQUEST_TIMEOUT_S")
        return self

    def key_bytes(self) -> bytes:
        return _decoded(self.key)


class PlacesSettings(BaseSettings):
    """Where others are."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", **DESCRIBED)  # type: ignore[typeddict-item]

    gateway_url: str = "http://127.0.0.1:8100"
    """The gateway that answers are asked from."""


def _decoded(value: SecretStr) -> bytes:
    try:
        return base64.urlsafe_b64decode(value.get_secret_value())
    except (binascii.Error, ValueError):
        return b""
