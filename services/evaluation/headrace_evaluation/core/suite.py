"""A private suite: cases with a prompt and the rule that an answer is scored by. It leaves this service only sealed."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from headrace_schemas.base import Text
from headrace_schemas.policy import Rule, digest_of

CaseId = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Case(BaseModel):
    """One question of a suite."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    id: CaseId
    prompt: Text | None = None
    messages: tuple[dict[str, Any], ...] | None = Field(default=None, min_length=1, max_length=200)
    rule: Rule
    weight: float = Field(default=1.0, gt=0, le=1000)

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("a case has either `prompt` or `messages`")
        return self

    def asked(self) -> list[dict[str, Any]]:
        """The chat messages; `prompt` is short for one of the user."""
        return [*self.messages] if self.messages is not None else [{"role": "user", "content": self.prompt}]


class Suite(BaseModel):
    """What `headrace evals push` sends."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    cases: tuple[Case, ...] = Field(min_length=1, max_length=10_000)
    max_tokens: int = Field(default=64, ge=1, le=8192)
    """The most that an answer may have."""

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        ids = [case.id for case in self.cases]
        if len(set(ids)) != len(ids):
            raise ValueError("two cases have the same id")
        return self

    def digest(self) -> str:
        """sha256 in hex over canonical JSON: another case, rule, weight or length is another suite."""
        return digest_of(self.model_dump(mode="json"))
