"""Settings of the console, read when the process starts."""

from typing import Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from headrace_kit.settings import DESCRIBED, HttpSettings

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ConsoleSettings(HttpSettings):
    model_config = SettingsConfigDict(env_prefix="CONSOLE_", **DESCRIBED)  # type: ignore[typeddict-item]

    token: SecretStr | None = None
    """Where set, the pages need a login: open `/?token=…` once, and a cookie remembers it."""
    allowed_hosts: str = ""
    """Host names under which the console is reached, comma separated, besides loopback: others are refused, so that
    no foreign page can read it by pointing its own name at this address."""
    refresh_s: float = Field(default=5.0, ge=1.0)
    """How often an open page asks for news."""
    dead_letters_every_s: float = Field(default=60.0, gt=0)
    """How often all dead-letter topics are looked through once."""

    @model_validator(mode="after")
    def _public_needs_a_token(self) -> Self:
        if self.host not in LOOPBACK and (self.token is None or len(self.token.get_secret_value()) < 16):
            raise ValueError(
                f"CONSOLE_HOST {self.host} is not loopback, and the console shows what users wrote: "
                "set CONSOLE_TOKEN to at least 16 characters"
            )
        return self

    def hosts(self) -> frozenset[str]:
        """Every host name that a request may name."""
        named = {name.strip().lower() for name in self.allowed_hosts.split(",") if name.strip()}
        return frozenset({*LOOPBACK, self.host.lower(), *named})
