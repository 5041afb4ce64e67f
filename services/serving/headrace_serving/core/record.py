"""The terminal record of an inference, from what was admitted, decided and answered."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from headrace_schemas import InferenceCompleted
from headrace_schemas.traffic import EngineFacts
from headrace_serving.core.admission import Admitted
from headrace_serving.core.answer import Collected
from headrace_serving.core.routing import Choice, Decision

State = Literal["completed", "client_aborted", "upstream_failed", "timeout"]


@dataclass(frozen=True)
class Outcome:
    """How it ended. Times in seconds."""

    state: State
    answered: Choice
    fallback: bool
    replica: str
    engine: EngineFacts
    ttft_s: float | None
    latency_s: float
    error: str | None = None


def record_of(
    admitted: Admitted,
    decision: Decision,
    collected: Collected,
    outcome: Outcome,
    *,
    project: str,
    inference_id: str,
    episode_id: str,
    occurred_at: datetime,
) -> InferenceCompleted:
    """An evaluation's requests are recorded without content (a suite's prompts never leave evaluation) and without
    leave to learn. Logprobs that do not match the tokens one by one are left out, so that nobody trains on them.
    """
    content = not decision.evaluation
    trainable = content and collected.aligned()
    return InferenceCompleted(
        project=project,
        occurred_at=occurred_at,
        inference_id=inference_id,
        episode_id=episode_id,
        correlation_id=admitted.correlation_id,
        policy=decision.route.policy,
        policy_version=outcome.answered.ref.version,
        adapter_digest=outcome.answered.ref.digest,
        variant=outcome.answered.variant,
        fallback=outcome.fallback,
        propensity=outcome.answered.propensity,
        messages=admitted.messages if content else (),
        prompt=admitted.prompt if content else None,
        tools=admitted.tools if content else (),
        completion="".join(collected.text) if content else "",
        tool_calls=tuple(collected.tool_calls) if content else (),
        prompt_token_ids=tuple(collected.prompt_token_ids) if content else (),
        completion_token_ids=tuple(collected.token_ids) if content else (),
        logprobs=tuple(collected.logprobs) if trainable else (),
        sampling=admitted.sampling,
        engine=outcome.engine,
        state=outcome.state,
        finish_reason=collected.finish_reason,
        error=outcome.error[:20_000] if outcome.error else None,
        usage=collected.usage_or_count(),
        ttft_s=outcome.ttft_s,
        latency_s=max(outcome.latency_s, 0.0),
        actor=admitted.actor,
        segment=admitted.segment,
        metadata=dict(admitted.metadata),
        train=admitted.train and not decision.evaluation,
        retry_count=admitted.retry_count,
        replica=outcome.replica[:200],
    )
