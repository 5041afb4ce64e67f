"""From rows to what one page says, and to the same as JSON."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace_console.core.facts import Facts, FeedbackLine, Row, Scored, Tally
from headrace_console.core.outlook import Outlook, outlook
from headrace_console.core.words import plural

AWAY = timedelta(seconds=60)
"""An agent reports every 15 s; a replica that was not heard of for so long is away."""


@dataclass(frozen=True)
class Station:
    """One step of the loop: how much went through it, and when last."""

    name: str
    count: int
    unit: str
    last: datetime | None
    note: str = ""


@dataclass(frozen=True)
class Gate:
    """The newest gate report of a version."""

    verdict: str
    because: str
    candidate: float
    champion: float
    champion_version: int
    cases: int
    e_value: float
    at: datetime


@dataclass(frozen=True)
class VersionLine:
    """One version: where it comes from, what the gate said, what users say."""

    version: int
    role: str
    """champion, previous, canary, candidate, or empty."""
    parent: int | None
    samples: int | None
    """Trajectories that it was trained on."""
    recipe: str
    run_id: str
    reward: Tally | None
    answers: Tally | None
    gate: Gate | None
    registered_at: datetime | None


@dataclass(frozen=True)
class ReplicaLine:
    """One engine, as its agent last reported it."""

    name: str
    state: str
    """ready, unhealthy, or away where its agent has gone silent."""
    base_model: str
    engine_version: str
    ready: tuple[str, ...]
    failed: tuple[str, ...]
    seen: datetime


@dataclass(frozen=True)
class Change:
    """The champion changed."""

    at: datetime
    version: int
    back: bool
    """To an older version than the one before: a rollback."""


@dataclass(frozen=True)
class Overview:
    """The whole page."""

    policy: str | None
    policies: tuple[str, ...]
    base_model: str
    epoch: int | None
    champion: int | None
    outlook: Outlook
    stations: tuple[Station, ...]
    versions: tuple[VersionLine, ...]
    """Newest first, the base model last."""
    changes: tuple[Change, ...]
    """Oldest first."""
    series: tuple[Scored, ...]
    replicas: tuple[ReplicaLine, ...]
    recent: tuple[FeedbackLine, ...]
    dead_letters: tuple[Row, ...]
    failed: int
    at: datetime

    def line(self, version: int | None) -> VersionLine | None:
        return next((v for v in self.versions if v.version == version), None)


def overview(facts: Facts, now: datetime) -> Overview:
    """Order of arrival plays no part: rows are facts, and this only reads them."""
    route = facts.routes[0] if facts.routes else None
    replicas = tuple(_replica(row, facts.policy, now) for row in facts.replicas)
    versions = _versions(facts, route)
    fresh = _fresh(facts)
    return Overview(
        policy=facts.policy,
        policies=facts.policies,
        base_model=facts.spec["base_model"] if facts.spec else "",
        epoch=route["epoch"] if route else None,
        champion=route["champion"] if route else None,
        outlook=outlook(facts, fresh, any(r.state == "ready" for r in replicas)),
        stations=_stations(facts, fresh),
        versions=versions,
        changes=_changes(facts.routes),
        series=facts.series,
        replicas=replicas,
        recent=facts.recent,
        dead_letters=facts.dead_letters,
        failed=sum(t.failed for t in facts.answers),
        at=now,
    )


def _fresh(facts: Facts) -> int:
    """Answers to learn from that came after the newest run."""
    last_run = facts.runs[0]["occurred_at"] if facts.runs else None
    return sum(1 for s in facts.series if s.teaches and (last_run is None or s.at > last_run))


def _stations(facts: Facts, fresh: int) -> tuple[Station, ...]:
    failed = sum(t.failed for t in facts.answers)
    several = len(facts.policies) > 1
    trigger = facts.spec["trigger_events"] if facts.spec else None
    promoted = [e for e in facts.evaluations if e["verdict"] == "promote"]
    return (
        Station(
            "Answers",
            sum(t.n for t in facts.answers),
            "answer",
            _latest(t.last for t in facts.answers),
            f"{plural(failed, 'request')} failed" if failed else "",
        ),
        Station("Feedback", facts.feedback[0], "piece", facts.feedback[1], "of all policies" if several else ""),
        Station(
            "Trajectories",
            sum(t.n for t in facts.rewards),
            "scored answer",
            _latest(t.last for t in facts.rewards),
            f"{fresh} of {trigger} for the next run" if trigger else "",
        ),
        Station("Runs", len(facts.runs), "run", facts.runs[0]["occurred_at"] if facts.runs else None),
        Station(
            "Gate",
            len(facts.evaluations),
            "report",
            facts.evaluations[0]["occurred_at"] if facts.evaluations else None,
            f"{len(promoted)} to promote" if facts.evaluations else "",
        ),
        Station(
            "Route",
            len(_changes(facts.routes)),
            "new champion",
            facts.routes[0]["occurred_at"] if facts.routes else None,
            f"epoch {facts.routes[0]['epoch']}" if facts.routes else "",
        ),
    )


def _versions(facts: Facts, route: Row | None) -> tuple[VersionLine, ...]:
    """Every version that was registered, that answered, or that a route names; and the base model."""
    registered = {row["version"]: row for row in facts.versions}
    rewards = {t.version: t for t in facts.rewards}
    answers = {t.version: t for t in facts.answers}
    runs = {(row["run_id"], row["digest"]): row for row in facts.runs}
    gates: dict[int, Gate] = {}
    for row in facts.evaluations:  # newest first
        gates.setdefault(
            row["version"],
            Gate(
                row["verdict"],
                row["because"],
                row["candidate_score"],
                row["champion_score"],
                row["champion_version"],
                row["cases"],
                row["e_value"],
                row["occurred_at"],
            ),
        )
    known = {*registered, *rewards, *answers, *gates} | ({0, route["champion"]} if route else set())
    lines = []
    for version in sorted(known, reverse=True):
        row = registered.get(version, {})
        run = runs.get((row.get("run_id"), row.get("digest")), {})
        lines.append(
            VersionLine(
                version=version,
                role=_role(version, route),
                parent=row.get("parent_version"),
                samples=run.get("samples"),
                recipe=run.get("recipe", ""),
                run_id=row.get("run_id", ""),
                reward=rewards.get(version),
                answers=answers.get(version),
                gate=gates.get(version),
                registered_at=row.get("occurred_at"),
            )
        )
    return tuple(lines)


def _role(version: int, route: Row | None) -> str:
    if route is None:
        return ""
    for role in ("champion", "canary", "previous"):
        if route[role] == version:
            return role
    return "candidate" if version in route["candidates"] else ""


def _changes(routes: tuple[Row, ...]) -> tuple[Change, ...]:
    """Routes come newest first; the first route of a policy is its beginning and no change."""
    changes = []
    for earlier, later in zip(routes[::-1], routes[::-1][1:], strict=False):
        if earlier["champion"] != later["champion"]:
            changes.append(
                Change(later["occurred_at"], later["champion"], back=later["champion"] < earlier["champion"])
            )
    return tuple(changes)


def _replica(row: Row, policy: str | None, now: datetime) -> ReplicaLine:
    silent = now - row["occurred_at"] > AWAY
    mine = [a for a in row["adapters"] if a["policy"] == policy]
    return ReplicaLine(
        name=row["replica"],
        state="away" if silent else ("ready" if row["healthy"] else "unhealthy"),
        base_model=row["base_model"],
        engine_version=row["engine_version"],
        ready=tuple(f"v{a['version']}" for a in sorted(mine, key=lambda a: a["version"]) if a["state"] == "ready"),
        failed=tuple(f"v{a['version']}" for a in sorted(mine, key=lambda a: a["version"]) if a["state"] == "failed"),
        seen=row["occurred_at"],
    )


def _latest(times: Iterable[datetime | None]) -> datetime | None:
    return max((t for t in times if t is not None), default=None)
