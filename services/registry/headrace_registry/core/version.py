"""An adapter version as the registry knows it, and what is asked of a checkpoint before it becomes a candidate."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace_registry.core.lifecycle import State
from headrace_registry.core.promotion import Pending
from headrace_schemas import CheckpointSaved
from headrace_schemas.base import VersionRef


@dataclass(frozen=True)
class Version:
    """One row of the table of versions. Version 0 is the base model and has no adapter."""

    policy: str
    version: int
    digest: str
    object_key: str
    size_bytes: int
    engine_model: str
    base_model: str
    state: State
    state_at: datetime
    reason: str
    verdict: str | None
    lineage: dict[str, Any] | None
    policy_digest: str
    policy_revision: int
    registered_at: datetime
    champion_at: datetime | None = None
    champion_epoch: int | None = None
    promoted_by: str | None = None
    promoted_because: str | None = None
    pending: Pending | None = None

    def ref(self) -> VersionRef:
        return VersionRef(
            version=self.version,
            digest=self.digest,
            object_key=self.object_key,
            size_bytes=self.size_bytes,
            engine_model=self.engine_model,
        )


def refusal(checkpoint: CheckpointSaved, *, highest_token: int, base_model: str, parent: Version | None) -> str | None:
    """None where the checkpoint may become a candidate; else why it is rejected as soon as it is registered.

    `highest_token` is the highest fencing token seen for the policy; `parent` the version it says it comes from.
    """
    if checkpoint.fencing_token < highest_token:
        return (
            f"stale fencing token {checkpoint.fencing_token}: a run with token {highest_token} was seen before, "
            "so this one had lost its lease"
        )
    if checkpoint.base_model != base_model:
        return f"trained on {checkpoint.base_model}, and the policy's base model is {base_model}"
    if parent is None:
        return f"its parent v{checkpoint.parent_version} is not known"
    if parent.digest != checkpoint.parent_digest:
        return f"its parent's digest is not that of v{checkpoint.parent_version}"
    if parent.state is State.QUARANTINED:
        return f"its parent v{parent.version} is quarantined: {parent.reason}"
    return None
