"""Facts that training follows: load → core → save. No training in here; a run is a row that a worker claims."""

from pydantic import ValidationError

from headrace_kit.consumer import Consumer
from headrace_kit.errors import Rejected
from headrace_kit.work import Work
from headrace_schemas import PolicyChanged, PolicySpec, RouteChanged, TrajectoryScored
from headrace_training.core.arrival import arrived, renews
from headrace_training.store import Store


def register(consumer: Consumer) -> None:
    consumer.on(TrajectoryScored, on_trajectory)
    consumer.on(PolicyChanged, on_policy)
    consumer.on(RouteChanged, on_route)


async def on_trajectory(event: TrajectoryScored, work: Work) -> None:
    """Keep the newest revision of a trajectory, whichever comes last."""
    store, now = Store(work.session), arrived(event)
    known = await store.sample(event.project, event.trajectory_id)
    if known is None:
        await store.put_sample(event, now, 0, work.now)
        return
    before, was_useful, uses, since = known
    if before.revision >= event.revision:
        return
    again = renews(before, was_useful, now)
    await store.put_sample(event, now, 0 if again else uses, work.now if again else since)


async def on_policy(event: PolicyChanged, work: Work) -> None:
    """Keep the newest spec."""
    try:
        spec = PolicySpec.model_validate(event.spec)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise Rejected("bad_spec", str(first["msg"]), ".".join(map(str, first["loc"]))) from None
    await Store(work.session).put_policy(event, spec)


async def on_route(event: RouteChanged, work: Work) -> None:
    """Keep the newest route: it says what the next run continues, and whether a candidate waits for its verdict."""
    await Store(work.session).put_route(event)
