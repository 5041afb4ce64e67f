"""When a run starts, and in words why or why not."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace_schemas import PolicySpec, RouteChanged
from headrace_schemas.policy import seconds

ROUTED_WITHIN = timedelta(seconds=120)
"""A checkpoint that no route named for so long was refused by the registry; the next run need not wait for it."""


@dataclass(frozen=True)
class Standing:
    """What is known of a policy at a moment."""

    now: datetime
    new_mass: float
    """Events that no run has used, each counted by its trust."""
    new_samples: int
    oldest: datetime | None
    """Since when the oldest of them waits."""
    active_run: str | None
    """A run that is queued or under way."""
    checkpoint_at: datetime | None
    """When the newest checkpoint was saved, while no route has named it yet."""


@dataclass(frozen=True)
class Decision:
    """Whether to start, and the sentence that goes with it."""

    start: bool
    because: str


def decide(spec: PolicySpec, route: RouteChanged | None, standing: Standing, known_recipes: frozenset[str]) -> Decision:
    """The trigger. One run and one candidate a policy at a time, so that a version's parent is what users have."""
    trigger = spec.train.trigger
    if spec.train.recipe not in known_recipes:
        return Decision(
            False, f"the policy names recipe {spec.train.recipe}; known are {', '.join(sorted(known_recipes))}"
        )
    if standing.active_run is not None:
        return Decision(False, f"run {standing.active_run} is under way")
    if route is None:
        return Decision(False, "the policy has no route yet")
    if route.canary is not None or route.load:
        pending = ", ".join(f"v{ref.version}" for ref in (route.canary, *route.load) if ref is not None)
        person = ", or for a person to promote it" if spec.gate.promote == "manual" else ""
        return Decision(False, f"{pending} waits for its verdict{person}")
    if standing.checkpoint_at is not None and standing.now - standing.checkpoint_at < ROUTED_WITHIN:
        return Decision(False, "the newest checkpoint is not registered yet")
    if standing.new_mass >= trigger.events:
        return Decision(True, f"{standing.new_samples} new events, {trigger.events} asked for")
    if trigger.or_after is not None and standing.oldest is not None and standing.new_samples >= trigger.min_events:
        age = (standing.now - standing.oldest).total_seconds()
        if age >= seconds(trigger.or_after):
            return Decision(True, f"{standing.new_samples} new events, the oldest waits for {trigger.or_after}")
    return Decision(False, f"{standing.new_mass:g} of {trigger.events} new events")
