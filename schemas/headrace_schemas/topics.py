"""The map: one line a topic. Schemas, the AsyncAPI document, topic creation and the README's picture come from here."""

from typing import NamedTuple

from headrace_schemas import events as e
from headrace_schemas.base import Event

DAY = 86_400
FOREVER = -1


class Topic(NamedTuple):
    """A topic and who is on which side of it."""

    event: type[Event]
    partitions: int
    retention_s: int
    """Seconds; FOREVER with compaction."""
    producer: str
    consumers: tuple[str, ...]
    keyed_by: str
    """What the key is, in the event's own words: records of one key keep their order."""

    @property
    def compacted(self) -> bool:
        return self.retention_s == FOREVER

    def name(self, prefix: str = "headrace") -> str:
        return f"{prefix}.{self.event.type}.v{self.event.major}"

    def dead_letters(self, prefix: str = "headrace") -> str:
        return f"{self.name(prefix)}.dlq"


# Joined topics have the same number of partitions and the same key (the episode id).
TOPICS: tuple[Topic, ...] = (
    Topic(e.InferenceCompleted, 12, 7 * DAY, "serving", ("reward", "console"), "episode_id"),
    Topic(e.FeedbackRecorded, 12, 30 * DAY, "feedback", ("reward", "console"), "episode_id"),
    Topic(e.TrajectoryScored, 12, 30 * DAY, "reward", ("training", "console"), "episode_id"),
    Topic(e.CheckpointSaved, 3, 30 * DAY, "training", ("registry", "console"), "policy"),
    Topic(e.AdapterRegistered, 3, 30 * DAY, "registry", ("evaluation", "console"), "policy"),
    Topic(e.EvaluationCompleted, 3, 30 * DAY, "evaluation", ("registry", "console"), "policy"),
    Topic(e.RouteChanged, 1, FOREVER, "registry", ("serving", "training", "evaluation", "console"), "policy"),
    Topic(
        e.PolicyChanged, 1, FOREVER, "registry", ("serving", "reward", "training", "evaluation", "console"), "policy"
    ),
    Topic(e.KeyChanged, 1, FOREVER, "registry", ("serving",), "prefix"),
    Topic(e.AdapterObserved, 1, FOREVER, "serving", ("serving", "registry", "evaluation", "console"), "replica"),
)

_BY_EVENT = {topic.event: topic for topic in TOPICS}


def topic_of(event: type[Event]) -> Topic:
    """The topic that carries `event`."""
    return _BY_EVENT[event]
