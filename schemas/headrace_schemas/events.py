"""Every event: a fact, past tense, immutable, whole. Where it travels is in topics.py."""

from headrace_schemas.base import Event
from headrace_schemas.learning import (
    CheckpointSaved,
    Directive,
    ScoredPart,
    TrajectoryScored,
)
from headrace_schemas.release import (
    AdapterObserved,
    AdapterRegistered,
    AdapterState,
    EvaluationCompleted,
    GateStatistics,
    GuardResult,
    KeyChanged,
    PolicyChanged,
    Probe,
    RouteChanged,
)
from headrace_schemas.traffic import (
    Comment,
    EngineFacts,
    FeedbackRecorded,
    InferenceCompleted,
    Sampling,
    Source,
    Tags,
    Usage,
)

__all__ = [
    "EVENTS",
    "AdapterObserved",
    "AdapterRegistered",
    "AdapterState",
    "CheckpointSaved",
    "Comment",
    "Directive",
    "EngineFacts",
    "EvaluationCompleted",
    "Event",
    "FeedbackRecorded",
    "GateStatistics",
    "GuardResult",
    "InferenceCompleted",
    "KeyChanged",
    "PolicyChanged",
    "Probe",
    "RouteChanged",
    "Sampling",
    "ScoredPart",
    "Source",
    "Tags",
    "TrajectoryScored",
    "Usage",
]

EVENTS: tuple[type[Event], ...] = (
    InferenceCompleted,
    FeedbackRecorded,
    TrajectoryScored,
    CheckpointSaved,
    AdapterRegistered,
    EvaluationCompleted,
    RouteChanged,
    PolicyChanged,
    KeyChanged,
    AdapterObserved,
)
