"""The contract between Headrace's services, apps and consumers elsewhere: events, topics, ids and the policy file.

Imports pydantic only. Within a major version only optional fields are added (tests/contract explains a break in words).
"""

from headrace_schemas.base import Event
from headrace_schemas.events import (
    EVENTS,
    AdapterObserved,
    AdapterRegistered,
    CheckpointSaved,
    EvaluationCompleted,
    FeedbackRecorded,
    InferenceCompleted,
    KeyChanged,
    PolicyChanged,
    RouteChanged,
    TrajectoryScored,
)
from headrace_schemas.policy import PolicySpec
from headrace_schemas.topics import TOPICS, Topic, topic_of

__all__ = [
    "EVENTS",
    "TOPICS",
    "AdapterObserved",
    "AdapterRegistered",
    "CheckpointSaved",
    "EvaluationCompleted",
    "Event",
    "FeedbackRecorded",
    "InferenceCompleted",
    "KeyChanged",
    "PolicyChanged",
    "PolicySpec",
    "RouteChanged",
    "Topic",
    "TrajectoryScored",
    "topic_of",
]
