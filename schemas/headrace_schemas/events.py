"""Every event: a fact, past tense, immutable, whole. Where it travels is in topics.py."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from headrace_schemas.base import Digest, Event, Id, Json, Name, Text, Time, Value, VersionRef

Comment = Annotated[str, StringConstraints(max_length=20_000)]
Tags = dict[Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=512)]]


class Usage(Value):
    """Tokens of one inference, as the engine counted them."""

    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)


class Sampling(Value):
    """The sampling settings that the engine used. Importance weights are exact only with top_p 1 and no top_k."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0 means no limit."""
    max_tokens: int | None = None
    seed: int | None = None


class EngineFacts(Value):
    """What must match between serving and training for stored logprobs to mean anything."""

    base_model: str
    engine_version: str = ""
    dtype: str = ""
    chat_template_hash: str = ""
    """sha256 in hex of the chat template."""
    tokenizer_hash: str = ""
    """sha256 in hex of the tokenizer's file."""


class InferenceCompleted(Event):
    """One admitted request came to its end, whatever the end was."""

    type: ClassVar[str] = "inference-completed"

    inference_id: Id
    """The response's `id`; contains the episode id."""
    episode_id: Id
    """Inferences with one outcome."""
    correlation_id: Id | None = None
    """The app's own id, where it sent one."""
    policy: Name
    policy_version: int = Field(ge=0)
    """The version that really answered; 0 is the base model."""
    adapter_digest: str = ""
    """Digest of the adapter that answered; empty for the base model."""
    variant: Literal["champion", "candidate", "canary", "shadow", "base", "pinned", "external"] = "champion"
    """Why this version answered."""
    fallback: bool = False
    """True where the routed version could not be served and another one answered instead."""
    propensity: float = Field(default=1.0, gt=0, le=1)
    """Probability with which the router chose this variant."""
    messages: tuple[Json, ...] = ()
    """The prompt as the app sent it (chat); untrusted text."""
    prompt: Text | None = None
    """The prompt as the app sent it (plain completions)."""
    tools: tuple[Json, ...] = ()
    completion: Text = ""
    """The answer's text."""
    tool_calls: tuple[Json, ...] = ()
    prompt_token_ids: tuple[int, ...] = ()
    """As the engine tokenised the prompt, chat template included."""
    completion_token_ids: tuple[int, ...] = ()
    """As sampled, the end token included."""
    logprobs: tuple[float, ...] = ()
    """Natural log of the probability of each completion token as sampled (after temperature); same length."""
    sampling: Sampling = Sampling()
    engine: EngineFacts
    state: Literal["completed", "client_aborted", "upstream_failed", "timeout"]
    finish_reason: str | None = None
    """The engine's: `stop`, `length`, `tool_calls`, …"""
    error: Comment | None = None
    usage: Usage = Usage(prompt_tokens=0, completion_tokens=0)
    cost_usd: float = Field(default=0.0, ge=0)
    ttft_s: float | None = Field(default=None, ge=0)
    """Seconds to the first token, at the gateway."""
    latency_s: float = Field(ge=0)
    """Seconds from admission to the terminal state."""
    actor: Id | None = None
    """Pseudonym of the person asking."""
    segment: Id | None = None
    metadata: Tags = {}
    solicit: bool = False
    """Marked by the gateway: the app is asked to ask for feedback."""
    train: bool = True
    """False: the app forbade learning from it."""
    retry_count: int = Field(default=0, ge=0)
    """The client's own retries before this one."""
    replica: str = ""
    """The engine that answered."""

    def event_id(self) -> str:
        return self.inference_id

    def key(self) -> str:
        return self.episode_id

    def subject(self) -> str:
        return self.inference_id


class Source(Value):
    """Who or what gave a piece of feedback."""

    kind: Literal["human", "code", "model", "system"] = "human"
    id: Id | None = None


