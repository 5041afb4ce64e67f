"""Facts of the learning: feedback became a reward, a run became a checkpoint."""

from typing import ClassVar, Literal

from pydantic import Field

from headrace_schemas.base import Digest, Event, Id, Json, Name, Text, Value
from headrace_schemas.traffic import EngineFacts, Sampling


class ScoredPart(Value):
    """One line of a reward's breakdown."""

    name: Name
    """The part's name in the policy file; `token_cost` for the charge on tokens."""
    kind: str
    """The part's kind in the policy file: `feedback`, `rule`, …"""
    value: float
    """In [0, 1]; for `token_cost` what was taken off, negative."""
    weight: float
    """Its share of the reward's weighted mean; 0 where it came on top (token_cost)."""
    because: str = ""
    """In words: the metrics or checks behind it."""


class Directive(Value):
    """Feedback in words: what to do otherwise."""

    kind: Literal["comment", "correction", "error"]
    """A remark, the answer as it should have been, or an error message."""
    text: Text
    """The words themselves; untrusted."""


class TrajectoryScored(Event):
    """Feedback met its inference and became a reward: all that a trainer needs, complete."""

    type: ClassVar[str] = "trajectory-scored"

    trajectory_id: Id
    """The inference id: one trajectory an inference."""
    revision: int = Field(ge=1)
    """A later revision replaces earlier ones (late or changed feedback)."""
    episode_id: Id
    """The episode that the inference belongs to."""
    policy: Name
    """The policy that was asked."""
    policy_version: int = Field(ge=0)
    """The version that really answered; 0 is the base model."""
    adapter_digest: str = ""
    """Digest of the adapter that answered; empty for the base model."""
    messages: tuple[Json, ...] = ()
    """The prompt as the app sent it; untrusted text."""
    completion: Text = ""
    """The answer's text."""
    prompt_token_ids: tuple[int, ...] = ()
    """As the engine tokenised the prompt."""
    completion_token_ids: tuple[int, ...] = ()
    """As sampled, the end token included."""
    logprobs: tuple[float, ...] = ()
    """Natural log of each completion token's probability as sampled; same length."""
    sampling: Sampling = Sampling()
    """How the answer was sampled."""
    engine: EngineFacts
    """What computed it."""
    finish_reason: str | None = None
    """The engine's: `stop`, `length`, …"""
    reward: float | None = Field(default=None, ge=0, le=1)
    """None where nobody judged the answer (a correction alone, or feedback retracted)."""
    reward_breakdown: tuple[ScoredPart, ...] = ()
    """The parts that the reward is the weighted mean of."""
    directives: tuple[Directive, ...] = ()
    """What was said in words about this answer."""
    preferred_over: Id | None = None
    """The inference that this one was preferred to, where a comparison was given."""
    weight: float = Field(default=1.0, ge=0)
    """Trust in the feedback behind it."""
    actor: Id | None = None
    """Who judged it."""
    segment: Id | None = None
    """The app's own grouping of requests."""
    feedback_ids: tuple[Id, ...] = ()
    """The feedback behind it."""
    spec_digest: Digest
    """Digest of the reward spec that scored it."""
    train: bool = True
    """False: the app forbade learning from it."""

    def event_id(self) -> str:
        return f"{self.trajectory_id}.{self.revision}.{self.spec_digest[:12]}"

    def key(self) -> str:
        return self.episode_id

    def subject(self) -> str:
        return self.trajectory_id


class CheckpointSaved(Event):
    """A training run ended well and its adapter file is in the object store."""

    type: ClassVar[str] = "checkpoint-saved"

    policy: Name
    """The policy that was trained."""
    base_model: str
    """The base model that the adapter fits."""
    run_id: Id
    """The training run."""
    parent_version: int = Field(ge=0)
    """The version that the run started from; 0 is the base model."""
    parent_digest: str = ""
    """Digest of the parent's adapter; empty for the base model."""
    digest: Digest
    """sha256 of the adapter file, in hex."""
    object_key: str
    """Where the adapter file lies in the object store."""
    size_bytes: int = Field(ge=1)
    """Size of the adapter file."""
    manifest_digest: Digest
    """sha256 of the dataset manifest."""
    manifest_key: str
    """Where the dataset manifest lies in the object store."""
    samples: int = Field(ge=0)
    """Trajectories in the manifest."""
    recipe: Name
    """The recipe that the run followed."""
    recipe_digest: Digest
    """Digest of that recipe's settings."""
    spec_digest: Digest
    """Digest of the reward spec behind the newest trajectories."""
    fencing_token: int = Field(ge=0)
    """Token of the lease that the run was written under; a smaller one is out of date."""
    metrics: dict[str, float] = {}
    """What the trainer measured, by name."""

    def event_id(self) -> str:
        return f"{self.run_id}.{self.digest[:12]}"

    def key(self) -> str:
        return self.policy
