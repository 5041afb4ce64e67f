"""What is known of a stack: written by its supervisor to `.headrace/stack.json`, read by everybody else."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from headrace_local import credentials, postgres
from headrace_local.objects import S3Settings
from headrace_local.options import Layout, StackOptions

Phase = Literal["starting", "ready", "stopping", "stopped", "failed", "gone"]
"""`gone`: the supervisor died without stopping its stack."""
Status = Literal["waiting", "starting", "ready", "done", "restarting", "failed", "stopped"]

BUCKET = "headrace"
LOG_BUCKET = "headrace-log"


@dataclass
class ProcessState:
    """One process or step of the stack."""

    name: str
    status: Status = "waiting"
    pid: int | None = None
    started: float | None = None
    """Creation time of that pid, seconds since the epoch."""
    restarts: int = 0
    seconds: float | None = None
    """From its start until it was ready."""
    port: int | None = None
    url: str | None = None
    log: str = ""
    error: str | None = None
    """Why it last failed to start."""


@dataclass
class StackState:
    """The stack as a whole."""

    root: Path
    phase: Phase
    options: StackOptions
    ports: dict[str, int] = field(default_factory=dict)
    """By name, for parts and services; kept for the next start."""
    base_model: str | None = None
    models_dir: str | None = None
    kafka_bootstrap: str = ""
    supervisor_pid: int | None = None
    supervisor_started: float | None = None
    error: str | None = None
    processes: dict[str, ProcessState] = field(default_factory=dict)
    found: bool = False
    """Whether `up` found it running instead of starting it."""

    @property
    def layout(self) -> Layout:
        return Layout(self.root)

    @property
    def _secrets(self) -> credentials.Credentials:
        return credentials.load_or_make(self.layout)

    def url(self, service: str) -> str:
        """The address of a service, or of vLLM (`vllm`). Raises KeyError when it is not in this stack."""
        return f"http://127.0.0.1:{self.ports[service]}"

    @property
    def gateway_url(self) -> str:
        return self.url("gateway")

    @property
    def registry_url(self) -> str:
        return self.url("registry")

    @property
    def feedback_url(self) -> str:
        return self.url("feedback")

    @property
    def evaluation_url(self) -> str:
        return self.url("evaluation")

    @property
    def console_url(self) -> str:
        return self.url("console")

    @property
    def api_key(self) -> str:
        """The first API key."""
        return self._secrets.api_key

    @property
    def admin_token(self) -> str:
        return self._secrets.admin_token

    @property
    def database_url(self) -> str:
        return postgres.url(self.ports["postgres"], self._secrets.postgres_password)

    @property
    def s3(self) -> S3Settings:
        secrets = self._secrets
        return S3Settings(f"127.0.0.1:{self.ports['s3']}", secrets.s3_access_key, secrets.s3_secret_key, BUCKET)

    @property
    def pids(self) -> dict[str, int]:
        """The processes that run, by name."""
        return {p.name: p.pid for p in self.processes.values() if p.pid and p.status not in ("done", "stopped")}

    def client_env(self) -> dict[str, str]:
        """What the CLI and the demo need in their environment to reach the stack."""
        env = {
            "HEADRACE_API_KEY": self.api_key,
            "HEADRACE_ADMIN_TOKEN": self.admin_token,
            "HEADRACE_KAFKA_BOOTSTRAP": self.kafka_bootstrap,
        }
        for service in ("gateway", "registry", "feedback", "evaluation", "console"):
            if service in self.ports:
                env[f"HEADRACE_{service.upper()}_URL"] = self.url(service)
        return env

    def to_json(self) -> dict[str, Any]:
        value = asdict(self)
        value.pop("found")
        return value | {
            "version": 1,
            "root": str(self.root),
            "secrets": str(self.layout.secrets),
            "urls": {process.name: process.url for process in self.processes.values() if process.url},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        known = {name: value[name] for name in cls.__dataclass_fields__ if name in value}
        known["root"] = Path(value["root"])
        known["options"] = StackOptions.from_json(value["options"])
        known["processes"] = {name: ProcessState(**process) for name, process in value["processes"].items()}
        return cls(**known)


def write(state: StackState) -> None:
    """Put the state in its file, in one rename."""
    credentials.write_private(state.layout.state, json.dumps(state.to_json(), indent=2) + "\n")


def read(layout: Layout) -> StackState | None:
    """The last state written, or None where there never was a stack."""
    try:
        text = layout.state.read_text()
    except FileNotFoundError:
        return None
    return StackState.from_json(json.loads(text))


def try_lock(layout: Layout) -> int | None:
    """Take the stack's lock: a file descriptor to keep open, or None when a supervisor holds it.

    The kernel drops it when the holder dies, however it dies; children do not inherit it.
    """
    layout.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_supervised(layout: Layout) -> bool:
    """Whether a supervisor of this stack lives."""
    if not layout.lock.exists():
        return False
    descriptor = try_lock(layout)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
