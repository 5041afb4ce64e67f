"""What a child process is, as a value: nothing here starts, waits or writes."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace_local.probes import Probe


class SpecError(ValueError):
    """A set of specs that cannot be started: a name twice, an unknown dependency, or a circle."""


@dataclass(frozen=True)
class ProcessSpec:
    """One child process, or one step that runs to its end before others may start."""

    name: str
    """Unique in the stack; also the name of its log file."""
    argv: tuple[str, ...]
    """Program and arguments."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the supervisor's own environment."""
    unset: tuple[str, ...] = ()
    """Taken out of it: a user's AWS session would otherwise sign requests to the local store."""
    ready: Probe | None = None
    """Asked until it says yes; None: ready when it has lived for a moment."""
    after: tuple[str, ...] = ()
    """Names that must be ready (or, for a step, done) first."""
    once: bool = False
    """A step: it must end with status 0, and is not restarted after that."""
    result: Path | None = None
    """A step whose result already exists is not run."""
    partial: Path | None = None
    """Where the step works; removed before it runs, and renamed to `result` after it succeeded."""
    folders: tuple[Path, ...] = ()
    """Made before the first start; they belong to the user the process runs as."""
    unprivileged: bool = False
    """Under root, run as `nobody` (PostgreSQL refuses root)."""
    stop_signal: signal.Signals = signal.SIGTERM
    """What asks it to stop."""
    stop_timeout_s: float = 10.0
    """After so many seconds it is killed."""
    death_signal: signal.Signals = signal.SIGKILL
    """What the kernel sends it if the supervisor dies."""
    ready_timeout_s: float = 60.0
    """It is started again when it has not become ready in this time."""
    idle: bool = False
    """It gets what is left of the processor (nice 10)."""
    port: int | None = None
    """Where it listens, for people who look at the status."""
    url: str | None = None
    """The address that its users need."""


def in_order(specs: Iterable[ProcessSpec]) -> list[ProcessSpec]:
    """The specs so that each comes after what it depends on; otherwise in the order given.

    Raises SpecError for a repeated name, a dependency that is not there, or a circle.
    """
    waiting = list(specs)
    names = [spec.name for spec in waiting]
    if len(set(names)) != len(names):
        raise SpecError(f"a process name occurs twice in {names}")
    for spec in waiting:
        for name in spec.after:
            if name not in names:
                raise SpecError(f"{spec.name} waits for {name}, which is not in the stack")
    ordered: list[ProcessSpec] = []
    done: set[str] = set()
    while waiting:
        free = [spec for spec in waiting if done.issuperset(spec.after)]
        if not free:
            raise SpecError(f"these wait for each other: {[spec.name for spec in waiting]}")
        ordered += free
        done.update(spec.name for spec in free)
        waiting = [spec for spec in waiting if spec.name not in done]
    return ordered
