"""What somebody holds about an answer: feedback reduced to what counts now."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple, Self

from headrace_schemas import FeedbackRecorded, InferenceCompleted
from headrace_schemas.feedback import comparison_ids, source_key, target_key, value_problem


class OpinionKey(NamedTuple):
    """Who says what of which: later feedback under the same key replaces earlier."""

    project: str
    target: str
    """`inference:…`, `correlation:…` or `episode:…`."""
    metric_name: str
    source: str


class InferenceKey(NamedTuple):
    """An inference of a project."""

    project: str
    inference_id: str


@dataclass(frozen=True, slots=True)
class Opinion:
    """The newest revision of one opinion that we know."""

    key: OpinionKey
    feedback_id: str
    revision: int
    sequence: int
    value: Any
    """None: it was taken back."""
    comment: str | None
    trust: float
    source_kind: str
    actor: str | None
    recorded_at: datetime
    matched: bool = False
    """At least one inference that it is about is known; until then it is an orphan."""

    @classmethod
    def of(cls, event: FeedbackRecorded) -> Self:
        """Raises ValueError, in words, for feedback that the contract does not allow."""
        problem = value_problem(event.metric_name, event.value)
        if problem:
            raise ValueError(problem)
        target = target_key(
            inference_id=event.inference_id, episode_id=event.episode_id, correlation_id=event.correlation_id
        )
        return cls(
            key=OpinionKey(event.project, target, event.metric_name, source_key(event.source)),
            feedback_id=event.feedback_id,
            revision=event.revision,
            sequence=event.sequence,
            value=event.value,
            comment=event.comment,
            trust=event.trust,
            source_kind=event.source.kind,
            actor=event.source.id,
            recorded_at=event.recorded_at,
        )

    @property
    def live(self) -> bool:
        return self.value is not None

    @property
    def compared(self) -> tuple[str, str] | None:
        """(chosen, rejected), where it is a comparison that holds."""
        return comparison_ids(self.value) if self.key.metric_name == "comparison" and self.live else None

    @property
    def order(self) -> tuple[int, int, str]:
        """Of two revisions the greater one holds; the server made them so, and arrival does not matter."""
        return self.revision, self.sequence, self.feedback_id

    def found(self) -> Self:
        return self if self.matched else replace(self, matched=True)


_NEARNESS = {"inference": 0, "correlation": 1, "episode": 2}


def targets_of(inference: InferenceCompleted) -> tuple[str, ...]:
    """The targets that name this inference, nearest first."""
    named = [f"inference:{inference.inference_id}", f"episode:{inference.episode_id}"]
    if inference.correlation_id is not None:
        named.insert(1, f"correlation:{inference.correlation_id}")
    return tuple(named)


def about(inference_id: str, opinions: Iterable[Opinion]) -> list[Opinion]:
    """What counts for one inference, in the server's order, out of all opinions whose target names it.

    Where one source says the same metric of the inference and of its request or episode, the nearest target counts.
    A comparison counts for the two inferences that it names, whatever its target.
    """
    nearest: dict[tuple[str, ...], Opinion] = {}
    for opinion in opinions:
        if not opinion.live:
            continue
        name: tuple[str, ...] = (opinion.key.metric_name, opinion.key.source)
        if opinion.key.metric_name == "comparison":
            if inference_id not in (opinion.compared or ()):
                continue
            name = tuple(opinion.key)
        held = nearest.get(name)
        if held is None or _nearness(opinion) < _nearness(held):
            nearest[name] = opinion
    return sorted(nearest.values(), key=lambda opinion: (opinion.sequence, opinion.feedback_id))


def _nearness(opinion: Opinion) -> int:
    return _NEARNESS[opinion.key.target.partition(":")[0]]
