"""What a run is a function of, and what comes out of it: samples, manifests, results. All of it is JSON on disk."""

import hashlib
import json
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from headrace_training.recipes import Recipe


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Sample(_Frozen):
    """One answer and what was said of it: all that an objective may look at."""

    sample_id: str
    """The trajectory's id."""
    revision: int = Field(0, ge=0)
    """The trajectory's revision that was frozen into the run."""
    inference_id: str
    """The inference that answered."""
    messages: tuple[dict[str, Any], ...] = ()
    """The conversation up to the answer."""
    prompt_token_ids: tuple[int, ...]
    """As the engine saw them; never re-tokenised."""
    completion_token_ids: tuple[int, ...]
    """As the engine sampled them, with the end token if it came to that."""
    logprobs: tuple[float, ...]
    """Of each completion token under the policy that sampled it, after temperature."""
    temperature: float = Field(1.0, ge=0)
    """Temperature it was sampled with; 0 is greedy, whose logprobs are the raw ones."""
    reward: float | None = Field(None, ge=0, le=1)
    """None when nobody judged the answer itself, as for most corrections."""
    demonstration: str | None = None
    """The answer as it should have been."""
    comments: tuple[str, ...] = ()
    """What was said of it in words."""
    weight: float = Field(1.0, ge=0)
    """How much the reward is trusted."""
    policy_version: int = Field(0, ge=0)
    """Adapter version that answered; 0 is the base model."""
    staleness: int = Field(0, ge=0)
    """Versions between the one that answered and the run's parent."""
    actor: str | None = None
    """Pseudonym of who gave the feedback."""
    segment: str | None = None
    """Where the inference belongs: the finest level of the baseline."""

    def canonical(self) -> str:
        """The sample as one line of canonical JSON."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def digest(self) -> str:
        """sha256 of the canonical line, hex."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


class SampleRef(_Frozen):
    """A sample by name and content."""

    sample_id: str
    revision: int
    sha256: str


class AdapterRef(_Frozen):
    """An adapter version by number and content."""

    version: int = Field(ge=1)
    digest: str


class DatasetManifest(_Frozen):
    """What an adapter is a function of. Two runs with the same digest learn the same thing."""

    policy: str
    base_model: str
    parent: AdapterRef | None = None
    recipe: Recipe
    seed: int
    samples: tuple[SampleRef, ...]

    @property
    def digest(self) -> str:
        """sha256 over canonical JSON of the fields above and no others."""
        body = self.model_dump(mode="json", include=set(DatasetManifest.model_fields))
        return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class RunManifest(DatasetManifest):
    """The dataset manifest together with the run that it was frozen for."""

    run_id: str
    fencing_token: int
    """Grows with each claim of the run; a durable write with an older token is refused."""


class ExitReason(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    DIVERGED = "diverged"
    OOM = "oom"
    CANCELLED = "cancelled"
    FAILED = "failed"


class RunResult(_Frozen):
    """What the trainer says when it is done."""

    run_id: str
    fencing_token: int
    exit_reason: ExitReason
    reason: str | None = None
    """One sentence when it did not complete."""
    adapter_sha256: str | None = None
    adapter_bytes: int | None = None
    steps: int = 0
    metrics: dict[str, float] = {}


def refs(samples: list[Sample]) -> tuple[SampleRef, ...]:
    """How a manifest names these samples."""
    return tuple(SampleRef(sample_id=s.sample_id, revision=s.revision, sha256=s.digest) for s in samples)
