"""What the demo found out, as values, and the same as JSON."""

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

USD_PER_MILLION_IN = 0.10
USD_PER_MILLION_OUT = 0.40
PRICES = (
    f"tokens of the held-out questions and answers at {USD_PER_MILLION_IN:.2f} USD per million in and "
    f"{USD_PER_MILLION_OUT:.2f} USD per million out (an example price), divided by the answers that "
    "users like"
)


@dataclass(frozen=True)
class Measurement:
    """The held-out questions, answered greedily by the champion."""

    events: int
    """Feedback given before."""
    version: int
    answers: tuple[str, ...]
    liked: tuple[bool, ...]
    prompt_tokens: int
    completion_tokens: int
    seconds: float

    @property
    def satisfaction(self) -> float:
        """Share of answers that users like."""
        return sum(self.liked) / len(self.liked)

    @property
    def tokens_per_answer(self) -> float:
        return self.completion_tokens / len(self.answers)

    @property
    def usd_per_accepted(self) -> float | None:
        """See PRICES; None where nothing is liked."""
        if not any(self.liked):
            return None
        cost = self.prompt_tokens * USD_PER_MILLION_IN + self.completion_tokens * USD_PER_MILLION_OUT
        return cost / 1e6 / sum(self.liked)


@dataclass(frozen=True)
class VersionFacts:
    """What became of a version."""

    version: int
    events: int
    """Feedback given when it was trained."""
    outcome: str
    """promoted, held, rejected."""
    verdict: str | None
    because: str
    candidate: float | None
    """Mean score on the private suite."""
    champion: float | None
    e_value: float | None
    train_s: float
    """From the last feedback to its registration."""
    gate_s: float
    """From its registration to the outcome: loaded, proved, judged, routed."""
    parent: int | None = None
    samples: int | None = None


@dataclass(frozen=True)
class Rollback:
    """One alias moved back, and the old answers with it."""

    from_version: int
    to_version: int
    seconds: float
    """From the command to the first answer of the old version."""
    questions: tuple[str, ...]
    before: tuple[str, ...]
    """By the newer version."""
    after: tuple[str, ...]
    """After the rollback."""
    recorded: tuple[str, ...]
    """What the old version had answered when it was champion."""

    @property
    def same(self) -> int:
        """How many old answers are back, word for word."""
        return sum(one == two for one, two in zip(self.after, self.recorded, strict=True))


@dataclass
class Facts:
    """The demo so far."""

    world: str
    style: str
    seed: int
    target: float
    events_allowed: int
    events: int = 0
    requests: int = 0
    failed_requests: int = 0
    reactions: Counter[str] = field(default_factory=Counter)
    """silence, thumb, mistaken thumb, correction."""
    asked_liked: list[tuple[int, float]] = field(default_factory=list)
    """After each round: feedback so far, and the share of that round's answers that their users liked."""
    curve: list[Measurement] = field(default_factory=list)
    versions: list[VersionFacts] = field(default_factory=list)
    stages_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    rollback: Rollback | None = None
    questions: tuple[str, ...] = ()
    """The held-out ones."""
    machine: dict[str, Any] = field(default_factory=dict)
    git: str = ""
    base_model: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def reached(self) -> bool:
        return bool(self.curve) and self.curve[-1].satisfaction >= self.target

    def events_to_target(self) -> int | None:
        """Feedback that was needed, or None."""
        return next((m.events for m in self.curve if m.satisfaction >= self.target), None)

    def best_examples(self, count: int = 3) -> list[int]:
        """Held-out questions for people to read: those that are liked now and were not, first ones first."""
        if not self.curve:
            return []
        first, last = self.curve[0].liked, self.curve[-1].liked
        gained = [i for i, (a, b) in enumerate(zip(first, last, strict=True)) if b and not a]
        return (gained + [i for i in range(len(first)) if i not in gained])[:count]

    def to_json(self) -> dict[str, Any]:
        """Figures for benchmarks and the README."""
        return {
            "curve": [
                {
                    "events": m.events,
                    "satisfaction": round(m.satisfaction, 4),
                    "tokens_per_answer": round(m.tokens_per_answer, 2),
                    "version": m.version,
                    "usd_per_accepted_answer": m.usd_per_accepted,
                    "n": len(m.answers),
                }
                for m in self.curve
            ],
            "failed_requests": self.failed_requests,
            "stages_s": {name: round(seconds, 2) for name, seconds in self.stages_s.items()},
            "versions": [asdict(v) for v in self.versions],
            "rollback": asdict(self.rollback) | {"same": self.rollback.same} if self.rollback else None,
            "seed": self.seed,
            "git": self.git,
            "events": self.events,
            "events_allowed": self.events_allowed,
            "events_to_target": self.events_to_target(),
            "target": self.target,
            "reached": self.reached,
            "requests": self.requests,
            "reactions": dict(self.reactions),
            "asked_liked": [{"events": events, "share": round(share, 4)} for events, share in self.asked_liked],
            "world": self.world,
            "style": self.style,
            "base_model": self.base_model,
            "cost": PRICES,
            "examples": [
                {"question": self.questions[i], "before": self.curve[0].answers[i], "after": self.curve[-1].answers[i]}
                for i in self.best_examples()
            ],
            "machine": self.machine,
            "notes": self.notes,
        }
