"""Facts of the release: what was registered, judged, routed, allowed in, and seen on an engine."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from headrace_schemas.base import Digest, Event, Id, Name, Value, VersionRef
from headrace_schemas.traffic import Comment, EngineFacts


class AdapterRegistered(Event):
    """The registry gave a checkpoint its version."""

    type: ClassVar[str] = "adapter-registered"

    policy: Name
    """The policy that the version belongs to."""
    base_model: str
    """The base model that the adapter fits."""
    adapter: VersionRef
    """The version: number, digest, where it lies, and its engine name."""
    parent_version: int = Field(ge=0)
    """The version it was trained from; 0 is the base model."""
    run_id: Id
    """The training run behind it."""
    manifest_digest: Digest
    """sha256 of the dataset manifest."""
    recipe: Name
    """The recipe that the run followed."""
    recipe_digest: Digest
    """Digest of that recipe's settings."""
    spec_digest: Digest
    """Digest of the reward spec behind its data."""
    policy_digest: Digest
    """Digest of the policy file in force when it was registered."""

    def event_id(self) -> str:
        return f"{self.policy}@v{self.adapter.version}"

    def key(self) -> str:
        return self.policy


class GateStatistics(Value):
    """The numbers behind a verdict."""

    cases: int = Field(ge=0)
    """Paired cases of the suite that were judged."""
    candidate: float
    """Mean score of the candidate."""
    champion: float
    """Mean score of the champion on the same cases."""
    e_value: float = Field(ge=0)
    """Evidence that the candidate is better: promotion needs at least 1/alpha."""
    e_harm: float = Field(ge=0)
    """Evidence that it is worse."""
    alpha: float
    """The error rate that the gate was given."""
    candidate_passed: int = Field(default=0, ge=0)
    """Cases that met every check."""
    champion_passed: int = Field(default=0, ge=0)
    """Cases on which the champion met every check."""


class GuardResult(Value):
    """One guard's figures."""

    metric: str
    """What was guarded."""
    candidate: float
    """The candidate's figure."""
    champion: float
    """The champion's figure on the same answers."""
    limit: float
    """The ratio of the two that was allowed."""
    passed: bool
    """Whether it stayed within the limit."""


class EvaluationCompleted(Event):
    """A candidate and the champion answered the private suite; here is what came of it. No suite content."""

    type: ClassVar[str] = "evaluation-completed"

    evaluation_id: Id
    """One evaluation of one candidate."""
    policy: Name
    """The policy that candidate and champion belong to."""
    candidate_version: int
    """The version under test."""
    candidate_digest: str
    """Digest of its adapter."""
    champion_version: int
    """The version that it was compared with; 0 is the base model."""
    champion_digest: str
    """Digest of that adapter; empty for the base model."""
    suite: Name
    """Name of the private suite."""
    suite_digest: Digest
    """Digest of the suite's content."""
    gate_digest: Digest
    """Digest of the policy file's gate."""
    verdict: Literal["promote", "hold", "reject"]
    """Whether the candidate may answer users: yes, not yet, no."""
    because: Comment
    """The verdict in words."""
    statistics: GateStatistics
    """The numbers behind the verdict."""
    guards: tuple[GuardResult, ...] = ()
    """What must not get worse, and whether it did."""
    duration_s: float = Field(ge=0)
    """Seconds from the first question to the verdict."""

    def event_id(self) -> str:
        return self.evaluation_id

    def key(self) -> str:
        return self.policy


