"""What the user may choose about the local stack, and where its files lie."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

SERVICES = ("registry", "feedback", "reward", "evaluation", "training", "gateway", "agent", "console")

Engine = Literal["vllm", "none"]


class OptionError(ValueError):
    """An option that cannot be used; the message is one sentence with the mend."""


@dataclass(frozen=True)
class StackOptions:
    """The user's choices."""

    broker: str = "embedded"
    """`embedded`, `kafka` (Apache Kafka from KAFKA_HOME), or host:port of one that runs already."""
    engine: Engine = "vllm"
    """`none` leaves out vLLM and the agent beside it: for tests of the rest."""
    model: str | None = None
    """Path of a model's folder; None: SmolLM2-135M-Instruct."""
    services: tuple[str, ...] = SERVICES
    """Which services to start."""
    log_format: Literal["json", "console"] = "console"
    """How the services write their logs."""

    def __post_init__(self) -> None:
        if self.broker not in ("embedded", "kafka") and not _is_address(self.broker):
            raise OptionError(f"The broker {self.broker!r} is none of embedded, kafka and host:port.")
        if self.engine not in ("vllm", "none"):
            raise OptionError(f"The engine {self.engine!r} is neither vllm nor none.")
        if unknown := set(self.services) - set(SERVICES):
            raise OptionError(f"There is no service {min(unknown)!r}; there are {', '.join(SERVICES)}.")

    @classmethod
    def from_environment(cls, **chosen: Any) -> Self:
        """HEADRACE_BROKER from the environment, the rest as given or by default."""
        chosen.setdefault("broker", os.environ.get("HEADRACE_BROKER") or "embedded")
        return cls(**chosen)

    @property
    def broker_kind(self) -> str:
        """`embedded`, `kafka` or `external`."""
        return self.broker if self.broker in ("embedded", "kafka") else "external"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(**{**value, "services": tuple(value["services"])})


def _is_address(text: str) -> bool:
    parts = text.split(",")
    return all(host and port.isdigit() for host, _, port in (part.strip().rpartition(":") for part in parts))


@dataclass(frozen=True)
class Layout:
    """The files of one stack, all below `.headrace` of the folder it was started in."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / ".headrace"

    @property
    def lock(self) -> Path:
        """Held by the supervisor as long as it lives."""
        return self.home / "lock"

    @property
    def state(self) -> Path:
        return self.home / "stack.json"

    @property
    def secrets(self) -> Path:
        return self.home / "secrets.json"

    @property
    def postgres_password(self) -> Path:
        return self.home / "postgres.password"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    @property
    def broker_kind(self) -> Path:
        """Says which kind of broker the data belong to."""
        return self.data / "broker-kind"

    @property
    def data(self) -> Path:
        """One folder for each part or service."""
        return self.home / "data"


def layout(root: Path) -> Layout:
    """The layout of the stack in `root`, absolute."""
    return Layout(root.expanduser().resolve())
