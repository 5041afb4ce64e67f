"""Facts of the traffic: a request came to its end, somebody said what they thought of it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from headrace_schemas.base import Event, Id, Json, Name, Text, Time, Value
from headrace_schemas.ids import episode_of, is_inference_id

Comment = Annotated[str, StringConstraints(max_length=20_000)]
Tags = dict[Annotated[str, StringConstraints(max_length=64)], Annotated[str, StringConstraints(max_length=512)]]


class Usage(Value):
    """Tokens of one inference, as the engine counted them."""

    prompt_tokens: int = Field(ge=0)
    """Tokens of the prompt, chat template included."""
    completion_tokens: int = Field(ge=0)
    """Tokens of the answer, end token included."""


class Sampling(Value):
    """The sampling settings that the engine used. Importance weights are exact only with top_p 1 and no top_k."""

    temperature: float = 1.0
    """Divides the logits; 0 is greedy."""
    top_p: float = 1.0
    """Nucleus; 1 means all tokens."""
    top_k: int = 0
    """0 means no limit."""
    max_tokens: int | None = None
    """The longest answer asked for; null leaves it to the engine."""
    seed: int | None = None
    """The request's own seed, where it gave one."""


class EngineFacts(Value):
    """What must match between serving and training for stored logprobs to mean anything."""

    base_model: str
    """Name of the base model, as the engine serves it."""
    engine_version: str = ""
    """vLLM's version."""
    dtype: str = ""
    """Of weights and activations, e.g. `bfloat16`."""
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
    """The policy that was asked."""
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
    """Tools that the app offered, as it sent them."""
    completion: Text = ""
    """The answer's text."""
    tool_calls: tuple[Json, ...] = ()
    """Tool calls that the model made."""
    prompt_token_ids: tuple[int, ...] = ()
    """As the engine tokenised the prompt, chat template included."""
    completion_token_ids: tuple[int, ...] = ()
    """As sampled, the end token included."""
    logprobs: tuple[float, ...] = ()
    """Natural log of the probability of each completion token as sampled (after temperature); same length."""
    sampling: Sampling = Sampling()
    """How the answer was sampled."""
    engine: EngineFacts
    """What computed the answer."""
    state: Literal["completed", "client_aborted", "upstream_failed", "timeout"]
    """How it ended: the answer came whole, the client left, the engine failed, or time ran out."""
    finish_reason: str | None = None
    """The engine's: `stop`, `length`, `tool_calls`, …"""
    error: Comment | None = None
    """Why it failed, in words; null where it did not."""
    usage: Usage = Usage(prompt_tokens=0, completion_tokens=0)
    """Tokens, as the engine counted them."""
    cost_usd: float = Field(default=0.0, ge=0)
    """What the tokens cost at the policy's prices; 0 where it names none."""
    ttft_s: float | None = Field(default=None, ge=0)
    """Seconds to the first token, at the gateway."""
    latency_s: float = Field(ge=0)
    """Seconds from admission to the terminal state."""
    actor: Id | None = None
    """Pseudonym of the person asking."""
    segment: Id | None = None
    """The app's own grouping of requests, e.g. a language or a plan."""
    metadata: Tags = {}
    """The app's own labels: at most 64 characters a name, 512 a value."""
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
    """A person, the app's code, a model as judge, or Headrace itself."""
    id: Id | None = None
    """Pseudonym; one opinion a source and metric."""


class FeedbackRecorded(Event):
    """A piece of feedback, or a new revision of it, became durable."""

    type: ClassVar[str] = "feedback-recorded"

    feedback_id: Id
    """The sender's own idempotency id, or one made by the server."""
    revision: int = Field(ge=1)
    """Counts revisions of one opinion (target, metric, source): the highest one holds."""
    sequence: int = Field(ge=0)
    """The server's order over all feedback of the project."""
    inference_id: Id | None = None
    """Exactly one of inference_id, episode_id and correlation_id names the target."""
    episode_id: Id | None = None
    """The target: an episode."""
    correlation_id: Id | None = None
    """The target: the app's own id of a request."""
    metric_name: Id
    """Reserved: comment, demonstration, comparison. All others are the app's own."""
    value: bool | float | Text | Json | None = None
    """null retracts the opinion."""
    comment: Comment | None = None
    """In words, beside the value."""
    source: Source = Source()
    """Who gave it."""
    trust: float = Field(default=1.0, ge=0, le=1)
    """Weight of the source, by the kind of key that brought it."""
    recorded_at: Time
    """When the server made it durable."""
    tags: Tags = {}
    """The app's own labels, e.g. the surface it was given on."""

    def event_id(self) -> str:
        return f"{self.feedback_id}.{self.revision}"

    def key(self) -> str:
        """The episode where it can be known, else the app's own id."""
        if self.inference_id and is_inference_id(self.inference_id):
            return episode_of(self.inference_id)
        return self.episode_id or self.correlation_id or self.inference_id or ""

    def subject(self) -> str:
        return self.inference_id or self.episode_id or self.correlation_id or ""
