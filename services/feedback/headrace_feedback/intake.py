"""Accept feedback: one transaction with its outbox rows, and only then an answer."""

from collections.abc import Sequence

from headrace_feedback.core.intake import Receipt, Submission, facts, sort_out
from headrace_feedback.core.items import Problem
from headrace_feedback.store import Store
from headrace_kit.errors import HeadraceError, Retryable
from headrace_kit.service import Service
from headrace_kit.work import Work

_TRIES = 3


class _Raced(HeadraceError):
    """Another request with the same id came in between; look again."""


async def accept(service: Service, project: str, submissions: Sequence[Submission]) -> tuple[Receipt | Problem, ...]:
    """One outcome a submission; what is accepted is durable when this returns.

    Raises Retryable where the database did not take it: then nothing of it was kept.
    """
    for _ in range(_TRIES):
        try:
            async with service.unit_of_work() as work:
                return await _accept(work, project, submissions)
        except _Raced:
            continue
    raise Retryable("other requests with the same ids are being written: send it again")


async def _accept(work: Work, project: str, submissions: Sequence[Submission]) -> tuple[Receipt | Problem, ...]:
    store = Store(work.session)
    intake = sort_out(submissions, await store.digests(project, [s.id for s in submissions]))
    if intake.fresh:
        revisions = await store.reserve_revisions(project, intake.opinions())
        sequences = await store.next_sequences(len(intake.fresh))
        events = facts(intake.fresh, project=project, revisions=revisions, sequences=sequences, now=work.now)
        if not await store.insert(intake.fresh, events):
            raise _Raced
        for event in events:
            work.publish(event)
    return intake.outcomes
