"""The policy file: one document that defines the hill, with a digest that is on every reward, run and gate report.

Unknown fields are refused (a misspelt guard forbids nothing), and so is what this version does not do yet.
"""

import hashlib
import json
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from headrace_schemas.base import Name

Share = Annotated[float, Field(ge=0, le=1)]
Duration = Annotated[str, StringConstraints(pattern=r"^[0-9]+(s|m|h|d)$")]
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(duration: str) -> float:
    """``30m`` → 1800.0"""
    return float(int(duration[:-1]) * _SECONDS[duration[-1]])


class Part(BaseModel):
    """A piece of a policy file: unknown fields are an error, numbers are finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class Rule(Part):
    """Checks on the answer's text. Each that is set scores 1 or 0; the rule's score is their mean."""

    max_words: int | None = Field(default=None, ge=1)
    """At most so many words."""
    min_words: int | None = Field(default=None, ge=0)
    """At least so many words."""
    one_line: bool = False
    """No line break inside the answer."""
    no_markdown: bool = False
    """No lists, headings, emphasis, links or code fences."""
    must_contain: tuple[str, ...] = ()
    """Each of these, whatever the case."""
    any_of: tuple[str, ...] = ()
    """At least one of these as a whole word, whatever the case."""
    must_not_contain: tuple[str, ...] = ()
    """None of these, whatever the case."""
    matches: str | None = None
    """A regular expression that the stripped answer must match from its start."""
    valid_json: bool = False
    """The answer parses as JSON."""

    @model_validator(mode="after")
    def _checks_something(self) -> Self:
        if not self.model_dump(exclude_defaults=True):
            raise ValueError("a rule without a check scores nothing: set at least one, e.g. max_words: 40")
        return self


class FeedbackPart(Part):
    """What users said, as a number in [0, 1]."""

    name: Name
    kind: Literal["feedback"]
    weight: float = Field(default=1.0, gt=0)
    metrics: dict[str, float] = Field(default_factory=lambda: {"accepted": 1.0})
    """Metric name → weight among the metrics present. Booleans count 1 and 0, numbers are clipped to [0, 1].
    A negative weight turns the metric round (`regenerated: -1`)."""

    @model_validator(mode="after")
    def _metrics_count(self) -> Self:
        if not self.metrics or any(w == 0 for w in self.metrics.values()):
            raise ValueError("name at least one metric, each with a weight other than 0, e.g. accepted: 1.0")
        return self


class RulePart(Part):
    """A rule on the text of the answer."""

    name: Name
    kind: Literal["rule"]
    weight: float = Field(default=1.0, gt=0)
    rule: Rule


RewardPart = Annotated[FeedbackPart | RulePart, Field(discriminator="kind")]


class TokenCost(Part):
    """Charges accepted answers for tokens above the median accepted length; never failures, never below it."""

    weight: float | Literal["auto"] = "auto"
    """What a doubling of the median costs; `auto` lets it rise while quality holds (research: algorithms §4.2)."""
    ceiling: Share = 0.3
    """The most that it may take off a reward."""
    only_above: Literal["median_accepted"] = "median_accepted"


class RewardSpec(Part):
    """How a reward is composed. Parts that say nothing about an answer are left out of the weighted mean."""

    parts: tuple[RewardPart, ...] = Field(min_length=1)
    token_cost: TokenCost | None = None

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [part.name for part in self.parts]
        if len(set(names)) != len(names):
            raise ValueError("two reward parts have the same name")
        if not any(part.kind == "feedback" for part in self.parts):
            raise ValueError("a reward needs at least one part of kind feedback: nothing else starts a trajectory")
        return self


class Trigger(Part):
    """When a run starts."""

    events: int = Field(default=32, ge=1)
    """New trajectories with a reward or a correction."""
    or_after: Duration | None = None
    """Or when the oldest unused one is so old and at least `min_events` are there."""
    min_events: int = Field(default=16, ge=1)


class TrainSpec(Part):
    trigger: Trigger = Trigger()
    recipe: Name = "default"
    """A recipe that the training service knows: objective and hyper-parameters, versioned with the code."""
    seed: int = 0


class Target(Part):
    """What the candidate must be better at than the champion."""

    metric: Literal["satisfaction"] = "satisfaction"
    """Mean score of the suite's cases."""
    better_than: Literal["champion"] = "champion"
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Promotion needs an e-value of at least 1/alpha."""


class Guard(Part):
    """What must not get worse, over the same paired answers."""

    metric: Literal["tokens_per_answer", "latency_s"]
    max_ratio: float = Field(gt=0)
    """Candidate ÷ champion."""


class GateSpec(Part):
    suite: Name
    """A private suite pushed with `headrace evals push`."""
    target: Target = Target()
    guards: tuple[Guard, ...] = (Guard(metric="tokens_per_answer", max_ratio=1.25),)
    promote: Literal["automatic", "manual"] = "automatic"
    """Whether a verdict to promote moves the alias by itself, or waits for a person."""


class PolicySpec(Part):
    """`headrace apply -f support.yaml`."""

    policy: Name
    project: Name = "default"
    base_model: Annotated[
        str, StringConstraints(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")
    ]
    reward: RewardSpec
    train: TrainSpec = TrainSpec()
    gate: GateSpec

    @field_validator("base_model")
    @classmethod
    def _names_no_parent_folder(cls, value: str) -> str:
        if ".." in value:
            raise ValueError("a model's name has no '..' in it")
        return value

    def canonical(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """sha256 in hex over canonical JSON."""
        return digest_of(self.canonical())

    def reward_digest(self) -> str:
        return digest_of(self.reward.model_dump(mode="json"))

    def gate_digest(self) -> str:
        return digest_of(self.gate.model_dump(mode="json"))


def digest_of(document: Any) -> str:
    """sha256 in hex over JSON with sorted keys and no spaces."""
    return hashlib.sha256(
        json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    ).hexdigest()