class RouteChanged(Event):
    """The whole routing state of a policy after a change."""

    type: ClassVar[str] = "route-changed"

    policy: Name
    """The policy that is routed."""
    base_model: str
    """Answers where no adapter is champion."""
    epoch: int = Field(ge=1)
    """Grows by one with each change; readers ignore an older one."""
    champion: VersionRef
    """Answers requests for the policy; version 0 is the base model."""
    previous: VersionRef | None = None
    """Stays loaded, so that a rollback loads nothing."""
    canary: VersionRef | None = None
    """Answers a share of requests; null where there is none."""
    canary_share: float = Field(default=0.0, ge=0, le=1)
    """The canary's share of requests."""
    load: tuple[VersionRef, ...] = ()
    """Candidates that engines keep loaded beside champion, previous and canary."""

    def event_id(self) -> str:
        return f"{self.policy}.{self.epoch}"

    def key(self) -> str:
        return self.policy

    def wanted(self) -> tuple[VersionRef, ...]:
        """Every adapter that an engine must hold, the base model not counted."""
        refs = (self.champion, self.previous, self.canary, *self.load)
        return tuple({r.engine_model: r for r in refs if r and r.version > 0}.values())


class PolicyChanged(Event):
    """A policy file was applied: the whole spec."""

    type: ClassVar[str] = "policy-changed"

    policy: Name
    """The policy's name."""
    revision: int = Field(ge=1)
    """Counts the changes of this policy's file."""
    digest: Digest
    """sha256 of the canonical policy file, in hex."""
    spec: dict[str, Any]
    """The canonical policy file: `PolicySpec.model_validate(spec)`."""

    def event_id(self) -> str:
        return f"{self.policy}.{self.revision}"

    def key(self) -> str:
        return self.policy


class KeyChanged(Event):
    """An API key was made or revoked. The secret itself never leaves the reply that made it."""

    type: ClassVar[str] = "key-changed"

    prefix: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{8}$")]
    """The key's open part: `hr_<prefix>_<secret>`."""
    salt: str
    """Hex."""
    hash: Digest
    """What `keys.hash_secret(salt, secret)` gives; the secret is the third part of `hr_<prefix>_<secret>`."""
    scopes: tuple[Literal["inference", "feedback", "evaluate"], ...]
    """What the key may do."""
    revoked: bool = False
    """True: it opens nothing any more."""
    revision: int = Field(default=1, ge=1)
    """Counts the changes of this key."""
    name: str = ""
    """For people."""

    def event_id(self) -> str:
        return f"{self.prefix}.{self.revision}"

    def key(self) -> str:
        return self.prefix


class Probe(Value):
    """What the agent saw when it proved an adapter on its replica."""

    finite: bool
    """Whether every probed logprob was a number."""
    differs_from_base: bool
    """Whether the adapter changed anything at all."""
    max_abs_logprob_delta: float = 0.0
    """Largest change of a probe token's logprob against base, in nats."""
    seconds: float = Field(default=0.0, ge=0)
    """From the wish to ready: download, checks, load and probe."""
    reason: str = ""
    """Why it failed, in words."""


class AdapterState(Value):
    """One adapter on one replica."""

    policy: Name
    """The policy that the version belongs to."""
    version: int
    """The version's number."""
    digest: str
    """sha256 of its adapter file, in hex."""
    engine_model: str
    """The name that the engine serves it under."""
    state: Literal["loading", "ready", "failed", "gone"]
    """Only `ready` may answer: it was loaded and proved."""
    probe: Probe | None = None
    """What the proof showed; null before there was one."""


class AdapterObserved(Event):
    """The whole state of one replica, by the agent beside it."""

    type: ClassVar[str] = "adapter-observed"

    replica: Id
    """The engine's name."""
    sequence: int = Field(ge=1)
    """Grows with each report of this replica (microseconds of the agent's clock)."""
    url: str
    """Where gateways reach the engine."""
    healthy: bool
    """Whether the engine answers."""
    base_model: str
    """The base model's name on this engine."""
    engine: EngineFacts
    """What the engine computes with."""
    adapters: tuple[AdapterState, ...] = ()
    """Every adapter that it holds, is loading, or failed to load."""

    def event_id(self) -> str:
        return f"{self.replica}.{self.sequence}"

    def key(self) -> str:
        return self.replica

    def ready(self, engine_model: str) -> bool:
        return self.healthy and any(a.engine_model == engine_model and a.state == "ready" for a in self.adapters)
