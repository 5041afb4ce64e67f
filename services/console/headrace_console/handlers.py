"""Every topic into the read model. A fact may come twice, late, or before what it is about: each row knows what is
newer, and nothing is joined before it is shown.
"""

from headrace_console.core import fold
from headrace_console.store import Store
from headrace_kit.consumer import Consumer
from headrace_kit.work import Work
from headrace_schemas import (
    AdapterObserved,
    AdapterRegistered,
    CheckpointSaved,
    EvaluationCompleted,
    FeedbackRecorded,
    InferenceCompleted,
    PolicyChanged,
    RouteChanged,
    TrajectoryScored,
)


def register(consumer: Consumer) -> None:
    """All subscriptions of the console."""
    consumer.on(InferenceCompleted, on_inference)
    consumer.on(FeedbackRecorded, on_feedback)
    consumer.on(TrajectoryScored, on_trajectory)
    consumer.on(CheckpointSaved, on_checkpoint)
    consumer.on(AdapterRegistered, on_registered)
    consumer.on(EvaluationCompleted, on_evaluation)
    consumer.on(RouteChanged, on_route)
    consumer.on(PolicyChanged, on_policy)
    consumer.on(AdapterObserved, on_replica)


async def on_inference(event: InferenceCompleted, work: Work) -> None:
    await Store(work.session).add_inference(fold.inference(event))


async def on_feedback(event: FeedbackRecorded, work: Work) -> None:
    await Store(work.session).add_feedback(fold.feedback(event))


async def on_trajectory(event: TrajectoryScored, work: Work) -> None:
    await Store(work.session).put_trajectory(fold.trajectory(event))


async def on_checkpoint(event: CheckpointSaved, work: Work) -> None:
    await Store(work.session).add_run(fold.run(event))


async def on_registered(event: AdapterRegistered, work: Work) -> None:
    await Store(work.session).add_version(fold.version(event))


async def on_evaluation(event: EvaluationCompleted, work: Work) -> None:
    await Store(work.session).add_evaluation(fold.evaluation(event))


async def on_route(event: RouteChanged, work: Work) -> None:
    await Store(work.session).add_route(fold.route(event))


async def on_policy(event: PolicyChanged, work: Work) -> None:
    await Store(work.session).put_policy(fold.policy(event))


async def on_replica(event: AdapterObserved, work: Work) -> None:
    await Store(work.session).put_replica(fold.replica(event))
