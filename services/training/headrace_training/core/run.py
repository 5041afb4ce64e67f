"""A run as the service knows it: from queued to how it ended."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

QUEUED, RUNNING = "queued", "running"
ATTEMPTS = 3
"""Crashes after which a run is given up: what kills the trainer three times will do so a fourth time."""


@dataclass(frozen=True)
class Run:
    """One row."""

    run_id: str
    policy: str
    project: str
    base_model: str
    state: str
    because: str
    recipe: str
    seed: int
    parent_version: int
    parent_digest: str
    parent_key: str
    created_at: datetime
    attempts: int = 0
    fencing_token: int = 0
    samples: int = 0
    spec_digest: str = ""
    reason: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    owner: str | None = None
    lease_until: datetime | None = None
    manifest_digest: str | None = None
    manifest_key: str | None = None
    progress: dict[str, Any] | None = None
    digest: str | None = None
    object_key: str | None = None
    size_bytes: int | None = None
    metrics: dict[str, float] | None = None
    routed_at: datetime | None = None
