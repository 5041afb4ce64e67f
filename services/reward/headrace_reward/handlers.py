"""Facts in: read, put aside for the batch, and settle the batch in one go before its commit."""

from collections.abc import Sequence

from pydantic import ValidationError

from headrace_kit import tracing
from headrace_kit.consumer import Consumer
from headrace_kit.errors import Rejected
from headrace_kit.work import Work
from headrace_reward.core.join import Spec
from headrace_reward.core.opinions import InferenceKey, Opinion
from headrace_reward.facts import Arrival, Batch
from headrace_reward.store import Loading, Saving
from headrace_reward.telemetry import SCORED
from headrace_schemas import FeedbackRecorded, InferenceCompleted, PolicyChanged, PolicySpec
from headrace_schemas.policy import RulePart
from headrace_scoring import rule_problem


def register(consumer: Consumer) -> None:
    consumer.on(InferenceCompleted, on_inference)
    consumer.on(FeedbackRecorded, on_feedback)
    consumer.on(PolicyChanged, on_policy)


async def on_inference(event: InferenceCompleted, work: Work) -> None:
    _keepable(event.inference_id, event.episode_id, event.correlation_id, event.segment)
    work.gather(settle, Arrival(event, work.cause, tracing.current()))


async def on_feedback(event: FeedbackRecorded, work: Work) -> None:
    try:
        opinion = Opinion.of(event)
    except ValueError as problem:
        raise Rejected("feedback", str(problem)) from None
    _keepable(*opinion.key, *(opinion.compared or ()))
    work.gather(settle, Arrival(opinion, work.cause, tracing.current()))


async def on_policy(event: PolicyChanged, work: Work) -> None:
    try:
        policy = PolicySpec.model_validate(event.spec)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise Rejected("policy", f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    for part in policy.reward.parts:
        problem = rule_problem(part.rule) if isinstance(part, RulePart) else None
        if problem:
            raise Rejected("policy", f"reward part {part.name}: {problem}")
    spec = Spec(event.revision, policy.reward, policy.reward_digest())
    work.gather(settle, Arrival(((event.project, event.policy), spec), work.cause, tracing.current()))


async def settle(arrivals: Sequence[Arrival], work: Work) -> None:
    """What a transaction brought, joined with all that it concerns."""
    await join(Batch(arrivals), work)


async def join(batch: Batch, work: Work) -> None:
    """Load, decide, save, publish."""
    book, traces = await Loading(work.session).load(batch)
    batch.enter(book)
    changes = book.settle()
    await Saving(work.session).save(changes, book, traces, work.now)
    for event in changes.events:
        key = InferenceKey(event.project, event.trajectory_id)
        tracing.enter(traces.get(key))
        work.cause = changes.causes[key]
        work.publish(event)
        SCORED.labels(event.policy, "none" if event.reward is None else "reward").inc()


def _keepable(*values: str | None) -> None:
    if any(value and "\x00" in value for value in values):
        raise Rejected("nul_character", "an id or a name holds a NUL character, which no database keeps")
