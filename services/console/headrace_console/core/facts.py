"""What the store hands over for one page: rows as they are, nothing worded yet."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Tally:
    """A mean over one version's answers."""

    version: int
    n: int
    """Answers behind the mean."""
    mean: float | None
    spread: float | None
    """Sample standard deviation; None below two answers."""
    failed: int
    """Requests that got no answer; only counted with answers."""
    last: datetime | None


@dataclass(frozen=True)
class Scored:
    """One scored answer."""

    at: datetime
    reward: float | None
    version: int
    teaches: bool
    """Whether training may learn from it."""


@dataclass(frozen=True)
class FeedbackLine:
    """A piece of feedback, and the answer that it is about where that is known. All texts are untrusted."""

    at: datetime
    metric_name: str
    value: str
    positive: bool | None
    comment: str
    source_kind: str
    target: str
    policy: str | None
    version: int | None
    question: str | None
    answer: str | None


@dataclass(frozen=True)
class Facts:
    """Rows of one page. Lists are newest first, `series` is oldest first."""

    policies: tuple[str, ...]
    policy: str | None
    spec: Row | None
    answers: tuple[Tally, ...]
    rewards: tuple[Tally, ...]
    series: tuple[Scored, ...]
    feedback: tuple[int, datetime | None]
    recent: tuple[FeedbackLine, ...]
    versions: tuple[Row, ...]
    runs: tuple[Row, ...]
    evaluations: tuple[Row, ...]
    routes: tuple[Row, ...]
    replicas: tuple[Row, ...]
    dead_letters: tuple[Row, ...]
