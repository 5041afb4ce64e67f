"""What becomes of each item of a request: new, said before, or in conflict with what was said under its id."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from headrace_feedback.core.items import FeedbackItem, Problem
from headrace_schemas import FeedbackRecorded
from headrace_schemas.feedback import source_key


class OpinionKey(NamedTuple):
    """One opinion: who says what of which. Later feedback under the same key is a new revision of it."""

    target: str
    metric_name: str
    source: str


class Receipt(NamedTuple):
    """The end of an accepted item."""

    id: str
    replayed: bool
    """It was accepted before, under the same id."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A valid item with its id, given or made."""

    id: str
    item: FeedbackItem

    @property
    def opinion(self) -> OpinionKey:
        return OpinionKey(self.item.target, self.item.metric_name, source_key(self.item.event_source))


@dataclass(frozen=True, slots=True)
class Intake:
    """`outcomes` has one entry a submission; `fresh` is what must be written, in order."""

    outcomes: tuple[Receipt | Problem, ...]
    fresh: tuple[Submission, ...]

    def opinions(self) -> list[tuple[OpinionKey, int]]:
        """How many revisions each opinion gets, in an order that all requests keep (they lock each other's rows)."""
        return sorted(Counter(s.opinion for s in self.fresh).items())


def sort_out(submissions: Sequence[Submission], known: Mapping[str, bytes]) -> Intake:
    """`known`: digests of what was accepted under the ids of these submissions."""
    seen = dict(known)
    outcomes: list[Receipt | Problem] = []
    fresh: list[Submission] = []
    for submission in submissions:
        digest = submission.item.digest()
        before = seen.setdefault(submission.id, digest)
        if before != digest:
            outcomes.append(
                Problem("conflict", f"feedback {submission.id} was accepted before with another content", "id")
            )
        elif submission.id in known or any(f.id == submission.id for f in fresh):
            outcomes.append(Receipt(submission.id, replayed=True))
        else:
            fresh.append(submission)
            outcomes.append(Receipt(submission.id, replayed=False))
    return Intake(tuple(outcomes), tuple(fresh))


def facts(
    fresh: Sequence[Submission],
    *,
    project: str,
    revisions: Mapping[OpinionKey, int],
    sequences: Sequence[int],
    now: datetime,
) -> list[FeedbackRecorded]:
    """The events. `revisions` is the last number that was reserved for each opinion, `sequences` grows."""
    left = Counter(s.opinion for s in fresh)
    events = []
    for submission, sequence in zip(fresh, sequences, strict=True):
        item, opinion = submission.item, submission.opinion
        left[opinion] -= 1
        events.append(
            FeedbackRecorded(
                project=project,
                occurred_at=item.occurred_at or now,
                feedback_id=submission.id,
                revision=revisions[opinion] - left[opinion],
                sequence=sequence,
                inference_id=item.inference_id,
                episode_id=item.episode_id,
                correlation_id=item.correlation_id,
                metric_name=item.metric_name,
                value=item.value,
                comment=item.comment,
                source=item.event_source,
                recorded_at=now,
                tags=item.tags,
            )
        )
    return events