class FeedbackRecorded(Event):
    """A piece of feedback, or a new revision of it, became durable."""

    type: ClassVar[str] = "feedback-recorded"

    feedback_id: Id
    revision: int = Field(ge=1)
    """Counts revisions of one opinion (target, metric, source): the highest one holds."""
    sequence: int = Field(ge=0)
    """The server's order over all feedback of the project."""
    inference_id: Id | None = None
    """Exactly one of inference_id, episode_id and correlation_id names the target."""
    episode_id: Id | None = None
    correlation_id: Id | None = None
    metric_name: Id
    """Reserved: comment, demonstration, comparison. All others are the app's own."""
    value: bool | float | Text | Json | None = None
    """null retracts the opinion."""
    comment: Comment | None = None
    source: Source = Source()
    trust: float = Field(default=1.0, ge=0, le=1)
    """Weight of the source, by the kind of key that brought it."""
    recorded_at: Time
    """When the server made it durable."""
    tags: Tags = {}

    def event_id(self) -> str:
        return f"{self.feedback_id}.{self.revision}"

    def key(self) -> str:
        """The episode where it can be known, else the app's own id."""
        from headrace_schemas.ids import episode_of, is_inference_id

        if self.inference_id and is_inference_id(self.inference_id):
            return episode_of(self.inference_id)
        return self.episode_id or self.correlation_id or self.inference_id or ""

    def subject(self) -> str:
        return self.inference_id or self.episode_id or self.correlation_id or ""


class ScoredPart(Value):
    """One line of a reward's breakdown."""

    name: Name
    kind: str
    value: float
    """In [0, 1]; for `token_cost` what was taken off, negative."""
    weight: float
    """Its share of the reward's weighted mean; 0 where it came on top (token_cost)."""
    because: str = ""
    """In words: the metrics or checks behind it."""


class Directive(Value):
    """Feedback in words: what to do otherwise."""

    kind: Literal["comment", "correction", "error"]
    text: Text


class TrajectoryScored(Event):
    """Feedback met its inference and became a reward: all that a trainer needs, complete."""

    type: ClassVar[str] = "trajectory-scored"

    trajectory_id: Id
    """The inference id: one trajectory an inference."""
    revision: int = Field(ge=1)
    """A later revision replaces earlier ones (late or changed feedback)."""
    episode_id: Id
    policy: Name
    policy_version: int = Field(ge=0)
    adapter_digest: str = ""
    messages: tuple[Json, ...] = ()
    completion: Text = ""
    prompt_token_ids: tuple[int, ...] = ()
    completion_token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    sampling: Sampling = Sampling()
    engine: EngineFacts
    finish_reason: str | None = None
    reward: float | None = Field(default=None, ge=0, le=1)
    """None where nobody judged the answer (a correction alone, or feedback retracted)."""
    reward_breakdown: tuple[ScoredPart, ...] = ()
    directives: tuple[Directive, ...] = ()
    preferred_over: Id | None = None
    """The inference that this one was preferred to, where a comparison was given."""
    weight: float = Field(default=1.0, ge=0)
    """Trust in the feedback behind it."""
    actor: Id | None = None
    """Who judged it."""
    segment: Id | None = None
    feedback_ids: tuple[Id, ...] = ()
    spec_digest: Digest
    """Digest of the reward spec that scored it."""
    train: bool = True

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
    base_model: str
    run_id: Id
    parent_version: int = Field(ge=0)
    parent_digest: str = ""
    digest: Digest
    object_key: str
    size_bytes: int = Field(ge=1)
    manifest_digest: Digest
    """sha256 of the dataset manifest."""
    manifest_key: str
    samples: int = Field(ge=0)
    """Trajectories in the manifest."""
    recipe: Name
    recipe_digest: Digest
    spec_digest: Digest
    """Digest of the reward spec behind the newest trajectories."""
    fencing_token: int = Field(ge=0)
    metrics: dict[str, float] = {}

    def event_id(self) -> str:
        return f"{self.run_id}.{self.digest[:12]}"

    def key(self) -> str:
        return self.policy


