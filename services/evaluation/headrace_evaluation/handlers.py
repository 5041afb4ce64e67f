"""Facts that evaluation follows. They are kept; what is to be judged is planned by the worker from all of them."""

from headrace_evaluation.store import Store
from headrace_kit.consumer import Consumer
from headrace_kit.work import Work
from headrace_schemas import AdapterObserved, AdapterRegistered, PolicyChanged, RouteChanged


def register(consumer: Consumer) -> None:
    consumer.on(AdapterRegistered, on_registered)
    consumer.on(AdapterObserved, on_observed)
    consumer.on(RouteChanged, on_route)
    consumer.on(PolicyChanged, on_policy)


async def on_registered(event: AdapterRegistered, work: Work) -> None:
    await Store(work.session).keep_candidate(event)


async def on_observed(event: AdapterObserved, work: Work) -> None:
    await Store(work.session).keep_replica(event)


async def on_route(event: RouteChanged, work: Work) -> None:
    await Store(work.session).keep_route(event)


async def on_policy(event: PolicyChanged, work: Work) -> None:
    await Store(work.session).keep_policy(event)