class AdapterRegistered(Event):
    """The registry gave a checkpoint its version."""

    type: ClassVar[str] = "adapter-registered"

    policy: Name
    base_model: str
    adapter: VersionRef
    parent_version: int = Field(ge=0)
    run_id: Id
    manifest_digest: Digest
    recipe: Name
    recipe_digest: Digest
    spec_digest: Digest
    policy_digest: Digest

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
    candidate_passed: int = Field(default=0, ge=0)
    """Cases that met every check."""
    champion_passed: int = Field(default=0, ge=0)


class GuardResult(Value):
    """One guard's figures."""

    metric: str
    candidate: float
    champion: float
    limit: float
    passed: bool


class EvaluationCompleted(Event):
    """A candidate and the champion answered the private suite; here is what came of it. No suite content."""

    type: ClassVar[str] = "evaluation-completed"

    evaluation_id: Id
    policy: Name
    candidate_version: int
    candidate_digest: str
    champion_version: int
    champion_digest: str
    suite: Name
    suite_digest: Digest
    gate_digest: Digest
    verdict: Literal["promote", "hold", "reject"]
    because: Comment
    """The verdict in words."""
    statistics: GateStatistics
    guards: tuple[GuardResult, ...] = ()
    duration_s: float = Field(ge=0)

    def event_id(self) -> str:
        return self.evaluation_id

    def key(self) -> str:
        return self.policy


class RouteChanged(Event):
    """The whole routing state of a policy after a change."""

    type: ClassVar[str] = "route-changed"

    policy: Name
    base_model: str
    epoch: int = Field(ge=1)
    """Grows by one with each change; readers ignore an older one."""
    champion: VersionRef
    """Answers requests for the policy; version 0 is the base model."""
    previous: VersionRef | None = None
    """Stays loaded, so that a rollback loads nothing."""
    canary: VersionRef | None = None
    canary_share: float = Field(default=0.0, ge=0, le=1)
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
    revision: int = Field(ge=1)
    digest: Digest
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
    salt: str
    """Hex."""
    hash: Digest
    """sha256 over salt and secret, in hex. The secret has 256 bits of randomness, so no slow hash is needed."""
    scopes: tuple[Literal["inference", "feedback", "evaluate"], ...]
    revoked: bool = False
    revision: int = Field(default=1, ge=1)
    name: str = ""

    def event_id(self) -> str:
        return f"{self.prefix}.{self.revision}"

    def key(self) -> str:
        return self.prefix


class Probe(Value):
    """What the agent saw when it proved an adapter on its replica."""

    finite: bool
    differs_from_base: bool
    max_abs_logprob_delta: float = 0.0
    """Largest change of a probe token's logprob against base, in nats."""
    seconds: float = Field(default=0.0, ge=0)
    """From the wish to ready: download, checks, load and probe."""
    reason: str = ""
    """Why it failed, in words."""


class AdapterState(Value):
    """One adapter on one replica."""

    policy: Name
    version: int
    digest: str
    engine_model: str
    state: Literal["loading", "ready", "failed", "gone"]
    probe: Probe | None = None


class AdapterObserved(Event):
    """The whole state of one replica, by the agent beside it."""

    type: ClassVar[str] = "adapter-observed"

    replica: Id
    sequence: int = Field(ge=1)
    """Grows with each report of this replica (microseconds of the agent's clock)."""
    url: str
    """Where gateways reach the engine."""
    healthy: bool
    base_model: str
    engine: EngineFacts
    adapters: tuple[AdapterState, ...] = ()

    def event_id(self) -> str:
        return f"{self.replica}.{self.sequence}"

    def key(self) -> str:
        return self.replica

    def ready(self, engine_model: str) -> bool:
        return self.healthy and any(a.engine_model == engine_model and a.state == "ready" for a in self.adapters)


EVENTS: tuple[type[Event], ...] = (
    InferenceCompleted,
    FeedbackRecorded,
    TrajectoryScored,
    CheckpointSaved,
    AdapterRegistered,
    EvaluationCompleted,
    RouteChanged,
    PolicyChanged,
    KeyChanged,
    AdapterObserved,
)
